"""The callers of the RPC process, and the limit of calls a minute for each."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

from http_server.known_callers import KnownCallers
from http_server.turns import Caller
from node.rpc.jsonrpc import RATE_LIMITED, JsonRpcError


@dataclass(slots=True, eq=False)
class RpcCaller(Caller):
    """A caller with an account of its calls, and of the node's time."""

    calls_left: float = 0.0
    refilled_at: float = field(default_factory=time.monotonic)
    node_seconds: float = 0.0  # seconds of the node's time, raised to the level of the others after a pause


class Callers:
    """All recent callers."""

    def __init__(self, calls_per_minute: int) -> None:
        """Create it, with the limit of each caller."""
        self._per_minute = calls_per_minute
        self._known_callers = KnownCallers(lambda network: RpcCaller(network, calls_left=calls_per_minute))

    def of(self, transport: asyncio.BaseTransport | None) -> RpcCaller:
        """Return the caller behind a connection."""
        return self._known_callers.of(transport)

    def take_call(self, caller: RpcCaller) -> None:
        """Use one call. Raise `JsonRpcError` if the calls of this minute are used up."""
        now = time.monotonic()
        refilled_calls = caller.calls_left + (now - caller.refilled_at) * self._per_minute / 60
        caller.calls_left = min(float(self._per_minute), refilled_calls)
        caller.refilled_at = now
        if caller.calls_left < 1:
            raise JsonRpcError(RATE_LIMITED, "RPC rate limit exceeded", f"at most {self._per_minute} calls a minute")
        caller.calls_left -= 1
