"""A node's chain for a pool, over a market chain with only final blocks."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from consensus.parameters import Parameters
from simulation.chains.market_chain import GENESIS_HASH, MarketChain, hash_of


@dataclass
class SettledChain:
    """A chain whose newest state is that of every block."""

    market: MarketChain

    @property
    def genesis(self) -> bytes:
        return GENESIS_HASH

    @property
    def parameters(self) -> Any:
        return Parameters(epoch_blocks=self.market.epoch_blocks)

    @property
    def runtime(self) -> Any:
        return self.market.runtime

    @property
    def storage(self) -> Any:
        return SimpleNamespace(id_at=hash_of)

    @property
    def final(self) -> Any:
        facts = SimpleNamespace(height=self.market.height, id=hash_of(self.market.height))
        return SimpleNamespace(state=self.market.state, facts=facts)

    def get(self, block: bytes) -> Any:
        del block
        return self.final
