"""A daemon that commits at roll calls to rows that nobody computed; it looks at those of others honestly.

Always: root and paths fit what is shown, so the chain takes them; only computing a row again finds it out.
"""

from __future__ import annotations

import secrets
from dataclasses import replace

from gpu_tasks.provider.chain.live import LiveChain
from gpu_tasks.provider.chain.port import Identity
from gpu_tasks.provider.daemon import Daemon, Settings
from gpu_tasks.provider.execution.chain_process import ChainComputer, MakeChains
from gpu_tasks.provider.execution.chain_worker import ChainRows, ChainWork
from gpu_tasks.provider.execution.gpu import Hardware
from gpu_tasks.provider.execution.workshop import Workshop
from gpu_tasks.provider.telemetry import Telemetry
from gpu_tasks.workloads.matmul_chain.prover import rows_root

DIGEST_BYTES = 32


class RowInventor:
    """An honest computer, but for whole chains."""

    def __init__(self, honest: ChainComputer) -> None:
        """Wraps another."""
        self._honest = honest

    async def start(self) -> None:
        """See `ChainComputer`."""
        await self._honest.start()

    async def rows(self, work: ChainWork) -> ChainRows:
        """Hashes of nothing, at once; the right ones of rows that are named."""
        if work.rows:
            return await self._honest.rows(work)
        digests = [secrets.token_bytes(DIGEST_BYTES) for _ in range(work.challenge.shape.rows)]
        return ChainRows(rows_root(digests), b"".join(digests))

    async def close(self) -> None:
        """See `ChainComputer`."""
        await self._honest.close()


def inventing(honest: MakeChains) -> MakeChains:
    """Honest computers, each wrapped."""

    def make(hardware: Hardware) -> RowInventor:
        return RowInventor(honest(hardware))

    return make


class MadeUpRows(Daemon):
    """See `RowInventor`."""

    def __init__(
        self, identity: Identity, chain: LiveChain, workshop: Workshop, telemetry: Telemetry, settings: Settings
    ) -> None:
        """See `Daemon`."""
        lying = replace(settings, make_chains=inventing(settings.make_chains))
        super().__init__(identity, chain, workshop, telemetry, lying)
