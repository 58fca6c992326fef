"""Known and reported addresses of peers, and the time of the next dial of each.

Pure: the time and chance are inputs. Invariants: the book is bounded. It holds several addresses of a peer, and hearsay
never replaces a better one: one from the operator, one that led to the peer, or one from the peer itself. A learned
address is dialled only if it is public (or on a devnet). Each failure doubles the wait, up to `MAX_BACKOFF_SECONDS`.
"""

import ipaddress
import random
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from node.p2p.addresses import Address
from node.p2p.identity import PeerId

MAX_LEARNED: Final = 1024
MAX_PLACES: Final = 4
"""The most addresses of one peer."""
FIRST_BACKOFF_SECONDS: Final = 0.25
MAX_BACKOFF_SECONDS: Final = 30.0
WRONG_CHAIN_BACKOFF_SECONDS: Final = 600.0
HIGHER_ID_DELAY_SECONDS: Final = 0.5
"""If two nodes know each other, the lower id dials. The higher waits this long, and dials if no connection came."""
MAX_LEARNED_FAILURES: Final = 8
MAX_REACHED_FAILURES: Final = 2880
"""A day of tries: an address that led to the peer survives a long outage."""


class Source(IntEnum):
    """The quality of an address: a better one is tried first and replaces a worse one, never the reverse."""

    HEARSAY = 0
    OWN_WORD = 1
    REACHED = 2
    """The address led to the peer: the connection there was authenticated."""
    GIVEN = 3
    """The operator gave the address."""


@dataclass(slots=True)
class _Place:
    address: Address
    source: Source
    failures: int = 0

    @property
    def is_worn_out(self) -> bool:
        """True if it has failed so often that it is no longer tried."""
        limit = MAX_REACHED_FAILURES if self.source is Source.REACHED else MAX_LEARNED_FAILURES
        return self.source is not Source.GIVEN and self.failures > limit


@dataclass(slots=True)
class _Entry:
    due_at: float
    places: list[_Place] = field(default_factory=list)

    @property
    def is_given(self) -> bool:
        """True if the operator named this peer."""
        return any(place.source is Source.GIVEN for place in self.places)

    @property
    def failures(self) -> int:
        """The rounds through all places that have failed."""
        return min(place.failures for place in self.places)

    def next_place(self) -> _Place:
        """Return the place to try: the one with the fewest failures, and among those the best."""
        # Otherwise an address that was dead for a moment would wait behind three invented ones.
        return min(self.places, key=lambda place: (place.failures >> (place.source >= Source.REACHED), -place.source))

    def find(self, address: Address) -> _Place | None:
        """Return the place with this address."""
        return next((place for place in self.places if place.address == address), None)


class AddressBook:
    """Addresses by peer id."""

    def __init__(self, own: PeerId, rng: random.Random, *, allow_private: bool) -> None:
        self._own = own
        self._rng = rng
        self._allow_private = allow_private
        self._entries: dict[PeerId, _Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, address: Address, now: float, source: Source) -> bool:
        """Add an address; False if it is refused."""
        # A stranger chose this address: it must not lead into networks that only this node can reach.
        if address.peer_id == self._own or (source is not Source.GIVEN and not self._is_dialable(address.host)):
            return False
        entry = self._entries.get(address.peer_id)
        if entry is not None:
            return _add_place(entry, _Place(address, source))
        if source is not Source.GIVEN and not self._make_room():
            return False
        delay = HIGHER_ID_DELAY_SECONDS if self._own > address.peer_id else 0.0
        self._entries[address.peer_id] = _Entry(now + delay, [_Place(address, source)])
        return True

    def due(self, now: float) -> list[Address]:
        """Return the addresses to dial, one of each peer: given ones first, then longest due first."""
        due = [entry for entry in self._entries.values() if entry.due_at <= now]
        due.sort(key=lambda entry: (not entry.is_given, entry.due_at))
        return [entry.next_place().address for entry in due]

    def is_given(self, address: Address) -> bool:
        """Return whether the operator gave this address."""
        entry = self._entries.get(address.peer_id)
        place = entry.find(address) if entry is not None else None
        return place is not None and place.source is Source.GIVEN

    def reached(self) -> list[Address]:
        """Return the addresses that led to their peers, fewest failures first: they are kept over a restart."""
        places = [place for entry in self._entries.values() for place in entry.places if place.source is Source.REACHED]
        return [place.address for place in sorted(places, key=lambda place: place.failures)]

    def on_connected(self, address: Address, now: float) -> bool:
        """Record that an address led to its peer; True if that is news.

        After a loss the rule of the lower id holds again.
        """
        entry = self._entries.get(address.peer_id)
        place = entry.find(address) if entry is not None else None
        if entry is None or place is None:
            return False
        is_news = place.source < Source.REACHED
        place.failures = 0
        place.source = max(place.source, Source.REACHED)
        entry.due_at = now + FIRST_BACKOFF_SECONDS
        return is_news

    def on_lost(self, peer_id: PeerId, now: float) -> None:
        """Schedule a redial soon after a connection ended."""
        entry = self._entries.get(peer_id)
        if entry is not None:
            delay = HIGHER_ID_DELAY_SECONDS if self._own > peer_id else FIRST_BACKOFF_SECONDS
            entry.due_at = max(entry.due_at, now + delay * self._jitter())

    def on_failed(self, address: Address, now: float) -> None:
        """Record a failed dial: the peer's next address is tried; after all of them, the wait doubles."""
        entry = self._entries.get(address.peer_id)
        place = entry.find(address) if entry is not None else None
        if entry is None or place is None:
            return
        place.failures += 1
        entry.places = [place for place in entry.places if not place.is_worn_out]
        if not entry.places:
            del self._entries[address.peer_id]
            return
        # Bounded: an address may fail for a day, and 2 to that power would be a huge number.
        wait = FIRST_BACKOFF_SECONDS * 2 ** min(entry.failures, 16)
        entry.due_at = now + min(MAX_BACKOFF_SECONDS, wait) * self._jitter()

    def postpone(self, peer_id: PeerId, until: float) -> None:
        """Leave this peer alone until a time."""
        entry = self._entries.get(peer_id)
        if entry is not None:
            entry.due_at = max(entry.due_at, until)

    def _jitter(self) -> float:
        # Random jitter: nodes that lost each other at one moment must not all redial at one moment.
        return 0.75 + self._rng.random() / 2

    def _make_room(self) -> bool:
        learned = [(peer, entry) for peer, entry in self._entries.items() if not entry.is_given]
        if len(learned) < MAX_LEARNED:
            return True
        hearsay = [
            (peer, entry) for peer, entry in learned if all(place.source < Source.REACHED for place in entry.places)
        ]
        if not hearsay:
            return False
        worst, entry = max(hearsay, key=lambda item: item[1].failures)
        if not entry.failures:
            return False
        del self._entries[worst]
        return True

    def _is_dialable(self, host: str) -> bool:
        """Return whether a learned host may be dialled: a literal address, because a stranger chose it, and public."""
        try:
            parsed = ipaddress.ip_address(host)
        except ValueError:
            return False
        if parsed.is_multicast or parsed.is_unspecified:
            return False
        return self._allow_private or parsed.is_global


def _add_place(entry: _Entry, wanted: _Place) -> bool:
    """Add an address to a peer's entry, or replace a worse one if there is no room."""
    known = entry.find(wanted.address)
    if known is not None:
        known.source = max(known.source, wanted.source)
        return True
    if len(entry.places) >= MAX_PLACES:
        worst = min(entry.places, key=lambda place: (place.source, -place.failures))
        # Repeated PEERS messages named honest peers at a dead address: no node found those peers again.
        if worst.source > wanted.source or (worst.source == wanted.source and not worst.failures):
            return False
        entry.places.remove(worst)
    entry.places.append(wanted)
    return True
