"""A race from its draw to its outcome.

Always: commits are open before reveals, never together; a racer that the close shut out has not
missed; what the reveals do not decide goes to a committee.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from gpu_tasks.market import rounds
from gpu_tasks.market.inference import agenda, judging, races
from gpu_tasks.market.inference.commitments import result_commitment
from gpu_tasks.market.inference.ending import miss, settle
from gpu_tasks.market.inference.events import (
    AlreadyDone,
    NotAssigned,
    RaceDeclined,
    ResultCommitted,
    ResultRevealed,
    WindowClosed,
    WrongOpening,
)
from gpu_tasks.market.inference.queueing import requeue
from gpu_tasks.market.inference.races import RevealsRead
from gpu_tasks.market.inference.units import Racer, Reveal, Unit, UnitState, racer_of
from gpu_tasks.market.rounds import Round, Windows
from runtime.frame.pallet import ensure

if TYPE_CHECKING:
    from gpu_tasks.market.inference.inference import InferenceMarket


def step_racing(market: "InferenceMarket", unit_id: bytes, unit: Unit) -> None:
    """Do what is due in a race: start the lease, close commits, open reveals, read the outcome."""
    before, windows, height = _round(unit), market.race_windows(unit), market.system.number.get()
    now = rounds.advanced(before, windows, height, market.beacon.final_height())
    unit = replace(unit, round=now)
    market.units[unit_id] = unit
    if now.closed_at and not before.closed_at:
        _punish_idle(market, unit_id, unit, windows)
    if now.closed_at and not now.first_commit:
        requeue(market, unit_id, unit)
    elif rounds.is_over(now, windows, height):
        _read_outcome(market, unit_id, unit)
    else:
        agenda.follow(market, unit_id, now, windows)


def commit(market: "InferenceMarket", unit_id: bytes, unit: Unit, owner: bytes, commitment: bytes) -> None:
    """A racer commits; the device is free for other work from here."""
    racer = _acting_racer(market, unit, owner)
    height, windows = market.system.number.get(), market.race_windows(unit)
    is_last = races.is_last_to_commit(unit.racers, owner)
    now = rounds.committed(_round(unit), height, is_last=is_last)
    racers = races.with_racer(unit.racers, races.with_commitment(racer, commitment, height))
    unit = replace(unit, racers=racers, round=now)
    market.units[unit_id] = unit
    market.devices.free(racer.device, unit_id)
    market.emit(ResultCommitted(unit_id, unit.attempt, owner))
    agenda.follow(market, unit_id, now, windows)


def decline(market: "InferenceMarket", unit_id: bytes, unit: Unit, owner: bytes) -> None:
    """A racer cannot open its input: no penalty. Without a commit so far the whole race is drawn again."""
    racer = _acting_racer(market, unit, owner)
    height, windows = market.system.number.get(), market.race_windows(unit)
    racers = races.with_racer(unit.racers, replace(racer, has_declined=True))
    unit = replace(unit, racers=racers, declined_by=(*unit.declined_by, owner))
    market.devices.free(racer.device, unit_id)
    market.emit(RaceDeclined(unit_id, owner))
    if not any(one.commitment for one in racers):
        requeue(market, unit_id, unit)
        return
    if races.is_last_to_commit(racers, owner):
        unit = replace(unit, round=replace(_round(unit), closed_at=height))
    market.units[unit_id] = unit
    agenda.follow(market, unit_id, _round(unit), windows)


def revealing_racer(market: "InferenceMarket", unit: Unit, owner: bytes, attempt: int) -> Racer:
    """The racer who may reveal now; NotAssigned, WindowClosed or AlreadyDone if it may not."""
    racer = racer_of(unit, owner)
    ensure(unit.state is UnitState.RACING and racer is not None and unit.attempt == attempt, NotAssigned)
    assert racer is not None  # for the type checker
    ensure(racer.commitment is not None, NotAssigned)
    ensure(racer.reveal is None, AlreadyDone)
    is_open = rounds.can_reveal(_round(unit), market.race_windows(unit), market.system.number.get())
    ensure(is_open, WindowClosed)
    return racer


def reveal(market: "InferenceMarket", unit_id: bytes, unit: Unit, racer: Racer, opened: Reveal, salt: bytes) -> None:
    """A racer opens its commitment; the last one to do so settles the race at once."""
    expected = result_commitment(
        market.system.block_hash[0], unit_id, unit.attempt, racer.owner, opened.output_root, salt
    )
    ensure(expected == racer.commitment, WrongOpening)
    unit = replace(unit, racers=races.with_racer(unit.racers, races.with_reveal(racer, opened)))
    market.units[unit_id] = unit
    market.emit(ResultRevealed(unit_id, unit.attempt, racer.owner, opened.output_root, opened.output_blob))
    if races.is_last_to_reveal(unit.racers):
        _read_outcome(market, unit_id, unit)


def _read_outcome(market: "InferenceMarket", unit_id: bytes, unit: Unit) -> None:
    for racer in races.silent(unit.racers):
        miss(market, unit_id, unit, racer)
    verdict = races.read_reveals(unit.racers)
    if verdict is RevealsRead.NOTHING:
        requeue(market, unit_id, unit)
    elif verdict is RevealsRead.DISPUTED:
        judging.open_dispute(market, unit_id, unit)
    else:
        root = next(one.reveal.output_root for one in unit.racers if one.reveal)
        result = races.result(unit.racers, root)
        assert result is not None  # somebody revealed this root; for the type checker
        settle(market, unit_id, unit, result)


def _punish_idle(market: "InferenceMarket", unit_id: bytes, unit: Unit, windows: Windows) -> None:
    """At the close: free the devices that gave nothing; if they had the whole lease, that is a miss."""
    for racer in races.idle(unit.racers):
        market.devices.free(racer.device, unit_id)
        if rounds.is_lease_over(_round(unit), windows):
            miss(market, unit_id, unit, racer)


def _acting_racer(market: "InferenceMarket", unit: Unit, owner: bytes) -> Racer:
    """The racer who may commit or decline now."""
    racer = racer_of(unit, owner)
    ensure(unit.state is UnitState.RACING and racer is not None, NotAssigned)
    assert racer is not None  # for the type checker
    ensure(racer.commitment is None and not racer.has_declined, AlreadyDone)
    is_open = rounds.can_commit(_round(unit), market.race_windows(unit), market.system.number.get())
    ensure(is_open, WindowClosed)
    return racer


def _round(unit: Unit) -> Round:
    if unit.round is None:
        raise RuntimeError("a unit in a race has a round")
    return unit.round
