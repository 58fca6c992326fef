"""The exchange of addresses: each new peer is named to the connected ones, and they to it.

An address in a PEERS message is the named peer's own claim, or else the host that the sender saw with the port that the
peer claimed: it names a node that was really reached. Invariants: a message holds at most `MAX_PEERS_PER_MESSAGE`
addresses, and decoding raises `FrameError` only. Claims of a peer about others are taken at a limited rate, and as
hearsay only.
"""

import ipaddress
import random
from collections.abc import Sequence
from typing import Final

import msgpack
import trio

from node.p2p.address_book import AddressBook, Source
from node.p2p.addresses import Address, AddressError, parse_peer_id
from node.p2p.frames import FrameError, FrameKind, unpacked
from node.p2p.identity import PeerId
from node.p2p.link import Link
from node.p2p.meter import TokenBucket
from node.p2p.peer_table import PeerTable

MAX_PEERS_PER_MESSAGE: Final = 32
PEERS_PER_SECOND: Final = 4.0
PEERS_BURST: Final = 128
"""Addresses accepted from one peer; further ones that it names are ignored."""
MAX_CLAIMED: Final = 4
"""The most own addresses that a peer may claim."""
_MAX_TEXT_BYTES: Final = 64


def encode_peers(addresses: Sequence[Address]) -> bytes:
    """Return the payload of a PEERS message: the first `MAX_PEERS_PER_MESSAGE` of `addresses`."""
    listed_addresses = [[address.peer_id, address.host, address.port] for address in addresses[:MAX_PEERS_PER_MESSAGE]]
    packed_list: bytes = msgpack.packb(listed_addresses)
    return packed_list


def decode_peers(payload: bytes) -> list[Address]:
    """Return the addresses in a PEERS message. Raise `FrameError` if it is malformed."""
    listed_addresses = unpacked(payload, "a list of peers", list_max=MAX_PEERS_PER_MESSAGE, text_max=_MAX_TEXT_BYTES)
    if not isinstance(listed_addresses, list):
        raise FrameError("not a list of peers")
    return [_decode_address(raw_address) for raw_address in listed_addresses]


def _decode_address(raw_address: object) -> Address:
    match raw_address:
        case [str() as peer_id, str() as host, int() as port] if type(port) is int and 0 < port <= 0xFFFF:
            try:
                # The canonical form: several spellings of one address would fill the book.
                return Address(parse_peer_id(peer_id), str(ipaddress.ip_address(host)), port)
            except (AddressError, ValueError) as error:
                raise FrameError("malformed peer address") from error
    raise FrameError("malformed peer address")


class Introductions:
    """The naming of peers to each other, and the intake of their claims."""

    def __init__(
        self, peer_table: PeerTable, address_book: AddressBook, public_addresses: Sequence[Address], rng: random.Random
    ) -> None:
        """Create it; `public_addresses` are the addresses at which this node says that it is reachable."""
        self._peer_table = peer_table
        self._address_book = address_book
        self._public_addresses = public_addresses
        self._rng = rng
        self._claim_buckets: dict[PeerId, TokenBucket] = {}

    def forget(self, peer: PeerId) -> None:
        """Forget a disconnected peer."""
        self._claim_buckets.pop(peer, None)

    def introduce(self, newcomer: Link) -> None:
        """Name this node and its peers to a new peer, and the new peer to them."""
        if self._public_addresses:
            newcomer.push(FrameKind.PEERS, encode_peers(self._public_addresses))
        other_links = [link for link in self._peer_table if link is not newcomer]
        sampled_links = self._rng.sample(other_links, min(len(other_links), MAX_PEERS_PER_MESSAGE))
        named = [address for link in sampled_links for address in _addresses_of(link)]
        if named:
            newcomer.push(FrameKind.PEERS, encode_peers(named))
        self._name_to_others(newcomer)

    def _name_to_others(self, link: Link) -> None:
        addresses = _addresses_of(link)
        for other_link in self._peer_table:
            if other_link is not link and addresses:
                other_link.push(FrameKind.PEERS, encode_peers(addresses))

    def on_peers(self, link: Link, payload: bytes) -> None:
        """Learn addresses, at a limited rate for each peer."""
        now = trio.current_time()
        bucket = self._claim_buckets.setdefault(link.peer_id, TokenBucket(PEERS_PER_SECOND, PEERS_BURST, now))
        for address in decode_peers(payload):
            if bucket.available(now) < 1:  # or one peer could fill the book with invented names
                return
            bucket.spend(1, now)
            if address.peer_id == link.peer_id:
                self._on_own_word(link, address, now)
            else:
                self._address_book.add(address, now, Source.HEARSAY)

    def _on_own_word(self, link: Link, address: Address, now: float) -> None:
        """Take a peer's own address, which is better than the address that its connection shows here."""
        if len(link.claimed_addresses) < MAX_CLAIMED and address not in link.claimed_addresses:
            link.claimed_addresses.append(address)
            if self._address_book.add(address, now, Source.OWN_WORD):
                self._name_to_others(link)


def _addresses_of(link: Link) -> list[Address]:
    """Return a peer's addresses: its claims, else the host seen here with its listening port."""
    # Its own claims first: behind NAT the host that is seen here leads nowhere.
    if link.claimed_addresses:
        return link.claimed_addresses
    return [listen_address(link)] if link.hello.listen_port else []


def listen_address(link: Link) -> Address:
    """Return a peer's listening address as seen from here."""
    return Address(link.peer_id, link.host, link.hello.listen_port)
