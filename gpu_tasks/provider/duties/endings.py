"""The outcomes of races and cases, from the final chain only: earnings, and entries to forget."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.inference.gpu_tasks_api import UnitStatus
from gpu_tasks.market.inference.money import due, fee, witness_pay
from gpu_tasks.market.inference.race_results import result
from gpu_tasks.market.inference.units import Unit, UnitState, racer_of
from gpu_tasks.provider.chain.port import UnitCasePort, View
from gpu_tasks.provider.duties.appeals import is_found_declining, is_wronged
from gpu_tasks.provider.duties.cases import TASK_CASES, attempt_of
from gpu_tasks.provider.duties.duty import ENDINGS_EVERY_BLOCKS, Duty, Endings, telling_refusals
from gpu_tasks.provider.duties.losses import LossNotes
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.journal.journal import CaseKey, RaceKey
from gpu_tasks.provider.journal.pause_book import PauseCause
from gpu_tasks.provider.journal.records import End, RaceEntry

READS_PER_ROUND_MAX = 32
REFUTED = "refuted: another result was found right, so its collateral is lost and its device is paused"


class EndingDuty(Duty):
    """The duty to note endings in the journal, and to appeal."""

    def __init__(self, parts: Parts[UnitCasePort], losses: LossNotes, duties: Iterable[Duty]) -> None:
        """All `duties` learn the endings."""
        self._parts = parts
        self._losses = losses
        self._duties = duties
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
        ended = Endings()
        try:
            for key, entry in self._in_turn():
                await self._look_at_race(key, entry, ended)
            await self._look_at_cases({seat.id for seat in view.seats}, ended)
        # The journal already has the endings before the error, so the duties must learn them too.
        finally:
            for duty in self._duties:
                duty.learn(ended)
        for unit in ended.wronged:
            with telling_refusals(self._parts.telemetry, unit):
                await self._appeal(unit, view.height)

    async def _appeal(self, unit: bytes, height: int) -> None:
        """Appeal a verdict of two of three judges against this provider's computed result."""
        await self._losses.warn(unit, height)
        await self._parts.chain.submit(Courts.appeal(case_id=unit))
        self._parts.telemetry.tell("appealed", unit=unit)

    def _in_turn(self) -> list[tuple[RaceKey, RaceEntry]]:
        """Choose the open races to read now: those that were read the longest ago.

        A fixed order by age would starve the later races, and a verdict against one of them could become final.
        """
        races = dict(self._parts.journal.open_races())
        self._round += 1
        self._refuted &= races.keys()
        chosen = sorted(races, key=lambda key: self._asked_in.get(key, 0))[:READS_PER_ROUND_MAX]
        self._asked_in = {key: asked for key, asked in self._asked_in.items() if key in races}
        self._asked_in.update(dict.fromkeys(chosen, self._round))
        return [(key, races[key]) for key in chosen]

    async def _look_at_race(self, key: RaceKey, entry: RaceEntry, ended: Endings) -> None:
        """Note a race in the journal if it is over, and report its payment."""
        parts, stash = self._parts, self._parts.identity.stash
        status = await parts.chain.final_unit(key[0])
        if is_wronged(status, key, stash) or await _declined_well(parts, status, key):
            ended.wronged.append(key[0])
        was_refuted = self._note_refuted(status, key, entry)
        end = race_end(status, key, stash)
        if end is None:
            return
        if status is not None:
            service = f"service {status.unit.service}"
            tokens = 0 if entry.result is None else entry.result.totals.tokens_out
            parts.earnings.note("unit", *key, device=entry.device, service=service, grains=end[1], tokens=tokens)
        parts.journal.races.change(key, end=end[0], paid=end[1])
        problem = {"problem": REFUTED} if was_refuted else {}
        if end[0] is End.UNPAID and not was_refuted:
            problem = {"reason": why_unpaid(status, key, stash)}
        ended.paid.extend([entry.device] * (end[0] is not End.UNPAID))
        parts.telemetry.tell("ended", unit=key[0], attempt=key[1], end=end[0].name.lower(), grains=end[1], **problem)
        ended.races.append(key)

    def _note_refuted(self, status: UnitStatus | None, key: RaceKey, entry: RaceEntry) -> bool:
        """Return True if a race's result was refuted, and note that its device stays paused.

        The note comes before the journal forgets the race. Otherwise a crash between the two would let the daemon
        resume the device.
        """
        if not is_refuted(status, key, self._parts.identity.stash):
            return False
        if key not in self._refuted:
            self._parts.pauses.note(entry.device, cause=PauseCause.REFUTED, why=REFUTED, resumes_at=None)
            self._refuted.add(key)
        return True

    async def _look_at_cases(self, seated: Collection[bytes], ended: Endings) -> None:
        """Note ended cases in the journal. `seated` are the cases with a seat of this provider in the newest view."""
        chain, cases = self._parts.chain, [key for key, _ in self._parts.journal.open_cases()]
        of_tasks = [key for key in cases if key[1] >= TASK_CASES]
        # A seat in the newest view may not be final yet. It would look like an ended case.
        still = {seat.id for seat in await chain.final_seats()} | set(seated) if of_tasks else set()
        for key in of_tasks:
            if key[0] not in still:
                self._dismiss(key, ended)
        for key in [key for key in cases if key[1] < TASK_CASES][:READS_PER_ROUND_MAX]:
            if is_case_over(await chain.final_unit(key[0]), key):
                self._dismiss(key, ended)

    def _dismiss(self, key: CaseKey, ended: Endings) -> None:
        self._parts.journal.cases.change(key, is_over=True)
        ended.cases.append(key)


class KeptInputDuty(Duty):
    """The duty to remove copies of inputs that no unit of the final chain needs.

    Until then a unit may be drawn again, judged or checked.
    """

    def __init__(self, parts: Parts[UnitCasePort]) -> None:
        """Nothing is removed before the first step."""
        self._parts = parts

    async def step(self, view: View) -> None:
        """Examine some units in turn, in a due block, except those that the view names."""
        if view.height % ENDINGS_EVERY_BLOCKS:
            return
        kept, chain = self._parts.inputs.kept, self._parts.chain
        looked_at = {each.unit for each in view.checks} | {each.unit for each in view.disputes}
        under_way = looked_at | {duty.id for duty in view.duties}
        units = kept.units_in_turn(READS_PER_ROUND_MAX, under_way)
        kept.release([unit for unit in units if is_over(await chain.final_unit(unit))])


async def _declined_well(parts: Parts[UnitCasePort], status: UnitStatus | None, key: RaceKey) -> bool:
    """Return True if a verdict charges this provider for declining an input that its own copy shows to be unusable."""
    if status is None or status.case is None or status.unit.attempt != key[1]:
        return False
    is_charged = is_found_declining(status.case, parts.identity.stash)
    return is_charged and await parts.inputs.is_shown_unusable(key[0], status.unit)


def race_end(status: UnitStatus | None, key: RaceKey, stash: bytes) -> tuple[End, int] | None:
    """Return the outcome of a race and its payment in grains after the fee; None while it runs.

    A unit is drawn only after its posting is final, so a unit that the final chain does not know has ended.
    """
    if status is None:
        return End.UNPAID, 0
    unit = status.unit
    if unit.attempt != key[1]:
        return (End.UNPAID, 0) if unit.attempt > key[1] else None
    if unit.is_watched:
        return None  # an audit may still need the output
    if unit.state is UnitState.SETTLED:
        return _earned(unit, stash)
    return (End.UNPAID, 0) if unit.state in (UnitState.REFUNDED, UnitState.QUEUED) else None


def why_unpaid(status: UnitStatus | None, key: RaceKey, stash: bytes) -> str:
    """Return the reason that an ended race paid this provider nothing, by the chain's remaining data."""
    if status is None:
        return "the chain has dropped the unit"
    unit = status.unit
    if unit.attempt != key[1]:
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


def is_refuted(status: UnitStatus | None, key: RaceKey, stash: bytes) -> bool:
    """Return True if another result than the stash's revealed one was found right in this race."""
    if status is None or status.unit.attempt != key[1] or status.unit.state is not UnitState.SETTLED:
        return False
    racer = racer_of(status.unit, stash)
    if racer is None or racer.reveal is None:
        return False
    # A refuted unit's settled root is the wrong one: then an equal root was refuted, and otherwise a different one.
    return (racer.reveal.output_root == status.unit.output_root) == status.unit.is_refuted


def is_case_over(status: UnitStatus | None, key: CaseKey) -> bool:
    """Return True if the case of a seat is over."""
    if status is None:
        return True
    attempt = attempt_of(key[1])
    # this state is final, and the case may be from a newer block
    is_to_come = status.unit.attempt < attempt or status.unit.state in (UnitState.QUEUED, UnitState.RACING)
    return status.unit.attempt > attempt or (not is_to_come and status.case is None)


def _earned(unit: Unit, stash: bytes) -> tuple[End, int]:
    outcome = result(unit.racers, unit.output_root) if unit.output_root else None
    if outcome is None or racer_of(unit, stash) is None:
        return End.UNPAID, 0
    price = due(unit, outcome.winner)
    if outcome.winner.owner == stash:
        return End.WON, price - fee(unit.rules, price)
    if outcome.witness is not None and outcome.witness.owner == stash:
        gross = witness_pay(unit.rules, price)
        return End.WITNESSED, gross - fee(unit.rules, gross)
    return End.UNPAID, 0


def is_over(status: UnitStatus | None) -> bool:
    """Return True if a unit can need no further answer."""
    if status is None:
        return True
    is_ended = status.unit.state in (UnitState.SETTLED, UnitState.REFUNDED)
    return is_ended and not status.unit.is_watched and status.case is None
