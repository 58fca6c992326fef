"""The cheats about units, as one table: the behaviour of each party, and the event of the money table that it ends in.

Every claim of the devnet is checked, because its check rate is 1. A scene is played until each cheat in it is caught.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from devnet.stage.cheating.__main__ import CHECKER_CHEATS, COPYING_MODE, DEAF_MODE, MODEL_CHEATS
from gpu_tasks.market.claims.claims import CheckEnd
from gpu_tasks.market.claims.money import MoneyEvent

REFUTED = MoneyEvent.PROVIDER_FALSE


class CustomerDeed(Enum):
    """The action of the customer when it can read the result."""

    NONE = auto()
    DISPUTE = auto()
    """Disputes the first item."""


@dataclass(frozen=True, slots=True)
class UnitScene:
    """One unit or several, and the behaviour of their parties."""

    name: str
    title: str
    racers: tuple[str | None, ...]
    """The modes of the racing daemons. An honest one has None."""
    event: MoneyEvent | None = REFUTED
    """The event of the money table that catches the cheat. None if the chain fines a miss, or refuses calls."""
    requests: int = 1
    units: int = 1
    others: tuple[str | None, ...] = ()
    """The modes of all other daemons, in turn. They check and vote. Without any, they are honest."""
    customer: CustomerDeed = CustomerDeed.NONE

    @property
    def cheats(self) -> frozenset[str]:
        """The modes that must be caught. None if only the customer cheats."""
        return frozenset(mode for mode in (*self.others, *self.racers) if mode is not None)

    @property
    def wrong_workers(self) -> frozenset[str | None]:
        """The modes whose workers compute wrongly, so that their votes in disputes of other scenes are wrong too."""
        return frozenset(self.racers) & set(MODEL_CHEATS)


RESULT_SCENES = (
    UnitScene("rivals", "two racers, one with a false result: voters", ("all-wrong", None)),
    UnitScene("pair", "two racers agree on a false result: a checker", ("all-wrong", "all-wrong")),
    UnitScene("alone", "a false result without a rival: a checker", ("all-wrong",)),
    UnitScene("batch", "all items of a batch are false", ("all-wrong",), requests=16),
    UnitScene("item", "one item of four is false", ("one-wrong",), requests=4),
    UnitScene("rival-batches", "two racers differ in one of 72 items: voters", ("one-wrong", None), requests=72),
    UnitScene("hidden-answers", "two racers differ in one of 8 items, and the liar delivers nothing: voters",
              ("hidden-answers", None), requests=8),
    UnitScene("padded", "outputs longer than computed", ("padded",), requests=4),
    UnitScene("cut-short", "half of each output", ("cut-short",), requests=4),
    UnitScene("false-errors", "a good request is called invalid", ("false-errors",), requests=4),
    UnitScene("made-up-sums", "totals above the sum of the items", ("made-up-sums",), requests=4),
    UnitScene("withheld-delivery", "a right result that no checker or voter receives", ("withheld-delivery",)),
    UnitScene("withheld-samples", "a right result without samples", ("withheld-samples",)),
    UnitScene("made-up-samples", "a right result with invented samples", ("made-up-samples",)),
    UnitScene("early-dispute", "the customer finds a false result before the draw", ("all-wrong",),
              customer=CustomerDeed.DISPUTE),
    UnitScene("false-dispute", "the customer disputes a right result", (None,), MoneyEvent.FALSE_DISPUTE,
              customer=CustomerDeed.DISPUTE),
    UnitScene("copied-result", "a racer copies its rival", ("copied-result", None), event=None),
    UnitScene("replayed-attestation", "a racer sends an old attestation", ("replayed-attestation", None), event=None,
              units=2),
    UnitScene("late-reveal", "a racer reveals after the window", ("late-reveal", None), event=None),
)  # fmt: skip
"""Scenes with honest checkers and voters."""
CHECKER_SCENES = (
    UnitScene("checkers", "right results, and every checker cheats: it accuses, copies, conceals or is silent",
              (None,), event=None, units=8, others=tuple(CHECKER_CHEATS)),
)  # fmt: skip
COLLUDING_SCENES = (
    UnitScene("collusion", "a false result, and half of the checkers copy its invented samples: a second check",
              ("all-wrong",), MoneyEvent.BOTH_FALSE, units=24, others=(COPYING_MODE, None)),
)  # fmt: skip
STRANGER_SCENES = (
    UnitScene("not-assigned", "providers answer in races of others", (None,), event=None, others=("not-assigned",)),
)
LAYER_SCENES = (
    UnitScene("fewer-layers", "a model without its last layers, alone", ("fewer-layers",)),
    UnitScene("fewer-layers-raced", "the same beside an honest racer: voters", ("fewer-layers", None)),
)
CHECKER_EVENTS = {
    "accusing-checker": (CheckEnd.REFUTED, MoneyEvent.CHECKER_FALSE),
    COPYING_MODE: (CheckEnd.REFUTED, MoneyEvent.CHECKER_FALSE),
    DEAF_MODE: (CheckEnd.REFUTED, MoneyEvent.FETCHED),
    "conceding-checker": (CheckEnd.CONCEDED, MoneyEvent.CONCEDED),
    "silent-checker": (CheckEnd.SILENT, MoneyEvent.SILENT),
    "unopened-checker": (CheckEnd.UNOPENED, MoneyEvent.UNOPENED),
}
"""The end of a check of a right result by each cheating checker, and its event of the money table."""


def daemons_of(scenes: Sequence[UnitScene]) -> Counter[str | None]:
    """Return the racing daemons that scenes need at once, by mode. Scenes share daemons of equal modes."""
    needed: Counter[str | None] = Counter()
    for scene in scenes:
        needed |= Counter(scene.racers)
    return needed


def rounds_of(scenes: Sequence[UnitScene], daemons: int) -> list[list[UnitScene]]:
    """Return scenes in rounds that are played at once, each with at most so many racing daemons."""
    rounds: list[list[UnitScene]] = []
    for scene in scenes:
        last = rounds[-1] if rounds else []
        is_alike = bool(last) and (last[0].others, last[0].wrong_workers) == (scene.others, scene.wrong_workers)
        if is_alike and daemons_of([*last, scene]).total() <= daemons:
            last.append(scene)
        else:
            rounds.append([scene])
    return rounds
