"""The network that a connection comes from: strangers are counted by it, never by their ports."""

from __future__ import annotations

import ipaddress

IPV6_NETWORK_BITS = 64  # the part of an address that one household or machine is given
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
