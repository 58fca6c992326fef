"""A race as its provider sees it, and what to do next about it: a function of chain and journal, so of no memory."""

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
"""A race whose input is nowhere to be had this many blocks before its lease ends is given back."""
OMITTED_BLOCKS = 5
"""After this many blocks of an open reveal window an attestation that nobody attached goes as a transaction."""


LAST_BLOCKS = 4
"""Or this many blocks before the window ends."""


class RaceStep(Enum):
    """What to do next about a race."""

    NOTHING = auto()
    EXECUTE = auto()
    DECLINE = auto()
    COMMIT = auto()
    ATTEST = auto()
    REVEAL = auto()


SENT_BY = {
    RaceStep.DECLINE: Sent.DECLINE,
    RaceStep.COMMIT: Sent.COMMIT,
    RaceStep.ATTEST: Sent.ATTESTATION,
    RaceStep.REVEAL: Sent.ATTESTATION,
}
"""What the journal calls the steps that the world sees."""


@dataclass(frozen=True, slots=True)
class Race:
    """One attempt at one unit that this provider was drawn for."""

    unit_id: bytes
    unit: Unit
    place: int
    before: int
    """How many units its device has before this one."""
    commits_until: int
    reveals_from: int
    reveals_until: int

    @property
    def racer(self) -> Racer:
        """This provider's place."""
        return self.unit.racers[self.place]

    @property
    def key(self) -> tuple[bytes, int]:
        """How the journal names it."""
        return self.unit_id, self.unit.attempt

    @property
    def rank(self) -> Rank:
        """When its device comes to it."""
        return rank_of_race(0 if self.unit.round is None else newest_draw(self.unit.round), self.before)


def race_of(duty: DutyStatus, stash: bytes) -> Race | None:
    """The race that a duty is about; None if it is one no more."""
    status, unit = duty.status, duty.status.unit
    racer = racer_of(unit, stash)
    if racer is None:
        return None
    place = unit.racers.index(racer)
    return Race(duty.id, unit, place, duty.before, duty.commits_until, status.reveals_from, status.reveals_until)


def must_give_back(race: Race, height: int) -> bool:
    """Whether a race whose input is not here by block `height` has to be given back, or it would be missed.

    Not once a rival has committed: that the input could be had is shown then, and who gave it back would pay the judges
    who find it good. Whom the rival's close shuts out has missed nothing.
    """
    has_rival = race.unit.round is not None and race.unit.round.first_commit > 0
    return not has_rival and 0 < race.commits_until <= height + GIVE_BACK_BLOCKS


def is_about(race: Race, entry: RaceEntry) -> bool:
    """Whether the journal's result is of the input that the chain says now; nothing is signed for another."""
    terms, basis = race.unit.terms, entry.basis
    named = None if basis is None else (basis.input_root, basis.input_commitment)
    return named == (terms.input_root, terms.input_commitment)


def next_step(race: Race, entry: RaceEntry | None, view: View, *, lacks_input: bool = False) -> RaceStep:
    """What the state of the chain in a view and the journal ask for; `lacks_input` while the input is not here."""
    racer, result = race.racer, entry.result if entry else None
    if race.unit.state is UnitState.JUDGING:
        return _late_step(race, entry)
    is_closed = race.unit.round is None or race.unit.round.closed_at > 0
    if race.unit.state is not UnitState.RACING or racer.has_declined or racer.reveal is not None:
        return RaceStep.NOTHING
    if racer.commitment is None:
        if is_closed:
            return RaceStep.NOTHING
        # What was given back is not begun again: the node may not have shown the call yet, or lost it.
        if entry is not None and Sent.DECLINE in entry.sent:
            return RaceStep.DECLINE
        if entry is not None and result is not None and is_about(race, entry):
            return RaceStep.COMMIT
        if entry is not None and result is not None and Sent.COMMIT in entry.sent:
            return RaceStep.NOTHING
        # Where the node said something else before, nothing was promised yet: what it says now is computed.
        # By the newest height: a store that drips keeps the search, not the way out of the race.
        return RaceStep.DECLINE if lacks_input and must_give_back(race, view.newest) else RaceStep.EXECUTE
    if entry is None or result is None or not is_about(race, entry) or not race.reveals_from:
        return RaceStep.NOTHING
    # Authors may leave attestations out of their blocks; a transaction they would have to refuse one by one.
    is_omitted = view.height >= race.reveals_from + OMITTED_BLOCKS
    return RaceStep.REVEAL if is_omitted or is_late(race, view.newest) else RaceStep.ATTEST


def _late_step(race: Race, entry: RaceEntry | None) -> RaceStep:
    """A result that was committed to and not opened in time: opened late it is unpaid, but a miss and no lie."""
    is_withheld = race.racer.commitment is not None and race.racer.reveal is None
    has_result = entry is not None and entry.result is not None and is_about(race, entry)
    return RaceStep.REVEAL if is_withheld and has_result else RaceStep.NOTHING


def is_late(race: Race, newest: int) -> bool:
    """Whether a reveal has to be in one of the next blocks, however far behind the newest the final block is."""
    return 0 < race.reveals_until <= newest + LAST_BLOCKS
