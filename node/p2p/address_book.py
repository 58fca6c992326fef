"""Known and reported addresses of peers, and the time of the next dial of each.

Pure: the time and chance are inputs. Invariants: the book is bounded. It holds several addresses of a peer, and hearsay
never replaces a better one: one from the operator, one that led to the peer, or one from the peer itself. A learned
address is dialled only if it is public (or on a devnet). Each failure doubles the wait, up to `MAX_BACKOFF_SECONDS`.
"""

import ipaddress
import logging
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
_LOG: Final = logging.getLogger(__name__)


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
        failures_max = MAX_REACHED_FAILURES if self.source is Source.REACHED else MAX_LEARNED_FAILURES
        return self.source is not Source.GIVEN and self.failures > failures_max


@dataclass(slots=True)
class _Entry:
    due_at: float
    known_places: list[_Place] = field(default_factory=list)

    @property
    def is_given(self) -> bool:
        """True if the operator named this peer."""
        return any(place.source is Source.GIVEN for place in self.known_places)

    @property
    def failures(self) -> int:
        """The rounds through all places that have failed."""
        return min(place.failures for place in self.known_places)

    def next_place(self) -> _Place:
        """Return the place to try: the one with the fewest failures, and among those the best."""
        # Otherwise an address that was dead for a moment would wait behind three invented ones.
        return min(
            self.known_places,
            key=lambda place: (
                place.failures >> (place.source >= Source.REACHED),
                -place.source,
            ),
        )

    def find(self, address: Address) -> _Place | None:
        """Return the place with this address."""
        return next((place for place in self.known_places if place.address == address), None)


class AddressBook:
    """Addresses by peer id."""

    def __init__(self, own_peer_id: PeerId, rng: random.Random, *, allow_private: bool) -> None:
        self._own_peer_id = own_peer_id
        self._rng = rng
        self._allow_private = allow_private
        self._entries: dict[PeerId, _Entry] = {}
        self._has_warned = False

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, address: Address, now: float, source: Source) -> bool:
        """Add an address; False if it is refused."""
        # A stranger chose this address: it must not lead into networks that only this node can reach.
        if address.peer_id == self._own_peer_id or (source is not Source.GIVEN and not self._is_dialable(address.host)):
            return False
        entry = self._entries.get(address.peer_id)
        if entry is not None:
            return _add_place(entry, _Place(address, source))
        if source is not Source.GIVEN and not self._make_room():
            return False
        # Two nodes that know each other would otherwise both dial, and close one connection again.
        delay_seconds = HIGHER_ID_DELAY_SECONDS if self._own_peer_id > address.peer_id else 0.0
        self._entries[address.peer_id] = _Entry(now + delay_seconds, [_Place(address, source)])
        return True

    def due(self, now: float) -> list[Address]:
        """Return the addresses to dial, one of each peer: given ones first, then longest due first."""
        due_entries = [entry for entry in self._entries.values() if entry.due_at <= now]
        due_entries.sort(key=lambda entry: (not entry.is_given, entry.due_at))
        return [entry.next_place().address for entry in due_entries]

    def is_given(self, address: Address) -> bool:
        """Return whether the operator gave this address."""
        entry = self._entries.get(address.peer_id)
        place = entry.find(address) if entry is not None else None
        return place is not None and place.source is Source.GIVEN

    def reached(self) -> list[Address]:
        """Return the addresses that led to their peers, fewest failures first: they are kept over a restart."""
        places = [
            place for entry in self._entries.values() for place in entry.known_places if place.source is Source.REACHED
        ]
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
            delay_seconds = HIGHER_ID_DELAY_SECONDS if self._own_peer_id > peer_id else FIRST_BACKOFF_SECONDS
            entry.due_at = max(entry.due_at, now + delay_seconds * self._random_jitter())

    def on_failed(self, address: Address, now: float) -> None:
        """Record a failed dial: the peer's next address is tried; after all of them, the wait doubles."""
        entry = self._entries.get(address.peer_id)
        failed_place = entry.find(address) if entry is not None else None
        if entry is None or failed_place is None:
            return
        failed_place.failures += 1
        entry.known_places = [place for place in entry.known_places if not place.is_worn_out]
        if not entry.known_places:
            del self._entries[address.peer_id]
            return
        # Bounded: an address may fail for a day, and 2 to that power would be a huge number.
        wait_seconds = FIRST_BACKOFF_SECONDS * 2 ** min(entry.failures, 16)
        entry.due_at = now + min(MAX_BACKOFF_SECONDS, wait_seconds) * self._random_jitter()

    def postpone(self, peer_id: PeerId, until_seconds: float) -> None:
        """Leave this peer alone until a time."""
        entry = self._entries.get(peer_id)
        if entry is not None:
            entry.due_at = max(entry.due_at, until_seconds)

    def _random_jitter(self) -> float:
        # Random jitter: nodes that lost each other at one moment must not all redial at one moment.
        return 0.75 + self._rng.random() / 2

    def _make_room(self) -> bool:
        learned_entries = [(peer_id, entry) for peer_id, entry in self._entries.items() if not entry.is_given]
        if len(learned_entries) < MAX_LEARNED:
            return True
        hearsay_entries = [
            (peer_id, entry)
            for peer_id, entry in learned_entries
            if all(place.source < Source.REACHED for place in entry.known_places)
        ]
        if not hearsay_entries:
            return False
        worst_peer_id, entry = max(hearsay_entries, key=lambda id_and_entry: id_and_entry[1].failures)
        if not entry.failures:
            return False
        del self._entries[worst_peer_id]
        return True

    def _is_dialable(self, host: str) -> bool:
        """Return whether a learned host may be dialled: a literal address, because a stranger chose it, and public."""
        try:
            parsed = ipaddress.ip_address(host)
        except ValueError:
            return False
        if parsed.is_multicast or parsed.is_unspecified:
            return False
        if self._allow_private or parsed.is_global:
            return True
        if not self._has_warned and not parsed.is_loopback:
            # Once: strangers can repeat such addresses.
            self._has_warned = True
            _LOG.warning(
                "a peer named the private address %s, and a live chain dials only public ones of peers. If your nodes "
                "share a private network, name each with --bootnodes", host,
            )  # fmt: skip
        return False


def _add_place(entry: _Entry, new_place: _Place) -> bool:
    """Add an address to a peer's entry, or replace a worse one if there is no room."""
    known_place = entry.find(new_place.address)
    if known_place is not None:
        known_place.source = max(known_place.source, new_place.source)
        return True
    if len(entry.known_places) >= MAX_PLACES:
        worst = min(entry.known_places, key=lambda place: (place.source, -place.failures))
        # Repeated PEERS messages named honest peers at a dead address: no node found those peers again.
        if worst.source > new_place.source or (worst.source == new_place.source and not worst.failures):
            return False
        entry.known_places.remove(worst)
    entry.known_places.append(new_place)
    return True
