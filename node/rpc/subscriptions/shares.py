"""How many subscriptions there may be, or keys that they watch: on one connection, and on all of them together.

What always holds: half of all are kept for fair shares, one for each connection that may be; who has its share already
takes from the other half, so nobody can take everything.
"""

from __future__ import annotations

from node.rpc.jsonrpc import TOO_MANY_SUBSCRIPTIONS, JsonRpcError, exceeded

SUBSCRIPTIONS_MAX = 4096  # some 8 kB each
KEYS_MAX = 65_536
"""Keys that are read anew for each block, by all who watch any: an eighth of a second of this process's time."""
KEYS_EACH = 16_384  # of one connection


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
