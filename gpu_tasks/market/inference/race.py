"""A race from its draw to its outcome.

Invariants: commits close before reveals open. Each racer has its own time (`race_clocks.py`), and a racer that the
close shut out has not missed. The courts decide races that the reveals leave undecided, and inputs that two owners have
declined. A racer can open its commitment late, while a case about it is open, but unpaid.
"""

from dataclasses import replace

from gpu_tasks.market import rounds
from gpu_tasks.market.inference import judging, queue, race_clocks, race_results, redraws, schedules, settlement, turns
from gpu_tasks.market.inference.events import (
    AlreadyDone,
    NotAssigned,
    RaceDeclined,
    ResultCommitted,
    ResultRevealed,
    WindowClosed,
    WrongOpening,
)
from gpu_tasks.market.inference.race_results import RevealsRead
from gpu_tasks.market.inference.storage import InferenceStorage
from gpu_tasks.market.inference.units import (
    DECLINES_TO_JUDGE,
    OpenUnit,
    Racer,
    Reveal,
    Unit,
    UnitState,
    declines_of,
    racer_of,
    result_commitment,
    round_of,
)
from gpu_tasks.market.rounds import Windows
from runtime.frame.pallet import ensure, known


def step(market: InferenceStorage, open_unit: OpenUnit) -> None:
    """Do what is due in a race: start the commit window, end racers' time, open reveals, read the outcome."""
    race_windows, current_height = market.windows_of(open_unit.record), market.height
    final_height = market.beacon.final_height()
    current_round = rounds.with_commit_window(round_of(open_unit.record), current_height, final_height)
    open_unit = OpenUnit(open_unit.id, replace(open_unit.record, round=current_round))
    if not current_round.closed_at:
        open_unit = _end_time(market, open_unit, race_windows)
    current_round = rounds.opened(round_of(open_unit.record), current_height, final_height)
    open_unit = OpenUnit(open_unit.id, replace(open_unit.record, round=current_round))
    # All racers of a race may have been recalled.
    if rounds.is_void(current_round) or not open_unit.record.racers:
        _end_without_answer(market, redraws.call_off(market, open_unit))
    elif rounds.is_over(current_round, race_windows, current_height):
        _read_outcome(market, open_unit)
    else:
        _go_on(market, open_unit, race_windows)


def commit(market: InferenceStorage, open_unit: OpenUnit, owner_stash: bytes, commitment: bytes) -> None:
    """Record a racer's commitment. Its device is free for other work from here on."""
    unit_record, current_height = open_unit.record, market.height
    acting_racer = _acting_racer(market, unit_record, owner_stash)
    is_last = race_results.is_last_to_commit(unit_record.racers, owner_stash)
    current_round = rounds.committed(round_of(unit_record), current_height, is_last=is_last)
    updated_racers = race_results.with_racer(
        unit_record.racers, race_results.with_commitment(acting_racer, commitment, current_height)
    )
    # The device is free at the commit, not at the payment: finality and reveals would idle it for a dozen blocks.
    turns.free(market, acting_racer.device, open_unit.id)
    market.emit(ResultCommitted(open_unit.id, unit_record.attempt, owner_stash))
    open_unit = OpenUnit(open_unit.id, replace(unit_record, racers=updated_racers, round=current_round))
    # A new racer would restart the commit window, and this commit has started the close: no draw may follow.
    _go_on(market, redraws.call_off(market, open_unit), market.windows_of(unit_record))


def decline(market: InferenceStorage, unit: OpenUnit, owner_stash: bytes) -> None:
    """Record that a racer cannot open its input. It stays liable for that, and its device is free.

    If this is the first decline and no racer has committed, a draw fills the place. The others continue.
    """
    unit_record = unit.record
    acting_racer = _acting_racer(market, unit_record, owner_stash)
    updated_racers = race_results.with_racer(unit_record.racers, replace(acting_racer, has_declined=True))
    unit_record = replace(unit_record, racers=updated_racers, declined_by=(*unit_record.declined_by, owner_stash))
    turns.free(market, acting_racer.device, unit.id)
    market.emit(RaceDeclined(unit.id, owner_stash))
    # No other racer may still commit, so there is nothing left to wait for.
    if race_results.is_last_to_commit(updated_racers, owner_stash):
        closed_round = race_clocks.closed_by(round_of(unit_record), updated_racers, market.height)
        unit_record = replace(unit_record, round=closed_round)
    _go_on(market, redraws.ask(market, OpenUnit(unit.id, unit_record)), market.windows_of(unit_record))


def ensure_may_reveal(market: InferenceStorage, unit_record: Unit, racer: Racer) -> None:
    """Raise NotAssigned, AlreadyDone or WindowClosed unless this racer of the unit may reveal now."""
    is_late = unit_record.state is UnitState.JUDGING
    ensure((unit_record.state is UnitState.RACING or is_late) and racer.commitment is not None, NotAssigned)
    ensure(racer.reveal is None, AlreadyDone)
    # The courts check that the case still takes late openings.
    if is_late:
        return
    current_height = market.height
    ensure(rounds.can_reveal(round_of(unit_record), market.windows_of(unit_record), current_height), WindowClosed)


def reveal(
    market: InferenceStorage, open_unit: OpenUnit, racer: Racer, opened_result: Reveal, result_salt: bytes
) -> None:
    """Record a racer's opening. The last one settles the race at once, and a late one goes to the courts."""
    unit_record, genesis_hash = open_unit.record, market.system.block_hash[0]
    expected = result_commitment(
        genesis_hash, open_unit.id, unit_record.attempt, racer.owner, opened_result.output_root, result_salt
    )
    ensure(expected == racer.commitment, WrongOpening)
    is_late = unit_record.state is not UnitState.RACING
    if is_late:
        judging.open_late(market, open_unit.id, racer.owner, opened_result.output_root)
    revealed_racer = replace(race_results.with_reveal(racer, opened_result), is_late=is_late)
    updated_racers = race_results.with_racer(unit_record.racers, revealed_racer)
    open_unit = OpenUnit(open_unit.id, replace(unit_record, racers=updated_racers))
    market.emit(
        ResultRevealed(
            open_unit.id, unit_record.attempt, racer.owner, opened_result.output_root, opened_result.output_blob
        )
    )
    if not is_late and race_results.is_last_to_reveal(updated_racers):
        _read_outcome(market, open_unit)
    else:
        market.units[open_unit.id] = open_unit.record


def _read_outcome(market: InferenceStorage, open_unit: OpenUnit) -> None:
    updated_racers = open_unit.record.racers
    reveals_read = race_results.read_reveals(updated_racers, open_unit.record.terms.racers)
    if reveals_read is RevealsRead.NOTHING:
        _end_without_answer(market, _punish_withheld(market, open_unit))
    elif reveals_read is RevealsRead.DISPUTED:
        judging.dispute(market, open_unit)
    elif reveals_read is RevealsRead.LONE:
        judging.confirm(market, open_unit, race_results.agreed_result(updated_racers).output_root)
    else:
        judging.settle(market, _punish_withheld(market, open_unit), race_results.agreed_result(updated_racers))


def _end_without_answer(market: InferenceStorage, open_unit: OpenUnit) -> None:
    """Draw the unit again, or open a case if enough owners declined its input."""
    if declines_of(open_unit.record) >= DECLINES_TO_JUDGE:
        judging.dispute(market, open_unit)
    else:
        queue.requeue(market, open_unit)


def _punish_withheld(market: InferenceStorage, open_unit: OpenUnit) -> OpenUnit:
    """Punish withheld results if no dispute follows. In a dispute, the case decides about them."""
    for silent_racer in race_results.silent(open_unit.record.racers):
        open_unit = settlement.withheld(market, open_unit, silent_racer)
    return open_unit


def _end_time(market: InferenceStorage, open_unit: OpenUnit, race_windows: Windows) -> OpenUnit:
    """End the time of racers whose window is over, and close commits if no racer may still commit."""
    current_round, current_height = round_of(open_unit.record), market.height
    for unit_racer in race_clocks.overdue(open_unit.record.racers, current_round, race_windows, current_height):
        # Its waiting units are recalled in the next block.
        market.devices.close_queue(unit_racer.device)
    expired_racers = race_clocks.out_of_time(open_unit.record.racers, current_round, race_windows, current_height)
    for unit_racer in open_unit.record.racers:
        if unit_racer.owner in expired_racers:
            open_unit = _let_out(market, open_unit, unit_racer, expired_racers[unit_racer.owner], race_windows)
    updated_racers = open_unit.record.racers
    if updated_racers and not any(race_clocks.is_open(unit_racer) for unit_racer in updated_racers):
        last_block = max(expired_racers.values(), default=current_height)
        open_unit = OpenUnit(
            open_unit.id,
            replace(open_unit.record, round=race_clocks.closed_by(current_round, updated_racers, last_block)),
        )
        return redraws.call_off(market, open_unit)
    # A recall leaves a free place without any call that would ask for a draw.
    needs_draw = updated_racers and redraws.is_short(open_unit.record) and not open_unit.record.is_refilling
    return redraws.ask(market, open_unit) if needs_draw else open_unit


def _let_out(
    market: InferenceStorage, open_unit: OpenUnit, racer: Racer, last_block: int, race_windows: Windows
) -> OpenUnit:
    """End a racer's time, which ran out at block `last`. With a whole commit window behind it, this is a miss."""
    window_end = race_clocks.commit_end(racer, round_of(open_unit.record), race_windows)
    # A racer that a faster racer's commit shut out has not missed.
    if window_end is not None and last_block >= window_end:
        # The pause comes before the device is freed, so that it begins no other unit.
        open_unit = settlement.idle(market, open_unit, racer)
    turns.free(market, racer.device, open_unit.id)
    updated_racers = tuple(
        replace(unit_racer, is_out=True) if unit_racer.owner == racer.owner else unit_racer
        for unit_racer in open_unit.record.racers
    )
    return OpenUnit(open_unit.id, replace(open_unit.record, racers=updated_racers))


def _acting_racer(market: InferenceStorage, unit_record: Unit, owner_stash: bytes) -> Racer:
    """Return the racer that may commit or decline now."""
    ensure(unit_record.state is UnitState.RACING, NotAssigned)
    acting_racer = known(racer_of(unit_record, owner_stash), NotAssigned)
    ensure(acting_racer.commitment is None and not acting_racer.has_declined, AlreadyDone)
    current_round, race_windows, current_height = round_of(unit_record), market.windows_of(unit_record), market.height
    ensure(race_clocks.can_commit(acting_racer, current_round, race_windows, current_height), WindowClosed)
    return acting_racer


def _go_on(market: InferenceStorage, open_unit: OpenUnit, race_windows: Windows) -> None:
    """Store a race whose round continues, and schedule its next change."""
    market.units[open_unit.id] = open_unit.record
    next_change = race_clocks.next_change(open_unit.record.racers, round_of(open_unit.record), race_windows)
    schedules.follow(market, open_unit.id, next_change)
