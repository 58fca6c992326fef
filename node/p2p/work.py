"""What reading and serving each peer has cost in CPU, against its share of the CPU that this node has.

Pure: times are arguments, in seconds of `core_time`, so shares hold also where a node has a part of a core. What always
holds: a peer over its share is served again only when it has paid back what it owes; all peers that are no validators
share a second account, so that new identities buy no more of the core; the memory of accounts is bounded.

The most that one stranger can cost: `PEER_SHARES` of each class, of the node's CPU, and all strangers together
`STRANGERS_SHARES`; at first `BURST_SECONDS` times that. Before it comes to messages, records are taken apart: for one
address `READING_SHARE`, however many connections it has and how often it connects anew, and for all strangers together
`STRANGERS_READING_SHARE`.
"""

import ipaddress
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

import trio

from node.p2p.frames import MessageClass
from node.p2p.identity import PeerId
from node.p2p.meter import Seconds, TokenBucket

PEER_SHARES: Final = {
    # A healthy peer: 400 messages a second at most (node/p2p/meter.py), nearly all far below 0.25 ms.
    MessageClass.CONSENSUS: 0.10,
    # Extrinsics: most of a busy network's may come through one peer.
    MessageClass.GOSSIP: 0.40,
    # Questions for blocks, and answers to ours: up to 64 headers of 0.1 ms in each.
    MessageClass.SYNC: 0.10,
}
STRANGERS_SHARES: Final = {MessageClass.CONSENSUS: 0.20, MessageClass.GOSSIP: 0.40, MessageClass.SYNC: 0.15}
BURST_SECONDS: Final = 2.0
"""A peer that was quiet may take its share of so many seconds at once."""
MAX_ACCOUNTS: Final = 4096

READING_SHARE: Final = 0.07
READING_BURST_SECONDS: Final = 0.05
"""For the records of one address: 16 MB of frames in a second take 0.02 s, 200 small records 0.01 s, as measured."""
STRANGERS_READING_SHARE: Final = 0.20
STRANGERS_READING_BURST_SECONDS: Final = 0.20
RECORD_SECONDS: Final = 30e-6
"""What it takes to receive and to decrypt one record, however short, as measured."""
IPV6_PREFIX: Final = 64
"""One customer of a provider has as many addresses: they are one."""

IsValidator = Callable[[PeerId], bool]


class WorkAccounts:
    """One account for each peer and class, and one for all strangers."""

    def __init__(self, is_validator: IsValidator, now: float) -> None:
        """`is_validator` says whether a peer proved a key of a set in office or elected."""
        self._is_validator = is_validator
        self._strangers = {kind: _account(share, now) for kind, share in STRANGERS_SHARES.items()}
        self._peers: OrderedDict[tuple[PeerId, MessageClass], TokenBucket] = OrderedDict()

    def charge(self, peer: PeerId, message_class: MessageClass, seconds: float, now: float) -> None:
        """Note what a message has cost."""
        key = (peer, message_class)
        account = self._peers.pop(key, None) or _account(PEER_SHARES[message_class], now)
        self._peers[key] = account
        if len(self._peers) > MAX_ACCOUNTS:
            self._peers.popitem(last=False)
        account.spend(seconds, now)
        if not self._is_validator(peer):
            self._strangers[message_class].spend(seconds, now)

    def wait_seconds(self, peer: PeerId, message_class: MessageClass, now: float) -> float:
        """How long this peer has to wait until its next message of a class is served; 0: it may be served."""
        account = self._peers.get((peer, message_class))
        own = account.wait(now) if account is not None else 0.0
        return own if self._is_validator(peer) else max(own, self._strangers[message_class].wait(now))


def _account(share: float, now: float) -> TokenBucket:
    return TokenBucket(share, share * BURST_SECONDS, now)


class ReadingAccounts:
    """What taking records apart has cost: one account for each address and each validator, and one for all strangers.

    Many nodes of one machine are one address, the loopback: it has what all strangers have together, and no less.
    """

    def __init__(self, is_validator: IsValidator, now: float, seconds: Seconds = trio.current_time) -> None:
        """As for `WorkAccounts`; connections take the time from `seconds`."""
        self.seconds = seconds
        self._is_validator = is_validator
        self._strangers = TokenBucket(STRANGERS_READING_SHARE, STRANGERS_READING_BURST_SECONDS, now)
        self._accounts: OrderedDict[str, TokenBucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._accounts)

    def spend(self, host: str, peer: PeerId, seconds: float, now: float) -> float:
        """Charge what a record took; how long nothing more of this peer is to be read."""
        return max(account.spend(seconds, now) for account in self._charged(host, peer, now))

    def wait(self, host: str, peer: PeerId, now: float) -> float:
        """How long nothing of this peer is to be read; 0: it may be."""
        return max(account.wait(now) for account in self._charged(host, peer, now))

    def _charged(self, host: str, peer: PeerId, now: float) -> list[TokenBucket]:
        """Whoever proved a key in office pays for itself, from wherever it comes; others by address."""
        if self._is_validator(peer):
            return [self._account(peer, now)]
        network = _network(host)
        if network is None:
            return [self._strangers]
        return [self._account(network, now), self._strangers]

    def _account(self, name: str, now: float) -> TokenBucket:
        account = self._accounts.get(name)
        if account is None:
            account = self._accounts[name] = TokenBucket(READING_SHARE, READING_BURST_SECONDS, now)
            if len(self._accounts) > MAX_ACCOUNTS:
                self._accounts.popitem(last=False)
        self._accounts.move_to_end(name)
        return account


def _network(host: str) -> str | None:
    """Return the IPv4 address or the IPv6 network that a host is charged as; None for this machine itself."""
    parsed = ipaddress.ip_address(host.partition("%")[0])
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is None:
            return None if parsed.is_loopback else str(ipaddress.ip_network((parsed, IPV6_PREFIX), strict=False))
        parsed = parsed.ipv4_mapped
    return None if parsed.is_loopback else str(parsed)
