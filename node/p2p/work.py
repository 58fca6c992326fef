"""What serving each peer's messages has cost in CPU, against its share of this node's one core.

Pure: times are arguments. What always holds: a peer over its share is served again only when it has paid back what it
owes; all peers that are no validators share a second account, so that new identities buy no more of the core; the
memory of accounts is bounded.

The most that one stranger can cost: `PEER_SHARES` of each class, in seconds of CPU a second, and all strangers together
`STRANGERS_SHARES`; at first `BURST_SECONDS` times that.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from node.p2p.frames import MessageClass
from node.p2p.identity import PeerId
from node.p2p.meter import TokenBucket

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
