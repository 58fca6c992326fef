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
        bracketed_host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{bracketed_host}" + (
            f":{self.port}" if self.port != DEFAULT_PORTS[self.scheme] else ""
        )

    @property
    def literal(self) -> str | None:
        """The IP address, if the host is one."""
        return self.host if ":" in self.host or _NUMBER.fullmatch(self.host.rpartition(".")[2]) else None


@functools.lru_cache(maxsize=PARSED_KEPT)
def parse_endpoint(endpoint_text: str) -> StoreAddress:
    """Return the address of a text. Raise EndpointError for any other text."""
    address_match = _FORM.fullmatch(endpoint_text)
    if address_match is None:
        raise EndpointError(
            f"{endpoint_text!r} is not http(s)://HOST:PORT; remove any user, path, query or fragment",
            code="invalid_url",
        )
    url_scheme, address_literal, host_name, port_text = address_match.groups()
    port_number = int(port_text) if port_text else DEFAULT_PORTS[url_scheme]
    if not 1 <= port_number <= PORT_MAX:
        raise EndpointError(f"{endpoint_text!r} has a port outside 1 to {PORT_MAX:,}", code="invalid_port")
    return StoreAddress(
        url_scheme, _checked_ipv6(address_literal) if address_literal else _checked_host(host_name.lower()), port_number
    )


def reachable_endpoint(endpoint_text: str, *, is_private_allowed: bool) -> StoreAddress:
    """Parse an address as `parse_endpoint` does.

    Without `is_private_allowed`, also refuse literal addresses of private networks.
    """
    endpoint = parse_endpoint(endpoint_text)
    ip_literal = endpoint.literal
    is_local = endpoint.host == "localhost" or endpoint.host.endswith(".localhost")
    if not is_private_allowed and (is_local or (ip_literal is not None and not is_public(ip_literal))):
        raise EndpointError(f"{endpoint.host} is not a public address, so others cannot reach it", code="not_public")
    return endpoint


def is_public(ip_text: str) -> bool:
    """Return True if an IP address belongs to the public network, also if it wraps an IPv4 address."""
    # A zone such as `%eth0` is no part of the address.
    ip_address = ipaddress.ip_address(ip_text.partition("%")[0])
    if isinstance(ip_address, IPv6Address):
        wrapped_address = _wrapped_ipv4(ip_address)
        if wrapped_address is not None:
            return is_public(str(wrapped_address))
        # Such addresses can lead into a private network: Teredo (RFC 4380), site-local (RFC 3879), RFC 8215.
        if ip_address.teredo is not None or ip_address.is_site_local or ip_address in _TRANSLATED_LOCALLY:
            return False
    # `ipaddress` counts some multicast addresses as global.
    return ip_address.is_global and not ip_address.is_multicast


def public_socket(address_info: AddressInfo) -> socket.socket:
    """Return a socket to the address of `address_info`. Raise OSError unless that address is public.

    The caller passes the resolved address of the connection, so a name that resolves differently later gains nothing.
    """
    address_family, socket_kind, protocol, _, socket_address = address_info
    if not is_public(str(socket_address[0])):
        raise OSError(f"{socket_address[0]} is not a public address")
    return socket.socket(address_family, socket_kind, protocol)


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


def _checked_host(host_name: str) -> str:
    host_labels = host_name.split(".")
    # Resolvers take 0x7f000001, 2130706433 and 127.1 for addresses, so only four decimal numbers are accepted
    if _NUMBER.fullmatch(host_labels[-1]):
        try:
            return str(IPv4Address(host_name))
        except ValueError:
            raise EndpointError(
                f"{host_name} is not an IPv4 address of four decimal numbers", code="invalid_address"
            ) from None
    if not all(_LABEL.fullmatch(host_label) for host_label in host_labels):
        raise EndpointError(f"{host_name} is not a host name", code="invalid_host")
    return host_name
