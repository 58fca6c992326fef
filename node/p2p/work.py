"""The CPU cost of reading and serving each peer, against its share of this node's CPU.

Pure: times are arguments, in seconds of `core_time`, so shares hold also on a part of a core. Invariants:

* A peer over its share is served again only when its debt is paid.
* All peers that are no validators share a second account, so new identities buy no more of the core.
* The memory of accounts is bounded.

One stranger can cost at most `PEER_SHARES` of the node's CPU in each class, all strangers together `STRANGERS_SHARES`,
and `BURST_SECONDS` times that at first. Before messages there are records to decode: `READING_SHARE` for one address,
for any number of connections and reconnections, and `STRANGERS_READING_SHARE` for all strangers together.
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
    # A healthy peer sends 400 messages a second at most (node/p2p/meter.py), nearly all far below 0.25 ms each.
    MessageClass.CONSENSUS: 0.10,
    # Extrinsics: one peer may relay most of a busy network's.
    MessageClass.GOSSIP: 0.40,
    # Questions for blocks, and answers to ours: up to 64 headers of 0.1 ms in each.
    MessageClass.SYNC: 0.10,
}
STRANGERS_SHARES: Final = {MessageClass.CONSENSUS: 0.20, MessageClass.GOSSIP: 0.40, MessageClass.SYNC: 0.15}
BURST_SECONDS: Final = 2.0
"""The seconds' worth of its share that a quiet peer may use at once."""
MAX_ACCOUNTS: Final = 4096

READING_SHARE: Final = 0.07
READING_BURST_SECONDS: Final = 0.05
"""For the records of one address. Measured: 16 MB of frames in a second take 0.02 s, 200 small records 0.01 s."""
STRANGERS_READING_SHARE: Final = 0.20
STRANGERS_READING_BURST_SECONDS: Final = 0.20
RECORD_SECONDS: Final = 30e-6
"""The time to receive and decrypt one record of any length, as measured."""
IPV6_PREFIX: Final = 64
"""One customer of a provider has this many addresses, so they count as one."""

IsValidator = Callable[[PeerId], bool]


class WorkAccounts:
    """The accounts of served messages: one for each peer and class, and one for all strangers."""

    def __init__(self, is_validator: IsValidator, now: float) -> None:
        """Create it; `is_validator` returns whether a peer proved a key of the active or the elected set."""
        self._is_validator = is_validator
        self._strangers_accounts = {
            message_class: _account_of(share, now) for message_class, share in STRANGERS_SHARES.items()
        }
        self._peer_accounts: OrderedDict[tuple[PeerId, MessageClass], TokenBucket] = OrderedDict()

    def charge(self, peer_id: PeerId, message_class: MessageClass, seconds: float, now: float) -> None:
        """Charge a peer for the cost of a message."""
        peer_and_class = (peer_id, message_class)
        account = self._peer_accounts.pop(peer_and_class, None) or _account_of(PEER_SHARES[message_class], now)
        self._peer_accounts[peer_and_class] = account
        if len(self._peer_accounts) > MAX_ACCOUNTS:
            self._peer_accounts.popitem(last=False)
        account.spend(seconds, now)
        if not self._is_validator(peer_id):
            self._strangers_accounts[message_class].spend(seconds, now)

    def wait_seconds(self, peer_id: PeerId, message_class: MessageClass, now: float) -> float:
        """Return the seconds until the next message of a class from this peer may be served; 0 if it may be now."""
        account = self._peer_accounts.get((peer_id, message_class))
        own_wait_seconds = account.wait(now) if account is not None else 0.0
        return (
            own_wait_seconds
            if self._is_validator(peer_id)
            else max(own_wait_seconds, self._strangers_accounts[message_class].wait(now))
        )


def _account_of(share: float, now: float) -> TokenBucket:
    return TokenBucket(share, share * BURST_SECONDS, now)


class ReadingAccounts:
    """The accounts of decoded records: one for each address and each validator, and one for all strangers.

    Many nodes on one machine share one address, the loopback. It gets the share of all strangers together.
    """

    def __init__(self, is_validator: IsValidator, now: float, clock_seconds: Seconds = trio.current_time) -> None:
        """Create it, as `WorkAccounts`; connections take the time from `clock_seconds`."""
        self.seconds = clock_seconds
        self._is_validator = is_validator
        self._strangers_accounts = TokenBucket(STRANGERS_READING_SHARE, STRANGERS_READING_BURST_SECONDS, now)
        self._accounts: OrderedDict[str, TokenBucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._accounts)

    def spend(self, host: str, peer_id: PeerId, seconds: float, now: float) -> float:
        """Charge a record's cost; return the seconds for which this peer is not to be read."""
        return max(account.spend(seconds, now) for account in self._charged_accounts(host, peer_id, now))

    def wait(self, host: str, peer_id: PeerId, now: float) -> float:
        """Return the seconds for which this peer is not to be read; 0 if it may be."""
        return max(account.wait(now) for account in self._charged_accounts(host, peer_id, now))

    def _charged_accounts(self, host: str, peer_id: PeerId, now: float) -> list[TokenBucket]:
        """Return the accounts to charge: a validator's own, or those of the address and of all strangers."""
        if self._is_validator(peer_id):
            return [self._account_of(peer_id, now)]
        network = _network_of(host)
        if network is None:
            return [self._strangers_accounts]
        return [self._account_of(network, now), self._strangers_accounts]

    def _account_of(self, account_name: str, now: float) -> TokenBucket:
        account = self._accounts.get(account_name)
        if account is None:
            account = self._accounts[account_name] = TokenBucket(READING_SHARE, READING_BURST_SECONDS, now)
            if len(self._accounts) > MAX_ACCOUNTS:
                self._accounts.popitem(last=False)
        self._accounts.move_to_end(account_name)
        return account


def _network_of(host: str) -> str | None:
    """Return the IPv4 address or the IPv6 network to charge for a host; None for this machine itself."""
    parsed = ipaddress.ip_address(host.partition("%")[0])
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is None:
            return None if parsed.is_loopback else str(ipaddress.ip_network((parsed, IPV6_PREFIX), strict=False))
        parsed = parsed.ipv4_mapped
    return None if parsed.is_loopback else str(parsed)
