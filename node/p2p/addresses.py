"""Where nodes can be reached, and when to try each again.

Pure: the time and chance are inputs. What always holds: the book is bounded; addresses that the operator gave are never
forgotten; a learned address is dialled only if it is public (or the network is a devnet); each failure doubles the wait
up to `MAX_BACKOFF_SECONDS`; a node of another chain is left alone for ten minutes.
"""

import ipaddress
import random
from dataclasses import dataclass
from typing import Final

from libp2p.peer.id import ID

from node.p2p.identity import PeerId

MAX_LEARNED: Final = 1024
MAX_PORT: Final = 0xFFFF
MAX_NAME_BYTES: Final = 253
"""Of a DNS name."""
FIRST_BACKOFF_SECONDS: Final = 0.25
MAX_BACKOFF_SECONDS: Final = 30.0
WRONG_CHAIN_BACKOFF_SECONDS: Final = 600.0
HIGHER_ID_DELAY_SECONDS: Final = 0.5
"""When both know each other the lower id dials; the higher waits this long and dials if nothing came."""
MAX_LEARNED_FAILURES: Final = 8
_HOST_PROTOCOLS: Final = ("ip4", "ip6", "dns4", "dns6", "dns")
_PEER_ID_BYTES: Final = bytes.fromhex("002408011220")
"""How the id of an Ed25519 key begins: identity multihash of the 36-byte protobuf."""


class AddressError(ValueError):
    """Not an address that this node can dial; the message says why."""


@dataclass(frozen=True, slots=True)
class Address:
    """A node's id and where it listens."""

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
    """An address from ``/ip4/HOST/tcp/PORT/p2p/PEERID`` (also ip6, dns, dns4, dns6). Raises `AddressError`."""
    match text.split("/"):
        case ["", protocol, host, "tcp", port, "p2p", peer_id] if (
            protocol in _HOST_PROTOCOLS and _fits(protocol, host) and port.isascii() and port.isdecimal()
        ):
            if 0 < int(port[:6]) <= MAX_PORT:
                return Address(parse_peer_id(peer_id), host, int(port))
    raise AddressError(f"{text!r} is not of the form /ip4/HOST/tcp/PORT/p2p/PEERID")


def _fits(protocol: str, host: str) -> bool:
    """Whether `host` is what `protocol` says: a literal address of that version, or a name."""
    try:
        version = ipaddress.ip_address(host).version
    except ValueError:
        return protocol.startswith("dns") and 0 < len(host) <= MAX_NAME_BYTES and host.isascii()
    return protocol == f"ip{version}"


def parse_peer_id(text: str) -> PeerId:
    """A peer id in canonical base58, of an Ed25519 key. Raises `AddressError`."""
    try:
        raw = ID.from_base58(text).to_bytes()
    except Exception as error:
        raise AddressError(f"{text!r} is not a peer id") from error
    if len(raw) != len(_PEER_ID_BYTES) + 32 or not raw.startswith(_PEER_ID_BYTES) or ID(raw).to_base58() != text:
        raise AddressError(f"{text!r} is not the peer id of an Ed25519 key")
    return text


@dataclass(slots=True)
class _Entry:
    address: Address
    given: bool
    due_at: float
    failures: int = 0


class AddressBook:
    """Addresses by peer id."""

    def __init__(self, own: PeerId, rng: random.Random, *, allow_private: bool) -> None:
        self._own = own
        self._rng = rng
        self._allow_private = allow_private
        self._entries: dict[PeerId, _Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, address: Address, now: float, *, given: bool) -> bool:
        """Remember an address. `given` by the operator, else learned from a peer. False when it is not wanted."""
        known = self._entries.get(address.peer_id)
        # What the operator gave, no peer replaces.
        if address.peer_id == self._own or (known is not None and known.given and not given):
            return False
        # A stranger chose this address: it must not lead into networks that only we can reach.
        if not given and not self._is_dialable(address.host):
            return False
        if known is not None:
            known.address, known.given = address, known.given or given
            return True
        if not given and not self._make_room():
            return False
        delay = HIGHER_ID_DELAY_SECONDS if self._own > address.peer_id else 0.0
        self._entries[address.peer_id] = _Entry(address, given, now + delay)
        return True

    def due(self, now: float) -> list[Address]:
        """What may be dialled now, longest due first."""
        entries = sorted(self._entries.values(), key=lambda entry: (not entry.given, entry.due_at))
        return [entry.address for entry in entries if entry.due_at <= now]

    def on_connected(self, peer_id: PeerId, now: float) -> None:
        """Reset the waiting time of a peer that was reached; after a loss the rule of the lower id holds again."""
        entry = self._entries.get(peer_id)
        if entry is not None:
            entry.failures = 0
            entry.due_at = now + FIRST_BACKOFF_SECONDS

    def on_lost(self, peer_id: PeerId, now: float) -> None:
        """The connection ended: try again soon."""
        entry = self._entries.get(peer_id)
        if entry is not None:
            delay = HIGHER_ID_DELAY_SECONDS if self._own > peer_id else FIRST_BACKOFF_SECONDS
            entry.due_at = max(entry.due_at, now + delay * self._jitter())

    def on_failed(self, peer_id: PeerId, now: float) -> None:
        """A dial failed: wait twice as long as last time; forget a learned address that never answers."""
        entry = self._entries.get(peer_id)
        if entry is None:
            return
        entry.failures += 1
        if entry.failures > MAX_LEARNED_FAILURES and not entry.given:
            del self._entries[peer_id]
            return
        doubled = FIRST_BACKOFF_SECONDS * 2 ** min(entry.failures, 16)
        entry.due_at = now + min(MAX_BACKOFF_SECONDS, doubled) * self._jitter()

    def postpone(self, peer_id: PeerId, until: float) -> None:
        """Leave this peer alone until then."""
        entry = self._entries.get(peer_id)
        if entry is not None:
            entry.due_at = max(entry.due_at, until)

    def _jitter(self) -> float:
        return 0.75 + self._rng.random() / 2

    def _make_room(self) -> bool:
        learned = [entry for entry in self._entries.values() if not entry.given]
        if len(learned) < MAX_LEARNED:
            return True
        worst = max(learned, key=lambda entry: entry.failures)
        if not worst.failures:
            return False
        del self._entries[worst.address.peer_id]
        return True

    def _is_dialable(self, host: str) -> bool:
        """Learned hosts are literal addresses; names would make us resolve what a stranger chose."""
        try:
            parsed = ipaddress.ip_address(host)
        except ValueError:
            return False
        if parsed.is_multicast or parsed.is_unspecified:
            return False
        return self._allow_private or parsed.is_global
