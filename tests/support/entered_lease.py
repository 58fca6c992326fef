"""A lease at a daemon on real pallets, entered over real HTTP. The engine is a fake."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from fake_engine import FakeEngine
from gpu_tasks.client.tasks.tunnel import open_tunnel
from gpu_tasks.data.sealing import SealKey
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import Provider
from gpu_tasks.market.training.tasks import TaskState
from gpu_tasks.provider.tunnel.tunnel_server import TunnelServer
from gpu_tasks.tunnel.tunnel import Tunnel
from provider_chain import CUSTOMER_SEAL
from renting_village import PROGRAM, Renting
from simulation.chains.market_chain import GENESIS_HASH

SERVICE = replace(PROGRAM, is_lease=True, ports=(8_080,))


class Entered:
    """A running lease, and the way into it."""

    def __init__(self, village: Renting, task: bytes, engine: FakeEngine, stash: bytes) -> None:
        self.village, self.task, self.engine, self.stash = village, task, engine, stash

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.village.miner(self.stash).daemon.server.port}"

    @property
    def door(self) -> TunnelServer:
        return self.village.miner(self.stash).daemon.tunnels

    @property
    def provider(self) -> Provider:
        found = self.village.node.chain.now()[Devices].providers[self.stash]
        assert found is not None
        return found

    def tunnel(self, key: SealKey = CUSTOMER_SEAL, task: bytes = b"") -> contextlib.AbstractAsyncContextManager[Tunnel]:
        return open_tunnel(GENESIS_HASH, task or self.task, self.stash, key, self.provider, is_private=True)


@contextlib.asynccontextmanager
async def entering(tmp_path: Path, **changed: Any) -> AsyncIterator[Entered]:
    """Yield a running lease."""
    async with Renting(tmp_path, 3) as village:
        task = await village.rent(replace(SERVICE, **changed))
        record = await village.until(task, TaskState.RUNNING)
        await village.block()
        stash = record.slots[0].provider
        yield Entered(village, task, village.engine_of(stash), stash)
