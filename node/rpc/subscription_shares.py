"""How many subscriptions there may be: on one connection, and on all of them together.

What always holds: half of all are kept for fair shares, one for each connection that may be; who has its share already
takes from the other half, so nobody can take everything.
"""

from __future__ import annotations

from node.rpc.jsonrpc import TOO_MANY_SUBSCRIPTIONS, JsonRpcError, exceeded

SUBSCRIPTIONS_MAX = 4096  # some 8 kB each


class SubscriptionShares:
    """The count of them all."""

    def __init__(self, each: int, connections: int, total: int = SUBSCRIPTIONS_MAX) -> None:
        """At most `each` on one of so many connections."""
        self._each = each
        self._share = total // 2 // connections
        self._shared_left = total - self._share * connections

    def take(self, held: int) -> None:
        """One more for a connection that holds `held`; raise if it may not have it."""
        if held >= self._each:
            raise exceeded(TOO_MANY_SUBSCRIPTIONS, "Too many subscriptions on the connection", self._each)
        if held < self._share:
            return
        if self._shared_left <= 0:
            text = "others hold too many; a few are always possible"
            raise JsonRpcError(TOO_MANY_SUBSCRIPTIONS, "Too many subscriptions on the connection", text)
        self._shared_left -= 1

    def give_back(self, held: int) -> None:
        """One less for a connection that held `held`, the one that ends included."""
        if held > self._share:
            self._shared_left += 1
