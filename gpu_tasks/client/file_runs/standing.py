"""Why of a file nothing more is done yet: how many of its units race, are opened, are judged, or wait, and for what.

Always: of one final block.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpu_tasks.client.waiting import AWAITS_DRAW, look, reason_queued
from gpu_tasks.market.inference.units import Unit, UnitState
from wallet.client import ChainClient


async def standing_of(client: ChainClient, units: Sequence[Unit], not_posted: int, final: bytes) -> str:
    """A sentence about the units of a file that are open, and how many are still to be posted."""
    said = [*_at_work(units)]
    if not_posted:
        said.append(f"{not_posted:,} not posted yet")
    queued = [unit for unit in units if unit.state is UnitState.QUEUED]
    view = await look(client, queued[:1], final)  # of one: the others ask the same of the same market
    if view is not None:
        why = reason_queued(queued[0], view)
        said.append(f"{len(queued):,} waiting for a draw{'' if why == AWAITS_DRAW else f' ({why})'}")
    return f"units: {', '.join(said)}" if said else ""


def stopped_standing(said: str) -> str:
    """The same of a run that was stopped: why it has not ended by that."""
    return f"what waits is taken back; what is worked on cannot be, is paid, and is waited for; {said}" if said else ""


def _at_work(units: Sequence[Unit]) -> list[str]:
    racing = [unit for unit in units if unit.state is UnitState.RACING]
    opening = [unit for unit in racing if unit.round is not None and unit.round.closed_at]
    computed = [unit for unit in racing if unit not in opening]
    judged = sum(unit.state is UnitState.JUDGING for unit in units)
    said = []
    if computed:
        devices = len({racer.device for unit in computed for racer in unit.racers})
        said.append(f"{len(computed):,} racing on {devices:,} {'device' if devices == 1 else 'devices'}")
    if opening:
        said.append(f"{len(opening):,} being opened and settled")
    if judged:
        said.append(f"{judged:,} before judges")
    return said
