"""Limits of subscriptions, and of the bytes that they keep, on one connection and on all together.

Invariant: half of the total is reserved for fair shares, one for each possible connection. Beyond its share a
connection takes from the other half, so no client can take everything.
"""

from __future__ import annotations

from collections.abc import Sequence

from node.rpc.jsonrpc import TOO_MANY_SUBSCRIPTIONS, JsonRpcError, exceeded

SUBSCRIPTIONS_MAX = 4096  # about 8 kB each
ITEM_BYTES = 256  # an upper bound of the memory of a parameter's item beside its own bytes
KEPT_BYTES_MAX = 8 * 1024 * 1024
"""The most bytes of all subscriptions' parameters: 32,768 of the shortest keys, whose reads take a sixteenth of a
second of this process for each block, or 16,384 of the longest."""
KEPT_BYTES_EACH = KEPT_BYTES_MAX // 4  # of one connection


class SubscriptionShares:
    """The count of all subscriptions, or of their bytes."""

    def __init__(
        self, each: int, connections: int, total: int = SUBSCRIPTIONS_MAX, what: str = "subscriptions"
    ) -> None:
        """Create it, with at most `each` on one of `connections`; `what` names the limit in a refusal."""
        self._each = each
        self._refusal = f"Too many {what} on the connection"
        self._share = total // 2 // connections
        self._shared_left = total - self._share * connections

    def take(self, held: int, more: int = 1) -> None:
        """Take `more` for a connection that holds `held`. Raise `JsonRpcError` if it may not have them."""
        if held + more > self._each:
            raise exceeded(TOO_MANY_SUBSCRIPTIONS, self._refusal, self._each)
        beyond = self._beyond(held + more) - self._beyond(held)
        if beyond > self._shared_left:
            text = "other connections hold too many; a few are always possible"
            raise JsonRpcError(TOO_MANY_SUBSCRIPTIONS, self._refusal, text)
        self._shared_left -= beyond

    def give_back(self, held: int, less: int = 1) -> None:
        """Give back `less` of the `held` ones of a connection."""
        self._shared_left += self._beyond(held) - self._beyond(held - less)

    def _beyond(self, held: int) -> int:
        return max(0, held - self._share)


def kept_bytes(arguments: Sequence[object]) -> int:
    """Return an upper bound of the bytes that a subscription keeps of its parameters: lists of watched keys."""
    return ITEM_BYTES + sum(_size(value) for value in arguments if isinstance(value, list))


def _size(value: object) -> int:
    if isinstance(value, list):
        return ITEM_BYTES + sum(map(_size, value))
    return ITEM_BYTES + (len(value) if isinstance(value, bytes | str) else 0)
