"""The address of a blob store: scheme, host and port, and nothing else.

Any registered provider writes an address on the chain, and all providers and customers connect to it. So there is one
parser. It accepts no user, path, query or fragment that would aim at something else on that host. Outside of
development chains it accepts no address of a private network, and the connected address is checked again.
"""

from __future__ import annotations

import functools
import ipaddress
import re
import socket
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network
from typing import Any

from wallet.errors import CodedError

PORT_MAX = 65_535
DEFAULT_PORTS = {"http": 80, "https": 443}
PARSED_KEPT = 4_096

_FORM = re.compile(r"(https?)://(?:\[([0-9A-Fa-f:.]{2,45})\]|([0-9A-Za-z.-]{1,253}))(?::([0-9]{1,5}))?")
_LABEL = re.compile(r"[0-9a-z](?:[0-9a-z-]{0,61}[0-9a-z])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_TRANSLATED = IPv6Network("64:ff9b::/96")
"""IPv4 addresses in the form of networks without IPv4 (RFC 6052)."""
# For translation within one network (RFC 8215).
_TRANSLATED_LOCALLY = IPv6Network("64:ff9b:1::/48")
# IPv4-compatible addresses, which are deprecated (RFC 4291).
_COMPATIBLE = IPv6Network("::/96")

AddressInfo = tuple[Any, Any, int, str, tuple[Any, ...]]


class EndpointError(CodedError, ValueError):
    """The text is no address of a blob store, or clients must not connect to it. The message says why."""


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """A blob store's address."""

    scheme: str
    host: str
    """A name in lower case, or an IP address."""
    port: int

    @property
    def url(self) -> str:
        """The address as text, the same for every way to write it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}" + (f":{self.port}" if self.port != DEFAULT_PORTS[self.scheme] else "")

    @property
    def literal(self) -> str | None:
        """The IP address, if the host is one."""
        return self.host if ":" in self.host or _NUMBER.fullmatch(self.host.rpartition(".")[2]) else None


@functools.lru_cache(maxsize=PARSED_KEPT)
def parse_endpoint(text: str) -> StoreAddress:
    """Return the address of a text. Raise EndpointError for any other text."""
    match = _FORM.fullmatch(text)
    if match is None:
        raise EndpointError(
            f"{text!r} is not http(s)://HOST:PORT; remove any user, path, query or fragment",
            code="invalid_url",
        )
    scheme, literal, name, port_text = match.groups()
    port = int(port_text) if port_text else DEFAULT_PORTS[scheme]
    if not 1 <= port <= PORT_MAX:
        raise EndpointError(f"{text!r} has a port outside 1 to {PORT_MAX:,}", code="invalid_port")
    return StoreAddress(scheme, _checked_ipv6(literal) if literal else _checked_host(name.lower()), port)


def reachable_endpoint(text: str, *, is_private_allowed: bool) -> StoreAddress:
    """Parse an address as `parse_endpoint` does.

    Without `is_private_allowed`, also refuse literal addresses of private networks.
    """
    endpoint = parse_endpoint(text)
    literal = endpoint.literal
    is_local = endpoint.host == "localhost" or endpoint.host.endswith(".localhost")
    if not is_private_allowed and (is_local or (literal is not None and not is_public(literal))):
        raise EndpointError(f"{endpoint.host} is not a public address, so others cannot reach it", code="not_public")
    return endpoint


def is_public(ip_text: str) -> bool:
    """Return True if an IP address belongs to the public network, also if it wraps an IPv4 address."""
    # A zone such as `%eth0` is no part of the address.
    address = ipaddress.ip_address(ip_text.partition("%")[0])
    if isinstance(address, IPv6Address):
        wrapped = _wrapped_ipv4(address)
        if wrapped is not None:
            return is_public(str(wrapped))
        # Such addresses can lead into a private network: Teredo (RFC 4380), site-local (RFC 3879), RFC 8215.
        if address.teredo is not None or address.is_site_local or address in _TRANSLATED_LOCALLY:
            return False
    # `ipaddress` counts some multicast addresses as global.
    return address.is_global and not address.is_multicast


def public_socket(info: AddressInfo) -> socket.socket:
    """Return a socket to the address of `info`. Raise OSError unless that address is public.

    The caller passes the resolved address of the connection, so a name that resolves differently later gains nothing.
    """
    family, kind, protocol, _, address = info
    if not is_public(str(address[0])):
        raise OSError(f"{address[0]} is not a public address")
    return socket.socket(family, kind, protocol)


def _wrapped_ipv4(ipv6_address: IPv6Address) -> IPv4Address | None:
    if ipv6_address.ipv4_mapped is not None:
        return ipv6_address.ipv4_mapped
    if ipv6_address.sixtofour is not None:
        return ipv6_address.sixtofour
    is_wrapping = ipv6_address in _TRANSLATED or ipv6_address in _COMPATIBLE
    return IPv4Address(int(ipv6_address) & 0xFFFF_FFFF) if is_wrapping else None


def _checked_ipv6(ipv6_text: str) -> str:
    try:
        return str(IPv6Address(ipv6_text))
    except ValueError:
        raise EndpointError(f"[{ipv6_text}] is not an IPv6 address", code="invalid_address") from None


def _checked_host(name: str) -> str:
    labels = name.split(".")
    # Resolvers take 0x7f000001, 2130706433 and 127.1 for addresses, so only four decimal numbers are accepted
    if _NUMBER.fullmatch(labels[-1]):
        try:
            return str(IPv4Address(name))
        except ValueError:
            raise EndpointError(
                f"{name} is not an IPv4 address of four decimal numbers", code="invalid_address"
            ) from None
    if not all(_LABEL.fullmatch(label) for label in labels):
        raise EndpointError(f"{name} is not a host name", code="invalid_host")
    return name
