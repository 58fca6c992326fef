"""The callers behind connections: strangers of one network are one caller, and each connection of this machine is one.

Invariant: a new connection of a stranger brings no new allowance. The memory is bounded.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from http_server.turns import Caller

CALLERS_MAX = 4096
CallerT = TypeVar("CallerT", bound=Caller)


IPV6_NETWORK_BITS = 64  # the part of an address that identifies one household or machine
THIS_MACHINE = frozenset({"127.0.0.1", "::1"})


def network_of(host: str) -> str | None:
    """Return the network of an address; None for this machine, where each connection may be another program.

    Other addresses of 127.0.0.0/8 count as strangers, so floods can be tried on one machine.
    """
    if host in THIS_MACHINE:
        return None
    address = ipaddress.ip_address(host.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return network_of(str(address.ipv4_mapped))
        return str(ipaddress.ip_network((address, IPV6_NETWORK_BITS), strict=False))
    return host


class KnownCallers(Generic[CallerT]):
    """The recent callers."""

    def __init__(self, make_caller: Callable[[str | None], CallerT]) -> None:
        """Start empty; `make_caller` gives a new caller of a network."""
        self._make = make_caller
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
        # Programs on this machine are told apart by their ports: all of them have one address, and so do a proxy's
        # clients.
        name = network or f"{peer[0]} {peer[1]}"
        caller = self._known.pop(name, None) or self._make(network)
        self._known[name] = caller
        if len(self._known) > CALLERS_MAX:
            self._known.popitem(last=False)
        return caller
