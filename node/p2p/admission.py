"""Limits of inbound connections: per address and network, on handshakes, with slots reserved for validators.

Pure: addresses and the time are inputs. Invariants: every admitted ticket is counted until `release`, once. The memory
of addresses is bounded. Half of the slots are reserved for validators that proved a key of the active or the elected
set.

All strangers together can cost at most `strangers_share` of handshakes, in seconds of CPU a second, and as much again
from hosts that this node has dialled itself. Hosts of validators pay by address only.
"""

import ipaddress
from collections import Counter, OrderedDict
from dataclasses import dataclass
from typing import Final

from node.p2p.identity import PeerId
from node.p2p.meter import TokenBucket
from node.p2p.work import IsValidator

MAX_REMEMBERED_ADDRESSES: Final = 4096
HANDSHAKE_CPU_SECONDS: Final = 0.0035
"""The listener's cost of one handshake, as measured; a silent one is charged the same."""
SHARE_SECONDS: Final = 2.0
"""The seconds' worth of its share that a quiet account may use at once, as when all other nodes reconnect."""


@dataclass(frozen=True, slots=True)
class AdmissionLimits:
    """The limits; `groups` are (IPv4 prefix, IPv6 prefix, connections allowed in one network of that size)."""

    max_inbound: int = 64
    reserved_for_validators: int = 32
    max_handshakes: int = 64
    max_handshakes_per_address: int = 8
    connects_per_second: float = 2.0
    connect_burst: int = 16
    strangers_share: float = 0.10
    groups: tuple[tuple[int, int, int], ...] = ((32, 128, 4), (24, 48, 8), (16, 32, 16))

    @staticmethod
    def devnet() -> "AdmissionLimits":
        """Return limits for many nodes on one machine: caps per address and network are as wide as the total."""
        return AdmissionLimits(
            max_inbound=256,
            reserved_for_validators=0,
            max_handshakes=128,
            max_handshakes_per_address=64,
            connects_per_second=500.0,
            connect_burst=1000,
            groups=((32, 128, 256),),
        )


@dataclass(eq=False, slots=True)
class Ticket:
    """One admitted connection."""

    address: str
    group_keys: tuple[tuple[int, str], ...]
    in_handshake: bool = True
    peer_id: PeerId = ""


class Admission:
    """The count of inbound connections."""

    def __init__(self, limits: AdmissionLimits, is_validator: IsValidator) -> None:
        """Create it; `is_validator` is asked each time, because sets change while connections last."""
        self._limits = limits
        self._is_validator = is_validator
        self._open_tickets: set[Ticket] = set()
        self._group_counts: Counter[tuple[int, str]] = Counter()
        self._handshake_counts: Counter[str] = Counter()
        self._connect_buckets: OrderedDict[str, TokenBucket] = OrderedDict()
        self._strangers_account = _account(limits.strangers_share)
        self._reached_account = _account(limits.strangers_share)
        self._reached_hosts: OrderedDict[str, None] = OrderedDict()
        self._validator_hosts: OrderedDict[str, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open_tickets)

    def admit(self, address: str, now: float) -> Ticket | None:
        """Return a ticket for a socket just accepted from `address`, or None if it must be closed at once."""
        limits = self._limits
        keys = self._group_keys(address)
        # 300 silent sockets from one address held every slot of the library (docs/p2p.md). Handshakes are therefore
        # counted separately, in total and per address.
        if len(self._open_tickets) >= limits.max_inbound + limits.max_handshakes:
            return None
        if sum(self._handshake_counts.values()) >= limits.max_handshakes:
            return None
        if self._handshake_counts[address] >= limits.max_handshakes_per_address:
            return None
        if any(
            self._group_counts[key] >= connections_max
            for key, (_, _, connections_max) in zip(keys, limits.groups, strict=True)
        ):
            return None
        if not self._may_connect(address, now) or not self._may_cost(address, now):
            return None
        ticket = Ticket(address, keys)
        self._open_tickets.add(ticket)
        self._handshake_counts[address] += 1
        self._group_counts.update(keys)
        return ticket

    def establish(self, ticket: Ticket, peer_id: PeerId) -> bool:
        """End a handshake; False if no slot is left for such a peer. The ticket is still to be released."""
        self._end_handshake(ticket)
        ticket.peer_id = peer_id
        established_tickets = [
            other_ticket
            for other_ticket in self._open_tickets
            if other_ticket is not ticket and not other_ticket.in_handshake
        ]
        if len(established_tickets) >= self._limits.max_inbound:
            return False
        # Strangers can fill their half of the slots only, so validators always find each other. Any key can be proved,
        # so only keys of a validator set count: without that, 64 of 64 slots went to invented ones.
        if self._is_validator(peer_id):
            _remember(self._validator_hosts, ticket.address)
            return True
        unproven_count = sum(not self._is_validator(other_ticket.peer_id) for other_ticket in established_tickets)
        return unproven_count < self._limits.max_inbound - self._limits.reserved_for_validators

    def note_reached(self, host: str) -> None:
        """Record that this node dialled a peer there, which proved its id: connections from there are no strangers'."""
        _remember(self._reached_hosts, host)

    def release(self, ticket: Ticket) -> None:
        """Free the slot of a closed connection; a second call does nothing."""
        if ticket not in self._open_tickets:
            return
        self._end_handshake(ticket)
        self._open_tickets.remove(ticket)
        self._group_counts.subtract(ticket.group_keys)
        # Unary plus drops counts of zero, so that strangers' networks do not stay in memory.
        self._group_counts = +self._group_counts

    def _end_handshake(self, ticket: Ticket) -> None:
        if ticket.in_handshake:
            ticket.in_handshake = False
            self._handshake_counts[ticket.address] -= 1
            self._handshake_counts = +self._handshake_counts

    def _may_cost(self, address: str, now: float) -> bool:
        """Charge the account of an address for a handshake; return False if it is exhausted.

        A new peer id is free and a new address cheap: 300 handshakes a second took the whole of a node's core.
        """
        if address in self._validator_hosts:
            return True
        account = self._reached_account if address in self._reached_hosts else self._strangers_account
        if account.available(now) <= 0:
            return False
        account.spend(HANDSHAKE_CPU_SECONDS, now)
        return True

    def _may_connect(self, address: str, now: float) -> bool:
        """Return whether an address may connect: a handshake costs milliseconds of CPU, so its rate is limited."""
        bucket = self._connect_buckets.pop(address, None)
        if bucket is None:
            bucket = TokenBucket(self._limits.connects_per_second, self._limits.connect_burst, now)
        self._connect_buckets[address] = bucket
        if len(self._connect_buckets) > MAX_REMEMBERED_ADDRESSES:
            self._connect_buckets.popitem(last=False)
        if bucket.available(now) < 1:
            return False
        bucket.spend(1, now)
        return True

    def _group_keys(self, address: str) -> tuple[tuple[int, str], ...]:
        """Return the networks of `address`, one per configured prefix."""
        parsed = ipaddress.ip_address(address.partition("%")[0])
        if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None:
            # The same host as its IPv4 address, which must not get a second share.
            parsed = parsed.ipv4_mapped
        prefixes = [
            ipv4_prefix if parsed.version == 4 else ipv6_prefix for ipv4_prefix, ipv6_prefix, _ in self._limits.groups
        ]
        return tuple((prefix, str(ipaddress.ip_network((parsed, prefix), strict=False))) for prefix in prefixes)


def _account(share: float) -> TokenBucket:
    return TokenBucket(share, share * SHARE_SECONDS, 0.0)


def _remember(hosts: OrderedDict[str, None], host: str) -> None:
    """Add a host as the newest of a bounded number."""
    hosts[host] = None
    hosts.move_to_end(host)
    if len(hosts) > MAX_REMEMBERED_ADDRESSES:
        hosts.popitem(last=False)
