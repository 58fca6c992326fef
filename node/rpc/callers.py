"""Which requests come from one caller: those of one address, or on this machine of one connection.

What always holds: a new connection from another machine brings no new allowance; what is remembered is bounded.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict

from node.rpc.jsonrpc import RATE_LIMITED, JsonRpcError
from wallet.listening.networks import network_of
from wallet.listening.turns import Caller

CALLERS_MAX = 4096


class Callers:
    """Everybody who asked lately."""

    def __init__(self, calls_per_minute: int) -> None:
        """Each may make so many calls."""
        self._per_minute = calls_per_minute
        self._known: OrderedDict[str, Caller] = OrderedDict()

    def of(self, transport: asyncio.BaseTransport | None) -> Caller:
        """The caller behind a connection."""
        peer = transport.get_extra_info("peername") if transport is not None else None
        if peer is None:
            return Caller(self._per_minute)
        network = network_of(str(peer[0]))
        # Programs on this machine are told apart by their ports: all have one address, and so have those of a proxy.
        name = network or f"{peer[0]} {peer[1]}"
        caller = self._known.pop(name, None) or Caller(self._per_minute, network)
        self._known[name] = caller
        if len(self._known) > CALLERS_MAX:
            self._known.popitem(last=False)
        return caller

    def take_call(self, caller: Caller) -> None:
        """Use one call up; raise when none is left of those of this minute."""
        now = time.monotonic()
        refilled = caller.calls_left + (now - caller.calls_at) * self._per_minute / 60
        caller.calls_left = min(float(self._per_minute), refilled)
        caller.calls_at = now
        if caller.calls_left < 1:
            raise JsonRpcError(RATE_LIMITED, "RPC rate limit exceeded", f"at most {self._per_minute} calls a minute")
        caller.calls_left -= 1
