"""The devnet of the cheats about batches: who races, and how each daemon cheats.

Always: it has as few validators as there may be where batches are checked by their leaves; who answers is one of them,
and the others audit and judge; the chain's rules are those of every chain, but for windows, and proofs are looked at as
often as may be.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path

from devnet.demo import stage
from devnet.demo.telling import Narrator
from devnet.launcher.errors import DevnetError
from devnet.launcher.layout import Devnet
from genesis import dev_accounts
from gpu_tasks.data import market_reads
from wallet.client import ChainClient

VALIDATORS = 6
NUMBERS = {"Courts.audit_rate_ppm": 1_000_000, "LeafChecks.show_blocks": 40, "LeafChecks.dispute_blocks": 40}
"""A proof is looked at two times in three; a customer has time, however busy the machine is."""
RESUME_SECONDS = 90.0
LOOK_SECONDS = 1.0


def fresh(folder: Path, tell: Narrator) -> Devnet:
    """The devnet, where all are honest as yet and offer their devices."""
    return stage.fresh_network(folder, VALIDATORS, any_ports=True, detach=False, tell=tell, numbers=NUMBERS)


def cast(net: Devnet, racers: Mapping[str, str | None], others: str | None) -> None:
    """From now on these race, in their modes, and nobody else does; the others audit and judge in theirs."""
    apart = [member.name for member in net.members if member.name not in racers]
    modes = {**racers, **({} if others is None else dict.fromkeys(apart, others))}
    stage.restart_providers(net, modes)
    _await_offered(net, modes)
    offered = asyncio.run(_offered(net))
    for name in apart:
        if name in offered:
            stage.set_device(net, net.member(name), "pause")


def _await_offered(net: Devnet, names: Mapping[str, str | None]) -> None:
    """A daemon that starts resumes its device."""
    end = time.monotonic() + RESUME_SECONDS
    while missing := set(names) - asyncio.run(_offered(net)):
        if time.monotonic() > end:
            raise DevnetError(f"the devices of {', '.join(sorted(missing))} are still paused")
        time.sleep(LOOK_SECONDS)


async def _offered(net: Devnet) -> set[str]:
    """Whose devices take work, as the final chain knows."""
    async with await ChainClient.connect(net.members[0].rpc_url) as chain:
        found = await market_reads.devices(chain, await chain.finalized())
    owners = {each.device.owner for each in found if not each.device.is_paused}
    return {member.name for member in net.members if dev_accounts.stash(member.name) in owners}
