"""A node that serves states of a chain in this process. The id of a block is its height."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from runtime.frame.api import Apis
from runtime.frame.runtime import Bound
from runtime.state.overlay import Memory
from simulation.chains.market_chain import GENESIS_HASH, MarketChain
from wallet.client import ChainClient
from wallet.rpc import RpcConnection, RpcError

STATE_GONE = 4003
BLOCKS_KEPT = 80


def block_of(height: int) -> str:
    """The id of a block."""
    return f"0x{height:064x}"


class StateNode(RpcConnection):
    """Serves the states that it has by height. The highest is the final one."""

    def __init__(self, states: Mapping[int, Memory]) -> None:
        self.url = "ws://state"
        self.states = states

    async def call(self, method: str, *params: Any) -> Any:
        if method == "chain_getFinalizedHead":
            return block_of(max(self.states))
        if method == "chain_getBlockHash":
            return block_of(max(self.states) if not params or params[0] is None else params[0])
        if method == "chain_getHeader":
            return {"number": hex(self._height(params[0]))}
        if method == "state_getStorage":
            return _hex(self._state(params[1]).get(_raw(params[0])))
        if method == "state_queryStorageAt":
            state = self._state(params[1])
            return [{"changes": [[key, _hex(state.get(_raw(key)))] for key in params[0]]}]
        if method == "state_getKeysPaged":
            prefix, most, start, at = params
            keys = self._state(at).keys(_raw(prefix), _raw(start or "0x"))
            return [_hex(key) for key, _ in zip(keys, range(most), strict=False)]
        raise AssertionError(f"{method} is not answered here")

    def _height(self, at: str | None) -> int:
        return max(self.states) if at is None else int(at, 16)

    def _state(self, at: str | None) -> Memory:
        height = self._height(at)
        if height not in self.states:
            raise RpcError(STATE_GONE, f"the state of block {height} is gone")
        return self.states[height]


class KeptBlocks:
    """The states and events of a chain's newest blocks from here on, for a client."""

    def __init__(self, chain: MarketChain) -> None:
        self.chain = chain
        self.states: dict[int, Memory] = {}
        self.events: dict[int, list[Any]] = {}
        self._make = chain.block
        chain.block = self._block  # type: ignore[method-assign]
        self.client = _KeptClient(self)

    def _block(self, *steps: Any, **more: Any) -> Bound:
        bound = self._make(*steps, **more)
        height = self.chain.height
        self.states[height], self.events[height] = self.chain.state, self.chain.events
        self.states.pop(height - BLOCKS_KEPT, None)
        self.events.pop(height - BLOCKS_KEPT, None)
        return bound


class _KeptClient(ChainClient):
    """A client of chains whose states have no events."""

    def __init__(self, kept: KeptBlocks) -> None:
        super().__init__(StateNode(kept.states), Apis(kept.chain.runtime, ()), GENESIS_HASH, "Development")
        self._kept = kept

    async def events(self, block: bytes) -> tuple[Any, ...]:
        return tuple(SimpleNamespace(event=event) for event in self._kept.events[int.from_bytes(block, "big")])


def _raw(text: str) -> bytes:
    return bytes.fromhex(text[2:])


def _hex(raw: bytes | None) -> str | None:
    return None if raw is None else "0x" + raw.hex()
