"""The callers behind connections: strangers of one network are one caller, and each connection of this machine is one.

Always: a new connection of a stranger brings no new allowance. The memory is bounded.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from http_server.networks import network_of
from http_server.turns import Caller

CALLERS_MAX = 4096
CallerT = TypeVar("CallerT", bound=Caller)


class KnownCallers(Generic[CallerT]):
    """The recent callers."""

    def __init__(self, make: Callable[[str | None], CallerT]) -> None:
        """Start empty; `make` gives a new caller of a network."""
        self._make = make
        self._known: OrderedDict[str, CallerT] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of remembered callers."""
        return len(self._known)

    def of(self, transport: asyncio.BaseTransport | None) -> CallerT:
        """Return the caller behind a connection."""
        peer = transport.get_extra_info("peername") if transport is not None else None
        if not peer:
            return self._make("")
        network = network_of(str(peer[0]))
        # Programs on this machine are told apart by their ports: all have one address, and so have those of a proxy.
        name = network or f"{peer[0]} {peer[1]}"
        caller = self._known.pop(name, None) or self._make(network)
        self._known[name] = caller
        if len(self._known) > CALLERS_MAX:
            self._known.popitem(last=False)
        return caller
