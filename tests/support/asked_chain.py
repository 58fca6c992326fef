"""A client of a chain in memory that answers queries of runtime APIs over the chain's newest state."""

from collections.abc import Sequence
from typing import Any

from gpu_tasks.market.claims.disputes_api import DisputesApi
from gpu_tasks.market.inference.gpu_tasks_api import GpuTasksApi
from gpu_tasks.market.training.training_api import TrainingApi
from runtime.cryptography.signatures import verify
from runtime.frame.api import Apis
from runtime.frame.storage import StorageItem
from simulation.chains.market_chain import GENESIS_HASH, MarketChain

ASKED = (GpuTasksApi, DisputesApi, TrainingApi)


class AskedChain:
    """The client."""

    def __init__(self, chain: MarketChain) -> None:
        """Ask this chain."""
        self.chain, self.runtime = chain, chain.runtime

    async def query(self, function: str, *arguments: Any, at: bytes | None = None) -> Any:
        """Answer a query."""
        api_name, _, name = function.partition("_")
        api = next(each for each in ASKED if each.__name__ == api_name)
        return getattr(api(Apis(self.chain.runtime, ASKED), self.chain.state, GENESIS_HASH, verify), name)(*arguments)

    async def read_many(self, item: StorageItem, keys: Sequence[Any], *, at: bytes | None = None) -> list[Any]:
        """Return the values of a map."""
        bound = self.chain.now()
        owner = next(pallet for pallet in self.runtime.pallets if getattr(pallet, item.attribute, None) is item)
        return [getattr(bound[owner], item.attribute)[key] for key in keys]

    async def finalized(self) -> bytes:
        """Return the newest block."""
        return self.chain.height.to_bytes(32, "big")

    async def height(self, block: bytes) -> int:
        """Return the height of a block."""
        return int.from_bytes(block, "big")
