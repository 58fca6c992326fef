"""How many subscriptions there may be, and bytes that they keep: on one connection, and on all of them together.

Invariant: half of all are kept for fair shares, one for each connection that may be; who has its share already
takes from the other half, so nobody can take everything.
"""

from __future__ import annotations

from collections.abc import Sequence

from node.rpc.jsonrpc import TOO_MANY_SUBSCRIPTIONS, JsonRpcError, exceeded

SUBSCRIPTIONS_MAX = 4096  # some 8 kB each
ITEM_BYTES = 256  # what an item of a subscription's parameters takes beside its own bytes, or a little more
KEPT_BYTES_MAX = 8 * 1024 * 1024
"""Of the parameters of all subscriptions: 32,768 of the shortest keys, which are read anew for each block in a
sixteenth of a second of this process's time, or 16,384 of the longest."""
KEPT_BYTES_EACH = KEPT_BYTES_MAX // 4  # of one connection


class SubscriptionShares:
    """The count of them all."""

    def __init__(
        self, each: int, connections: int, total: int = SUBSCRIPTIONS_MAX, what: str = "subscriptions"
    ) -> None:
        """At most `each` on one of so many connections; `what` they are, in a refusal."""
        self._each = each
        self._refusal = f"Too many {what} on the connection"
        self._share = total // 2 // connections
        self._shared_left = total - self._share * connections

    def take(self, held: int, more: int = 1) -> None:
        """So many more for a connection that holds `held`; raise if it may not have them."""
        if held + more > self._each:
            raise exceeded(TOO_MANY_SUBSCRIPTIONS, self._refusal, self._each)
        beyond = self._beyond(held + more) - self._beyond(held)
        if beyond > self._shared_left:
            text = "others hold too many; a few are always possible"
            raise JsonRpcError(TOO_MANY_SUBSCRIPTIONS, self._refusal, text)
        self._shared_left -= beyond

    def give_back(self, held: int, less: int = 1) -> None:
        """So many less for a connection that held `held`, those that end included."""
        self._shared_left += self._beyond(held) - self._beyond(held - less)

    def _beyond(self, held: int) -> int:
        return max(0, held - self._share)


def kept_bytes(arguments: Sequence[object]) -> int:
    """What a subscription keeps of its parameters as long as it lasts, or a little more: lists of what it watches."""
    return ITEM_BYTES + sum(_size(value) for value in arguments if isinstance(value, list))


def _size(value: object) -> int:
    if isinstance(value, list):
        return ITEM_BYTES + sum(map(_size, value))
    return ITEM_BYTES + (len(value) if isinstance(value, bytes | str) else 0)
