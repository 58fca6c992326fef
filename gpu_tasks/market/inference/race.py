"""A race from its draw to its outcome.

Invariants: commits close before reveals open. Each racer has its own time (`race_clocks.py`), and a racer that the
close shut out has not missed. Voters decide between different results, and about inputs that two owners have declined
and nobody answered.
"""

from dataclasses import replace

from gpu_tasks.market import rounds
from gpu_tasks.market.inference import (
    queue,
    race_clocks,
    race_results,
    redraws,
    schedules,
    settlement,
    turns,
    unit_claims,
    unit_disputes,
)
from gpu_tasks.market.inference.events import (
    AlreadyDone,
    NotAssigned,
    RaceDeclined,
    RacePassed,
    ResultCommitted,
    ResultRevealed,
    WindowClosed,
    WrongOpening,
)
from gpu_tasks.market.inference.race_results import RevealsRead
from gpu_tasks.market.inference.storage import InferenceStorage
from gpu_tasks.market.inference.units import (
    DECLINES_TO_VOTE,
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


def step(market: InferenceStorage, unit: OpenUnit) -> None:
    """Do what is due in a race: start the commit window, end racers' time, open reveals, read the outcome."""
    windows, current_height = market.windows_of(unit.record), market.height
    final_height = market.beacon.final_height()
    current = rounds.with_commit_window(round_of(unit.record), current_height, final_height)
    unit = OpenUnit(unit.id, replace(unit.record, round=current))
    if not current.closed_at:
        unit = _end_time(market, unit, windows)
    current = rounds.opened(round_of(unit.record), current_height, final_height)
    unit = OpenUnit(unit.id, replace(unit.record, round=current))
    # All racers of a race may have been recalled.
    if rounds.is_void(current) or not unit.record.racers:
        _end_without_answer(market, redraws.call_off(market, unit))
    elif rounds.is_over(current, windows, current_height):
        _read_outcome(market, unit)
    else:
        _go_on(market, unit, windows)


def commit(market: InferenceStorage, unit: OpenUnit, owner: bytes, commitment: bytes) -> None:
    """Record a racer's commitment. Its device is free for other work from here on."""
    record, current_height = unit.record, market.height
    racer = _acting_racer(market, record, owner)
    is_last = race_results.is_last_to_commit(record.racers, owner)
    current = rounds.committed(round_of(record), current_height, is_last=is_last)
    racers = race_results.with_racer(record.racers, replace(racer, commitment=commitment, committed_at=current_height))
    # The device is free at the commit, not at the payment: finality and reveals would idle it for a dozen blocks.
    turns.free(market, racer.device, unit.id)
    market.emit(ResultCommitted(unit.id, record.attempt, owner))
    unit = OpenUnit(unit.id, replace(record, racers=racers, round=current))
    # A new racer would restart the commit window, and this commit has started the close: no draw may follow.
    _go_on(market, redraws.call_off(market, unit), market.windows_of(record))


def decline(market: InferenceStorage, unit: OpenUnit, owner: bytes) -> None:
    """Record that a racer cannot open its input. It stays liable for that, and its device is free.

    If this is the first decline and no racer has committed, a draw fills the place. The others continue.
    """
    record = unit.record
    racer = _acting_racer(market, record, owner)
    racers = race_results.with_racer(record.racers, replace(racer, has_declined=True))
    record = replace(record, racers=racers, declined_by=(*record.declined_by, owner))
    turns.free(market, racer.device, unit.id)
    market.emit(RaceDeclined(unit.id, owner))
    # No other racer may still commit, so there is nothing left to wait for.
    if race_results.is_last_to_commit(racers, owner):
        closed_round = race_clocks.closed_by(round_of(record), racers, market.height)
        record = replace(record, round=closed_round)
    _go_on(market, redraws.ask(market, OpenUnit(unit.id, record)), market.windows_of(record))


def pass_unit(market: InferenceStorage, unit: OpenUnit, owner: bytes) -> None:
    """Let a racer that cannot finish leave at once, for the miss fee. Its place is filled like that of a decline."""
    record = unit.record
    racer = _acting_racer(market, record, owner)
    burned_grains = settlement.passed(market, unit, racer)
    racers = tuple(each for each in record.racers if each.owner != owner)
    record = replace(record, racers=racers, declined_by=(*record.declined_by, owner))
    market.emit(RacePassed(unit.id, record.attempt, owner, burned_grains))
    if not racers:
        # The next step ends the race.
        market.units[unit.id] = redraws.call_off(market, OpenUnit(unit.id, record)).record
        market.agenda.put(market.height + 1, unit.id)
        return
    if not any(race_clocks.is_open(each) for each in racers):
        record = replace(record, round=race_clocks.closed_by(round_of(record), racers, market.height))
    _go_on(market, redraws.ask(market, OpenUnit(unit.id, record)), market.windows_of(record))


def ensure_may_reveal(market: InferenceStorage, record: Unit, racer: Racer) -> None:
    """Raise NotAssigned, AlreadyDone or WindowClosed unless this racer of the unit may reveal now."""
    ensure(record.state is UnitState.RACING and racer.commitment is not None, NotAssigned)
    ensure(racer.reveal is None, AlreadyDone)
    current_height = market.height
    ensure(rounds.can_reveal(round_of(record), market.windows_of(record), current_height), WindowClosed)


def reveal(market: InferenceStorage, unit: OpenUnit, racer: Racer, opened: Reveal, salt: bytes) -> None:
    """Record a racer's opening. The last one ends the race at once."""
    record, genesis_hash = unit.record, market.system.block_hash[0]
    expected = result_commitment(genesis_hash, unit.id, record.attempt, racer.owner, opened.output_root, salt)
    ensure(expected == racer.commitment, WrongOpening)
    racers = race_results.with_racer(record.racers, replace(racer, reveal=opened))
    unit = OpenUnit(unit.id, replace(record, racers=racers))
    market.emit(ResultRevealed(unit.id, record.attempt, racer.owner, opened.output_root, opened.output_blob))
    if race_results.is_last_to_reveal(racers):
        _read_outcome(market, unit)
    else:
        market.units[unit.id] = unit.record


def _read_outcome(market: InferenceStorage, unit: OpenUnit) -> None:
    for silent_racer in race_results.silent(unit.record.racers):
        unit = settlement.withheld(market, unit, silent_racer)
    racers = unit.record.racers
    reveals_read = race_results.read_reveals(racers)
    if reveals_read is RevealsRead.NOTHING:
        _end_without_answer(market, unit)
    elif reveals_read is RevealsRead.DISPUTED:
        unit_disputes.dispute(market, unit)
    else:
        unit_claims.claim(market, unit, race_results.agreed_result(racers))


def _end_without_answer(market: InferenceStorage, unit: OpenUnit) -> None:
    """Draw the unit again, or ask voters if enough owners declined its input."""
    if declines_of(unit.record) >= DECLINES_TO_VOTE:
        unit_disputes.dispute(market, unit)
    else:
        queue.requeue(market, unit)


def _end_time(market: InferenceStorage, unit: OpenUnit, windows: Windows) -> OpenUnit:
    """End the time of racers whose window is over, and close commits if no racer may still commit."""
    current_round, current_height = round_of(unit.record), market.height
    for racer in race_clocks.overdue(unit.record.racers, current_round, windows, current_height):
        # Its waiting units are recalled in the next block.
        market.devices.close_queue(racer.device)
    expired_racers = race_clocks.out_of_time(unit.record.racers, current_round, windows, current_height)
    for racer in unit.record.racers:
        if racer.owner in expired_racers:
            unit = _let_out(market, unit, racer, expired_racers[racer.owner], windows)
    racers = unit.record.racers
    if racers and not any(race_clocks.is_open(racer) for racer in racers):
        last_block = max(expired_racers.values(), default=current_height)
        unit = OpenUnit(unit.id, replace(unit.record, round=race_clocks.closed_by(current_round, racers, last_block)))
        return redraws.call_off(market, unit)
    # A recall leaves a free place without any call that would ask for a draw.
    needs_draw = racers and redraws.is_short(unit.record) and not unit.record.is_refilling
    return redraws.ask(market, unit) if needs_draw else unit


def _let_out(market: InferenceStorage, unit: OpenUnit, racer: Racer, last_block: int, windows: Windows) -> OpenUnit:
    """End a racer's time, which ran out at block `last`. With a whole commit window behind it, this is a miss."""
    window_end = race_clocks.commit_end(racer, round_of(unit.record), windows)
    # A racer that a faster racer's commit shut out has not missed.
    if window_end is not None and last_block >= window_end:
        # The pause comes before the device is freed, so that it begins no other unit.
        unit = settlement.idle(market, unit, racer)
    turns.free(market, racer.device, unit.id)
    updated_racers = tuple(
        replace(unit_racer, is_out=True) if unit_racer.owner == racer.owner else unit_racer
        for unit_racer in unit.record.racers
    )
    return OpenUnit(unit.id, replace(unit.record, racers=updated_racers))


def _acting_racer(market: InferenceStorage, record: Unit, owner: bytes) -> Racer:
    """Return the racer that may commit or decline now."""
    ensure(record.state is UnitState.RACING, NotAssigned)
    racer = known(racer_of(record, owner), NotAssigned)
    ensure(racer.commitment is None and not racer.has_declined, AlreadyDone)
    current_round, windows, current_height = round_of(record), market.windows_of(record), market.height
    ensure(race_clocks.can_commit(racer, current_round, windows, current_height), WindowClosed)
    return racer


def _go_on(market: InferenceStorage, unit: OpenUnit, windows: Windows) -> None:
    """Store a race whose round continues, and schedule its next change."""
    market.units[unit.id] = unit.record
    next_change = race_clocks.next_change(unit.record.racers, round_of(unit.record), windows)
    schedules.follow(market, unit.id, next_change)
