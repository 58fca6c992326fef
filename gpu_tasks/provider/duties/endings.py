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

    def __init__(self, parts: Parts[UnitCasePort], loss_notes: LossNotes, informed_duties: Iterable[Duty]) -> None:
        """All `informed_duties` learn the endings."""
        self._parts = parts
        self._losses = loss_notes
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
            await self._settle_cases({judge_seat.id for judge_seat in view.seats}, endings)
        # The journal already has the endings before the error, so the duties must learn them too.
        finally:
            for duty in self._duties:
                duty.learn(endings)
        for unit_id in endings.wronged:
            with telling_refusals(self._parts.telemetry, unit_id):
                await self._appeal(unit_id, view.height)

    async def _appeal(self, unit_id: bytes, block_height: int) -> None:
        """Appeal a verdict of two of three judges against this provider's computed result."""
        await self._losses.warn(unit_id, block_height)
        await self._parts.chain.submit(Courts.appeal(case_id=unit_id))
        self._parts.telemetry.tell("appealed", unit=unit_id)

    def _races_in_turn(self) -> list[tuple[RaceKey, RaceEntry]]:
        """Choose the open races to read now: those that were read the longest ago.

        A fixed order by age would starve the later races, and a verdict against one of them could become final.
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
        if is_wronged(unit_status, race_key, stash) or await _declined_well(parts, unit_status, race_key):
            endings.wronged.append(race_key[0])
        was_refuted = self._note_refuted(unit_status, race_key, race_entry)
        race_outcome = race_end(unit_status, race_key, stash)
        if race_outcome is None:
            return
        if unit_status is not None:
            service = f"service {unit_status.unit.service}"
            tokens = 0 if race_entry.result is None else race_entry.result.totals.tokens_out
            parts.earnings.note(
                "unit", *race_key, device=race_entry.device, service=service, grains=race_outcome[1], tokens=tokens
            )
        parts.journal.races.change(race_key, end=race_outcome[0], paid=race_outcome[1])
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

    def _note_refuted(self, unit_status: UnitStatus | None, race_key: RaceKey, race_entry: RaceEntry) -> bool:
        """Return True if a race's result was refuted, and note that its device stays paused.

        The note comes before the journal forgets the race. Otherwise a crash between the two would let the daemon
        resume the device.
        """
        if not is_refuted(unit_status, race_key, self._parts.identity.stash):
            return False
        if race_key not in self._refuted:
            self._parts.pauses.note(race_entry.device, cause=PauseCause.REFUTED, why=REFUTED, resumes_at=None)
            self._refuted.add(race_key)
        return True

    async def _settle_cases(self, seated: Collection[bytes], endings: Endings) -> None:
        """Note ended cases in the journal. `seated` have a seat of this provider in the newest view."""
        chain, case_keys = self._parts.chain, [case_key for case_key, _ in self._parts.journal.open_cases()]
        of_tasks = [case_key for case_key in case_keys if case_key[1] >= TASK_CASES]
        # A seat in the newest view may not be final yet. It would look like an ended case.
        still_seated = {judge_seat.id for judge_seat in await chain.final_seats()} | set(seated) if of_tasks else set()
        for case_key in of_tasks:
            if case_key[0] not in still_seated:
                self._dismiss(case_key, endings)
        for case_key in [case_key for case_key in case_keys if case_key[1] < TASK_CASES][:READS_PER_ROUND_MAX]:
            if is_case_over(await chain.final_unit(case_key[0]), case_key):
                self._dismiss(case_key, endings)

    def _dismiss(self, case_key: CaseKey, endings: Endings) -> None:
        self._parts.journal.cases.change(case_key, is_over=True)
        endings.cases.append(case_key)


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
        kept_inputs, chain = self._parts.inputs.kept, self._parts.chain
        looked_at = {leaf_check.unit for leaf_check in view.checks} | {
            leaf_dispute.unit for leaf_dispute in view.disputes
        }
        under_way = looked_at | {duty.id for duty in view.duties}
        unit_ids = kept_inputs.units_in_turn(READS_PER_ROUND_MAX, under_way)
        kept_inputs.release([unit_id for unit_id in unit_ids if is_over(await chain.final_unit(unit_id))])


async def _declined_well(parts: Parts[UnitCasePort], unit_status: UnitStatus | None, race_key: RaceKey) -> bool:
    """Return True if a verdict charges this provider for declining an input that its own copy shows to be unusable."""
    if unit_status is None or unit_status.case is None or unit_status.unit.attempt != race_key[1]:
        return False
    is_charged = is_found_declining(unit_status.case, parts.identity.stash)
    return is_charged and await parts.inputs.is_shown_unusable(race_key[0], unit_status.unit)


def race_end(unit_status: UnitStatus | None, race_key: RaceKey, stash: bytes) -> tuple[End, int] | None:
    """Return the outcome of a race and its payment in grains after the fee; None while it runs.

    A unit is drawn only after its posting is final, so a unit that the final chain does not know has ended.
    """
    if unit_status is None:
        return End.UNPAID, 0
    unit = unit_status.unit
    if unit.attempt != race_key[1]:
        return (End.UNPAID, 0) if unit.attempt > race_key[1] else None
    if unit.is_watched:
        return None  # an audit may still need the output
    if unit.state is UnitState.SETTLED:
        return _earned_grains(unit, stash)
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
    """Return True if another result than the stash's revealed one was found right in this race."""
    if (
        unit_status is None
        or unit_status.unit.attempt != race_key[1]
        or unit_status.unit.state is not UnitState.SETTLED
    ):
        return False
    racer = racer_of(unit_status.unit, stash)
    if racer is None or racer.reveal is None:
        return False
    # A refuted unit's settled root is the wrong one: then an equal root was refuted, and otherwise a different one.
    return (racer.reveal.output_root == unit_status.unit.output_root) == unit_status.unit.is_refuted


def is_case_over(unit_status: UnitStatus | None, case_key: CaseKey) -> bool:
    """Return True if the case of a seat is over."""
    if unit_status is None:
        return True
    attempt_number = attempt_of(case_key[1])
    # this state is final, and the case may be from a newer block
    is_to_come = unit_status.unit.attempt < attempt_number or unit_status.unit.state in (
        UnitState.QUEUED,
        UnitState.RACING,
    )
    return unit_status.unit.attempt > attempt_number or (not is_to_come and unit_status.case is None)


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
    if unit_status is None:
        return True
    is_ended = unit_status.unit.state in (UnitState.SETTLED, UnitState.REFUNDED)
    return is_ended and not unit_status.unit.is_watched and unit_status.case is None
