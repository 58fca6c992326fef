"""A race for its provider and the next step, as a function of chain and journal without other memory."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from gpu_tasks.market.inference.gpu_tasks_api import DutyStatus
from gpu_tasks.market.inference.units import Racer, Unit, UnitState, racer_of
from gpu_tasks.market.rounds import newest_draw
from gpu_tasks.provider.chain.port import View
from gpu_tasks.provider.execution.line import Rank, rank_of_race
from gpu_tasks.provider.journal.records import RaceEntry, Sent

GIVE_BACK_BLOCKS = 8
"""This many blocks before its commit window ends, a race with an unavailable input is declined."""
PASS_BLOCKS = 1
"""This many blocks before its commit window ends, a race without a result is passed: the call enters the last block
that takes a commitment."""
OMITTED_BLOCKS = 5
"""After this many blocks of an open reveal window, an attestation that no author attached is sent as a transaction."""
LAST_BLOCKS = 4
"""This many blocks before the window ends, an attestation is sent as a transaction in any case."""


class RaceStep(Enum):
    """The next step of a race."""

    NOTHING = auto()
    EXECUTE = auto()
    DECLINE = auto()
    PASS = auto()
    COMMIT = auto()
    ATTEST = auto()
    REVEAL = auto()


SENT_BY = {
    RaceStep.DECLINE: Sent.DECLINE,
    RaceStep.PASS: Sent.PASS,
    RaceStep.COMMIT: Sent.COMMIT,
    RaceStep.ATTEST: Sent.ATTESTATION,
    RaceStep.REVEAL: Sent.ATTESTATION,
}
"""The journal's names of publicly visible steps."""


@dataclass(frozen=True, slots=True)
class Race:
    """One attempt at a unit that this provider was drawn for."""

    unit_id: bytes
    unit: Unit
    place: int
    before: int
    """The units before this one on its device."""
    commits_until: int
    reveals_from: int
    reveals_until: int

    @property
    def racer(self) -> Racer:
        """This provider's record in the unit."""
        return self.unit.racers[self.place]

    @property
    def key(self) -> tuple[bytes, int]:
        """The journal's key."""
        return self.unit_id, self.unit.attempt

    @property
    def rank(self) -> Rank:
        """The order of this race on its device."""
        return rank_of_race(0 if self.unit.round is None else newest_draw(self.unit.round), self.before)


def race_of(duty: DutyStatus, stash: bytes) -> Race | None:
    """Return the race of a duty, or None if this provider is no longer a racer."""
    unit_status, unit = duty.status, duty.status.unit
    racer = racer_of(unit, stash)
    if racer is None:
        return None
    place = unit.racers.index(racer)
    return Race(
        duty.id, unit, place, duty.before, duty.commits_until, unit_status.reveals_from, unit_status.reveals_until
    )


def must_give_back(race: Race, block_height: int) -> bool:
    """Return True if a race must be declined at block `block_height` for its missing input, or it would be missed.

    After a rival's commitment this no longer applies: it shows that the input was available, and a decliner would pay
    the voters who confirm that. A racer that the rival's close excludes has missed nothing.
    """
    return not _has_rival(race) and 0 < race.commits_until <= block_height + GIVE_BACK_BLOCKS


def must_pass(race: Race, block_height: int) -> bool:
    """Return True if a race without a result cannot be committed any more at block `block_height`, and would be missed.

    To pass costs as much as to miss, but the device is not paused. A racer that a rival's close excludes pays nothing.
    """
    return not _has_rival(race) and 0 < race.commits_until <= block_height + PASS_BLOCKS


def _has_rival(race: Race) -> bool:
    return race.unit.round is not None and race.unit.round.first_commit > 0


def is_about(race: Race, race_entry: RaceEntry) -> bool:
    """Return True if the journal's result is of the chain's present input. Nothing is signed for another one."""
    unit_terms, work_basis = race.unit.terms, race_entry.basis
    named_input = None if work_basis is None else (work_basis.input_root, work_basis.input_commitment)
    return named_input == (unit_terms.input_root, unit_terms.input_commitment)


def next_step(race: Race, race_entry: RaceEntry | None, view: View, *, lacks_input: bool = False) -> RaceStep:
    """Return the next step for the state of chain and journal. `lacks_input` says that the input is not here."""
    racer, result = race.racer, race_entry.result if race_entry else None
    is_closed = race.unit.round is None or race.unit.round.closed_at > 0
    if race.unit.state is not UnitState.RACING or racer.has_declined or racer.reveal is not None:
        return RaceStep.NOTHING
    if racer.commitment is None:
        if is_closed:
            return RaceStep.NOTHING
        # A declined race is not started again: the node may not show the call yet, or may have lost it.
        if race_entry is not None and Sent.DECLINE in race_entry.sent:
            return RaceStep.DECLINE
        if race_entry is not None and Sent.PASS in race_entry.sent:
            return RaceStep.PASS
        if race_entry is not None and result is not None and is_about(race, race_entry):
            return RaceStep.COMMIT
        # A commitment to another input was sent. A second one for the same race would contradict it.
        if race_entry is not None and result is not None and Sent.COMMIT in race_entry.sent:
            return RaceStep.NOTHING
        # If the node's earlier data differed, nothing was promised for it, so the present input is computed.
        # The newest height counts, so that a slow store can delay the search but not the decline.
        if lacks_input and must_give_back(race, view.newest):
            return RaceStep.DECLINE
        return RaceStep.PASS if race_entry is not None and must_pass(race, view.newest) else RaceStep.EXECUTE
    if race_entry is None or result is None or not is_about(race, race_entry) or not race.reveals_from:
        return RaceStep.NOTHING
    # Authors may leave out attestations. Transactions are harder to suppress.
    is_omitted = view.height >= race.reveals_from + OMITTED_BLOCKS
    return RaceStep.REVEAL if is_omitted or is_late(race, view.newest) else RaceStep.ATTEST


def is_late(race: Race, newest_height: int) -> bool:
    """Return True if a reveal must enter one of the next blocks, even if the final block is far behind the newest."""
    return 0 < race.reveals_until <= newest_height + LAST_BLOCKS
