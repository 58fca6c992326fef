"""A chain of the market that keeps every block's state and events, and a client of a node that serves it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runtime.encoding.types import Finalization
from runtime.pallets.balances import Balances
from runtime.pallets.system import EventRecord, System
from runtime.state.overlay import Memory
from simulation.chains.market_chain import MarketChain, hash_of
from wallet.rpc import RpcError


class WatchedChain(MarketChain):
    """A chain that keeps the state and the events of every block, as a node does. A block's id is its number."""

    def __post_init__(self) -> None:
        """Block 0 is there."""
        super().__post_init__()
        self.states = {0: self.state}
        self.told: dict[int, list[Any]] = {}
        self.changed: dict[int, dict[bytes, bytes | None]] = {}
        """The writes of each block, its events among them, as a node keeps them."""

    def block(self, *steps: Any, **named: Any) -> Any:
        """One more block."""
        bound = super().block(*steps, **named)
        self.states[self.height], self.told[self.height] = self.state, self.events
        events = self.runtime.item(System.event_records)
        records = events.value_codec.encode(tuple(EventRecord(Finalization(), event) for event in self.events))
        self.changed[self.height] = {**bound.overlay.changes(), events.key(): records}
        return bound

    def owned_at(self, account: bytes, height: int) -> int:
        """Return an account's money after a block, free and held."""
        balances = self.runtime.at(self.states[height])[Balances]
        return balances.free_balance(account) + balances.reserved_balance(account)


class KeptNode:
    """A client of a node that keeps every block, or none before a given one."""

    def __init__(self, chain: WatchedChain, oldest: int = 0) -> None:
        """Serve this chain."""
        self.reads = 0
        self._chain, self._oldest = chain, oldest
        self.runtime, self.genesis_hash = chain.runtime, hash_of(0)

    def _state(self, block: bytes) -> Memory:
        height = int.from_bytes(block, "big")
        if height < self._oldest:
            raise RpcError(4003, "State already discarded")
        return self._chain.states[height]

    async def finalized(self) -> bytes:
        """The newest block."""
        return self._chain.height.to_bytes(32, "big")

    async def height(self, block: bytes) -> int:
        """Return the height of a block."""
        return int.from_bytes(block, "big")

    async def block_id(self, height: int) -> bytes:
        """Return the block of a height."""
        return height.to_bytes(32, "big")

    async def read(self, item: Any, *keys: Any, at: bytes) -> Any:
        """A value of a pallet's storage."""
        self.reads += 1
        found = self.runtime.item(item)
        raw = self._state(at).get(found.key(*keys))
        return None if raw is None else found.decode(raw)

    async def events(self, block: bytes) -> tuple[EventRecord, ...]:
        """Return the events of a block."""
        self._state(block)
        return tuple(EventRecord(Finalization(), event) for event in self._chain.told[int.from_bytes(block, "big")])

    async def raw(self, keys: Sequence[bytes], *, at: bytes) -> dict[bytes, bytes | None]:
        """Values, as they are stored."""
        return {key: self._state(at).get(key) for key in keys}

    async def raw_keys(self, prefix: bytes, *, at: bytes, most: int) -> list[bytes]:
        """Keys under a prefix."""
        return list(self._state(at).keys(prefix))[: most + 1]
