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
    calls_at: float = field(default_factory=time.monotonic)
    asked: float = 0.0  # seconds of the node, with what others used while this one was away


class Callers:
    """Everybody who asked lately."""

    def __init__(self, calls_per_minute: int) -> None:
        """Each may make so many calls."""
        self._per_minute = calls_per_minute
        self._known = KnownCallers(lambda network: RpcCaller(network, calls_left=calls_per_minute))

    def of(self, transport: asyncio.BaseTransport | None) -> RpcCaller:
        """Return the caller behind a connection."""
        return self._known.of(transport)

    def take_call(self, caller: RpcCaller) -> None:
        """Use one call up; raise when none is left of those of this minute."""
        now = time.monotonic()
        refilled = caller.calls_left + (now - caller.calls_at) * self._per_minute / 60
        caller.calls_left = min(float(self._per_minute), refilled)
        caller.calls_at = now
        if caller.calls_left < 1:
            raise JsonRpcError(RATE_LIMITED, "RPC rate limit exceeded", f"at most {self._per_minute} calls a minute")
        caller.calls_left -= 1
