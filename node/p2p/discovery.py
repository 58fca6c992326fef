"""How nodes learn of each other: everybody who joins is named to those who are there, and they to it.

Pure. An address in a PEERS message is the host that the sender saw and the port that the peer claimed, so it names a
node that was really reached. What always holds: a message holds at most `MAX_PEERS_PER_MESSAGE` addresses, and decoding
raises nothing but `FrameError`.
"""

import ipaddress
from collections.abc import Sequence
from typing import Final

import msgpack

from node.p2p.addresses import Address, AddressError, parse_peer_id
from node.p2p.frames import FrameError

MAX_PEERS_PER_MESSAGE: Final = 32
PEERS_PER_SECOND: Final = 4.0
PEERS_BURST: Final = 128
"""Addresses taken from one peer; the rest of what it names is ignored."""
_MAX_TEXT_BYTES: Final = 64


def encode_peers(addresses: Sequence[Address]) -> bytes:
    """The payload of a PEERS message: the first `MAX_PEERS_PER_MESSAGE` of `addresses`."""
    listed = [[address.peer_id, address.host, address.port] for address in addresses[:MAX_PEERS_PER_MESSAGE]]
    packed: bytes = msgpack.packb(listed)
    return packed


def decode_peers(payload: bytes) -> list[Address]:
    """Raises `FrameError`."""
    try:
        listed: object = msgpack.unpackb(
            payload,
            raw=False,
            max_str_len=_MAX_TEXT_BYTES,
            max_bin_len=0,
            max_map_len=0,
            max_ext_len=0,
            max_array_len=MAX_PEERS_PER_MESSAGE,
        )
    except (ValueError, TypeError, OverflowError, msgpack.exceptions.UnpackException) as error:
        raise FrameError(f"not a list of peers: {error}") from error
    if not isinstance(listed, list):
        raise FrameError("not a list of peers")
    return [_decode_address(item) for item in listed]


def _decode_address(item: object) -> Address:
    match item:
        case [str() as peer_id, str() as host, int() as port] if type(port) is int and 0 < port <= 0xFFFF:
            try:
                return Address(parse_peer_id(peer_id), str(ipaddress.ip_address(host)), port)
            except (AddressError, ValueError) as error:
                raise FrameError("malformed peer address") from error
    raise FrameError("malformed peer address")
