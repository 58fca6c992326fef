"""The callers behind connections: strangers of one network are one caller, and each connection of this machine is one.

Always: a new connection of a stranger brings no new allowance. The memory is bounded.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from http_server.networks import network_of
from http_server.turns import Caller

CALLERS_MAX = 4096


class KnownCallers:
    """The recent callers."""

    def __init__(self, calls: float = 0.0) -> None:
        """Start empty; each caller begins with so many calls."""
        self._calls = calls
        self._known: OrderedDict[str, Caller] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of remembered callers."""
        return len(self._known)

    def of(self, transport: asyncio.BaseTransport | None) -> Caller:
        """Return the caller behind a connection."""
        peer = transport.get_extra_info("peername") if transport is not None else None
        if not peer:
            return Caller(self._calls)
        network = network_of(str(peer[0]))
        # Programs on this machine are told apart by their ports: all have one address, and so have those of a proxy.
        name = network or f"{peer[0]} {peer[1]}"
        caller = self._known.pop(name, None) or Caller(self._calls, network)
        self._known[name] = caller
        if len(self._known) > CALLERS_MAX:
            self._known.popitem(last=False)
        return caller
