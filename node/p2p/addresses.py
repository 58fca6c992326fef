"""Addresses of nodes as text: ``/ip4/HOST/tcp/PORT/p2p/PEERID``."""

import ipaddress
from dataclasses import dataclass
from typing import Final

from libp2p.peer.id import ID

from node.p2p.identity import PeerId

MAX_PORT: Final = 0xFFFF
MAX_NAME_BYTES: Final = 253
"""The longest DNS name."""
_HOST_PROTOCOLS: Final = ("ip4", "ip6", "dns4", "dns6", "dns")
_PEER_ID_BYTES: Final = bytes.fromhex("002408011220")
"""The first bytes of an Ed25519 key's id: the identity multihash of the 36-byte protobuf."""


class AddressError(ValueError):
    """The text is no address that this node can dial; the message says why."""


@dataclass(frozen=True, slots=True)
class Address:
    """A node's id and its listening address."""

    peer_id: PeerId
    host: str
    port: int

    def __str__(self) -> str:
        try:
            protocol = f"ip{ipaddress.ip_address(self.host).version}"
        except ValueError:
            protocol = "dns"
        return f"/{protocol}/{self.host}/tcp/{self.port}/p2p/{self.peer_id}"


def parse_address(text: str) -> Address:
    """Return an address from ``/ip4/HOST/tcp/PORT/p2p/PEERID`` (also ip6, dns, dns4, dns6). Raise `AddressError`."""
    match text.split("/"):
        case ["", protocol, host, "tcp", port, "p2p", peer_id] if (
            protocol in _HOST_PROTOCOLS and _fits_protocol(protocol, host) and port.isascii() and port.isdecimal()
        ):
            if 0 < int(port[:6]) <= MAX_PORT:
                return Address(parse_peer_id(peer_id), host, int(port))
    raise AddressError(
        f"{text!r} is not of the form /ip4/HOST/tcp/PORT/p2p/PEERID. Copy the address from that node's log"
    )


def parse_public_address(text: str, own_peer_id: PeerId) -> Address:
    """Return a node's own address from ``/ip4/HOST/tcp/PORT``, with or without its id. Raise `AddressError`."""
    peer_id_suffix = f"/p2p/{own_peer_id}"
    try:
        address = parse_address(text.removesuffix(peer_id_suffix) + peer_id_suffix)
    except AddressError:  # that error speaks of an address with an id, which is not required here
        raise AddressError(f"--public-addr {text!r} is not of the form /ip4/HOST/tcp/PORT") from None
    try:
        public_host = ipaddress.ip_address(address.host)
    except ValueError:
        # Peers accept literal addresses only: a name would make them resolve a stranger's choice.
        raise AddressError(f"--public-addr {text!r} holds a name. Give its address, /ip4/HOST/tcp/PORT") from None
    if public_host.is_unspecified or public_host.is_multicast:
        raise AddressError(f"--public-addr {text!r} is no address that peers can dial")
    return address


def _fits_protocol(protocol: str, host: str) -> bool:
    """Return whether `host` matches `protocol`: a literal address of that version, or a name."""
    try:
        ip_version = ipaddress.ip_address(host).version
    except ValueError:
        return protocol.startswith("dns") and 0 < len(host) <= MAX_NAME_BYTES and host.isascii()
    return protocol == f"ip{ip_version}"


def parse_peer_id(peer_id_text: str) -> PeerId:
    """Return a peer id in canonical base58, of an Ed25519 key. Raise `AddressError` if it is none."""
    try:
        raw_peer_id = ID.from_base58(peer_id_text).to_bytes()
    except Exception as error:
        raise AddressError(f"{peer_id_text!r} is not a peer id") from error
    if (
        len(raw_peer_id) != len(_PEER_ID_BYTES) + 32
        or not raw_peer_id.startswith(_PEER_ID_BYTES)
        or ID(raw_peer_id).to_base58() != peer_id_text
    ):
        raise AddressError(f"{peer_id_text!r} is not the peer id of an Ed25519 key")
    return peer_id_text
