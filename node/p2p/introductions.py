"""Who is named to whom: this node and its peers to a newcomer, the newcomer to them, and what becomes of names heard.

What always holds: a peer is named at the address that it says it has, else at the one seen here; of what a peer says
about others so much a second is taken, and only as hearsay.
"""

import random
from collections.abc import Sequence
from typing import Final

import trio

from node.p2p.address_book import AddressBook, Source
from node.p2p.addresses import Address
from node.p2p.discovery import MAX_PEERS_PER_MESSAGE, PEERS_BURST, PEERS_PER_SECOND, decode_peers, encode_peers
from node.p2p.frames import FrameKind
from node.p2p.identity import PeerId
from node.p2p.link import Link
from node.p2p.meter import TokenBucket
from node.p2p.peer_table import PeerTable

MAX_CLAIMED: Final = 4
"""Addresses that a peer may say it has."""


class Introductions:
    """Names peers to each other, and takes down what they say."""

    def __init__(self, table: PeerTable, book: AddressBook, public: Sequence[Address], rng: random.Random) -> None:
        """`public` is where this node says that it is reached."""
        self._table = table
        self._book = book
        self._public = public
        self._rng = rng
        self._named: dict[PeerId, TokenBucket] = {}

    def forget(self, peer: PeerId) -> None:
        """A peer is gone."""
        self._named.pop(peer, None)

    def introduce(self, newcomer: Link) -> None:
        """Name this node and the others to the newcomer, and it to the others."""
        if self._public:
            newcomer.push(FrameKind.PEERS, encode_peers(self._public))
        others = [link for link in self._table if link is not newcomer]
        some = self._rng.sample(others, min(len(others), MAX_PEERS_PER_MESSAGE))
        named = [address for link in some for address in _addresses_of(link)]
        if named:
            newcomer.push(FrameKind.PEERS, encode_peers(named))
        self._name_to_others(newcomer)

    def _name_to_others(self, link: Link) -> None:
        addresses = _addresses_of(link)
        for other in self._table:
            if other is not link and addresses:
                other.push(FrameKind.PEERS, encode_peers(addresses))

    def on_peers(self, link: Link, payload: bytes) -> None:
        """Learn addresses, so many a second from each peer."""
        now = trio.current_time()
        bucket = self._named.setdefault(link.peer_id, TokenBucket(PEERS_PER_SECOND, PEERS_BURST, now))
        for address in decode_peers(payload):
            if bucket.available(now) < 1:  # or one peer could fill the book with names of its own making
                return
            bucket.spend(1, now)
            if address.peer_id == link.peer_id:
                self._on_own_word(link, address, now)
            else:
                self._book.add(address, now, Source.HEARSAY)

    def _on_own_word(self, link: Link, address: Address, now: float) -> None:
        """A peer says where it is reached: that is better than what its connection looks like from here."""
        if len(link.claimed) < MAX_CLAIMED and address not in link.claimed:
            link.claimed.append(address)
            if self._book.add(address, now, Source.OWN_WORD):
                self._name_to_others(link)


def _addresses_of(link: Link) -> list[Address]:
    """Where others may find a peer: what it says, else the host seen here and the port that it listens on."""
    if link.claimed:
        return link.claimed
    return [listen_address(link)] if link.hello.listen_port else []


def listen_address(link: Link) -> Address:
    """Where a peer listens, as it looks from here."""
    return Address(link.peer_id, link.host, link.hello.listen_port)
