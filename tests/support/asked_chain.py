"""A client of a chain in memory that answers queries of runtime APIs over the chain's newest state."""

from typing import Any

from gpu_tasks.market.claims.disputes_api import DisputesApi
from gpu_tasks.market.inference.gpu_tasks_api import GpuTasksApi
from gpu_tasks.market.leaf_disputes.leaf_disputes_api import LeafDisputesApi
from runtime.cryptography.signatures import verify
from runtime.frame.api import Apis
from simulation.chains.market_chain import GENESIS_HASH, MarketChain

ASKED = (GpuTasksApi, DisputesApi, LeafDisputesApi)


class AskedChain:
    """The client."""

    def __init__(self, chain: MarketChain) -> None:
        """Ask this chain."""
        self.chain = chain

    async def query(self, function: str, *arguments: Any, at: bytes | None = None) -> Any:
        """Answer a query."""
        api_name, _, name = function.partition("_")
        api = next(each for each in ASKED if each.__name__ == api_name)
        return getattr(api(Apis(self.chain.runtime, ASKED), self.chain.state, GENESIS_HASH, verify), name)(*arguments)

    async def finalized(self) -> bytes:
        """Return the newest block."""
        return self.chain.height.to_bytes(32, "big")

    async def height(self, block: bytes) -> int:
        """Return the height of a block."""
        return int.from_bytes(block, "big")
