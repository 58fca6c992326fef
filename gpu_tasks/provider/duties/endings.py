"""The outcomes of races, from the final chain only: earnings, and entries to forget.

Invariant: a race stays in the journal with its result until no dispute or claim about it is open, so that this provider
can show its tree, deliver its items and show its samples, also after a restart.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpu_tasks.market.inference.gpu_tasks_api import UnitStatus
from gpu_tasks.market.inference.money import due, fee, witness_pay
from gpu_tasks.market.inference.race_results import result
from gpu_tasks.market.inference.units import Refund, Unit, UnitState, is_open, racer_of
from gpu_tasks.provider.chain.port import RacePort, View
from gpu_tasks.provider.duties.duty import ENDINGS_EVERY_BLOCKS, Duty, Endings
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.journal.journal import RaceKey
from gpu_tasks.provider.journal.pause_book import PauseCause
from gpu_tasks.provider.journal.records import End, RaceEntry

READS_PER_ROUND_MAX = 32
REFUTED = "refuted: another result was found right, so its collateral is lost and its device is paused"


class EndingDuty(Duty):
    """The duty to note endings in the journal."""

    def __init__(self, parts: Parts[RacePort], informed_duties: Iterable[Duty]) -> None:
        """All `informed_duties` learn the endings."""
        self._parts = parts
        self._duties = informed_duties
        self._round = 0
        self._asked_in: dict[RaceKey, int] = {}
        """The round in which each open race was last read."""
        self._refuted: set[RaceKey] = set()
        """The open races with a noted refutation."""

    async def step(self, view: View) -> None:
        """Examine the final state in a due block.

        Raise ChainError after the duties have learned the findings so far.
        """
        if view.height % ENDINGS_EVERY_BLOCKS:
            return
        endings = Endings()
        try:
            for race_key, race_entry in self._races_in_turn():
                await self._settle_race(race_key, race_entry, endings)
        # The journal already has the endings before the error, so the duties must learn them too.
        finally:
            for duty in self._duties:
                duty.learn(endings)

    def _races_in_turn(self) -> list[tuple[RaceKey, RaceEntry]]:
        """Choose the open races to read now: those that were read the longest ago.

        A fixed order by age would starve the later races, and the refutation of one of them would be noted late.
        """
        open_races = dict(self._parts.journal.open_races())
        self._round += 1
        self._refuted &= open_races.keys()
        chosen = sorted(open_races, key=lambda race_key: self._asked_in.get(race_key, 0))[:READS_PER_ROUND_MAX]
        self._asked_in = {race_key: asked_at for race_key, asked_at in self._asked_in.items() if race_key in open_races}
        self._asked_in.update(dict.fromkeys(chosen, self._round))
        return [(race_key, open_races[race_key]) for race_key in chosen]

    async def _settle_race(self, race_key: RaceKey, race_entry: RaceEntry, endings: Endings) -> None:
        """Note a race in the journal if it is over, and report its payment."""
        parts, stash = self._parts, self._parts.identity.stash
        unit_status = await parts.chain.final_unit(race_key[0])
        was_refuted, race_outcome = is_refuted(unit_status, race_key, stash), race_end(unit_status, race_key, stash)
        # One commit: a crash in between would resume a refuted device, lose a payment, or count it twice.
        with parts.journal.step():
            if was_refuted and race_key not in self._refuted:
                parts.pauses.note(race_entry.device, cause=PauseCause.REFUTED, why=REFUTED, resumes_at=None)
            if race_outcome is not None and unit_status is not None:
                service = f"service {unit_status.unit.service}"
                tokens = 0 if race_entry.result is None else race_entry.result.totals.tokens_out
                parts.earnings.note(
                    "unit", *race_key, device=race_entry.device, service=service, grains=race_outcome[1], tokens=tokens
                )
            if race_outcome is not None:
                parts.journal.races.change(race_key, end=race_outcome[0], paid=race_outcome[1])
        if was_refuted:
            self._refuted.add(race_key)
        if race_outcome is None:
            return
        problem_fields = {"problem": REFUTED} if was_refuted else {}
        if race_outcome[0] is End.UNPAID and not was_refuted:
            problem_fields = {"reason": why_unpaid(unit_status, race_key, stash)}
        endings.paid.extend([race_entry.device] * (race_outcome[0] is not End.UNPAID))
        parts.telemetry.tell(
            "ended",
            unit=race_key[0],
            attempt=race_key[1],
            end=race_outcome[0].name.lower(),
            grains=race_outcome[1],
            **problem_fields,
        )
        endings.races.append(race_key)


class KeptInputDuty(Duty):
    """The duty to remove copies of inputs that no unit of the final chain needs.

    Until then a unit may be drawn again, checked or disputed.
    """

    def __init__(self, parts: Parts[RacePort]) -> None:
        """Nothing is removed before the first step."""
        self._parts = parts

    async def step(self, view: View) -> None:
        """Examine some units in turn, in a due block, except those that the view names."""
        if view.height % ENDINGS_EVERY_BLOCKS:
            return
        kept_inputs, chain = self._parts.inputs.kept, self._parts.chain
        under_way = {duty.id for duty in view.duties} | {status.id for status in view.claims}
        under_way |= {ballot.status.dispute.terms.work for ballot in view.ballots}
        unit_ids = kept_inputs.units_in_turn(READS_PER_ROUND_MAX, under_way)
        kept_inputs.release([unit_id for unit_id in unit_ids if is_over(await chain.final_unit(unit_id))])


def race_end(unit_status: UnitStatus | None, race_key: RaceKey, stash: bytes) -> tuple[End, int] | None:
    """Return the outcome of a race and its payment in grains after the fee; None while it runs.

    A unit is drawn only after its posting is final, so a unit that the final chain does not know has ended.
    """
    if unit_status is None:
        return End.UNPAID, 0
    unit = unit_status.unit
    if unit.attempt != race_key[1]:
        return (End.UNPAID, 0) if unit.attempt > race_key[1] else None
    if unit.state is UnitState.SETTLED:
        return _earned_grains(unit, stash)
    # While results differ or are claimed, a checker or voters may still need this provider's result.
    return (End.UNPAID, 0) if unit.state in (UnitState.REFUNDED, UnitState.QUEUED) else None


def why_unpaid(unit_status: UnitStatus | None, race_key: RaceKey, stash: bytes) -> str:
    """Return the reason that an ended race paid this provider nothing, by the chain's remaining data."""
    if unit_status is None:
        return "the chain has dropped the unit"
    unit = unit_status.unit
    if unit.attempt != race_key[1]:
        return "the unit was drawn again, for other providers"
    if unit.state is UnitState.REFUNDED:
        return "the unit was refunded"
    if unit.state is UnitState.QUEUED:
        return "the unit is queued again: the race ended without a result"
    racer = racer_of(unit, stash)
    if racer is None or racer.has_declined:
        return "this provider gave the unit back"
    if racer.commitment is None or racer.reveal is None:
        return "this provider's result was not in time"
    return "other providers had the same result earlier"


def is_refuted(unit_status: UnitStatus | None, race_key: RaceKey, stash: bytes) -> bool:
    """Return True if the stash lost its collateral for a false result in this race."""
    unit = None if unit_status is None else unit_status.unit
    racer = None if unit is None or unit.attempt != race_key[1] else racer_of(unit, stash)
    if unit is None or racer is None or racer.reveal is None:
        return False
    if unit.output_root is None:
        # Voters have convicted this side, and other sides still differ.
        return unit.state is UnitState.DISPUTED and not racer.collateral
    if racer.reveal.output_root != unit.output_root:
        return True
    claimed = result(unit.racers, unit.output_root)
    # Of equal results, only the winner's is a claim with collateral.
    return unit.refund is Refund.REFUTED and claimed is not None and claimed.winner.owner == stash


def _earned_grains(unit: Unit, stash: bytes) -> tuple[End, int]:
    race_result = result(unit.racers, unit.output_root) if unit.output_root else None
    if race_result is None or racer_of(unit, stash) is None:
        return End.UNPAID, 0
    price = due(unit, race_result.winner)
    if race_result.winner.owner == stash:
        return End.WON, price - fee(unit.rules, price)
    if race_result.witness is not None and race_result.witness.owner == stash:
        gross_pay = witness_pay(unit.rules, price)
        return End.WITNESSED, gross_pay - fee(unit.rules, gross_pay)
    return End.UNPAID, 0


def is_over(unit_status: UnitStatus | None) -> bool:
    """Return True if a unit can need no further answer."""
    return unit_status is None or not is_open(unit_status.unit)
