"""What became of races and cases, read from the final chain only: what a provider earned, and what it may forget."""

from __future__ import annotations

from gpu_tasks.market.api import UnitStatus
from gpu_tasks.market.inference.money import fee, witness_pay
from gpu_tasks.market.inference.races import result
from gpu_tasks.market.inference.units import Unit, UnitState, racer_of
from gpu_tasks.provider.chain.port import ChainPort
from gpu_tasks.provider.journal.journal import CaseKey, Journal, RaceKey
from gpu_tasks.provider.journal.records import Dismissed, End, Ended
from gpu_tasks.provider.telemetry import Telemetry

READS_PER_ROUND_MAX = 32


async def note_endings(stash: bytes, chain: ChainPort, journal: Journal, telemetry: Telemetry) -> list[RaceKey]:
    """Note in the journal which races and cases are over; the keys of those races."""
    ended = []
    for key, _ in list(journal.open_races())[:READS_PER_ROUND_MAX]:
        end = race_end(await chain.final_unit(key[0]), key, stash)
        if end is not None:
            journal.append(Ended(*key, *end))
            telemetry.tell("ended", unit=key[0], attempt=key[1], end=end[0].name.lower(), grains=end[1])
            ended.append(key)
    for key, _ in list(journal.open_cases())[:READS_PER_ROUND_MAX]:
        if is_case_over(await chain.final_unit(key[0]), key):
            journal.append(Dismissed(*key))
    return ended


def race_end(status: UnitStatus | None, key: RaceKey, stash: bytes) -> tuple[End, int] | None:
    """How a race ended and what it paid, in grains after the fee; None while it runs.

    A unit is drawn only when its posting is final: one that the final chain does not know has ended long ago.
    """
    if status is None:
        return End.UNPAID, 0
    unit = status.unit
    if unit.attempt != key[1]:
        return (End.UNPAID, 0) if unit.attempt > key[1] else None
    if unit.state is UnitState.SETTLED:
        return _earned(unit, stash)
    return (End.UNPAID, 0) if unit.state in (UnitState.REFUNDED, UnitState.QUEUED) else None


def is_case_over(status: UnitStatus | None, key: CaseKey) -> bool:
    """Whether a committee has no more to do."""
    committee = status.committee if status is not None else None
    is_to_come = status is not None and committee is None and status.unit.state is UnitState.RACING
    return not is_to_come and (committee is None or committee.number > key[1])


def _earned(unit: Unit, stash: bytes) -> tuple[End, int]:
    outcome = result(unit.racers, unit.output_root) if unit.output_root else None
    if outcome is None or racer_of(unit, stash) is None:
        return End.UNPAID, 0
    if outcome.winner.owner == stash:
        return End.WON, unit.price - fee(unit.price)
    if outcome.witness is not None and outcome.witness.owner == stash:
        gross = witness_pay(unit.price)
        return End.WITNESSED, gross - fee(gross)
    return End.UNPAID, 0
