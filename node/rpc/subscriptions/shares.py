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
        self,
        each_max: int,
        connection_count: int,
        total_max: int = SUBSCRIPTIONS_MAX,
        limit_name: str = "subscriptions",
    ) -> None:
        """Create it, with at most `each_max` on one of `connection_count`; a refusal names `limit_name`."""
        self._each_max = each_max
        self._refusal = f"Too many {limit_name} on the connection"
        self._fair_share = total_max // 2 // connection_count
        self._shared_left = total_max - self._fair_share * connection_count

    def take(self, held: int, added_count: int = 1) -> None:
        """Take `added_count` for a connection that holds `held`. Raise `JsonRpcError` if it may not have them."""
        if held + added_count > self._each_max:
            raise exceeded(TOO_MANY_SUBSCRIPTIONS, self._refusal, self._each_max)
        from_shared_half = self._beyond_share(held + added_count) - self._beyond_share(held)
        if from_shared_half > self._shared_left:
            error_text = "other connections hold too many; a few are always possible"
            raise JsonRpcError(TOO_MANY_SUBSCRIPTIONS, self._refusal, error_text)
        self._shared_left -= from_shared_half

    def give_back(self, held_count: int, returned_count: int = 1) -> None:
        """Give back `returned_count` of the `held_count` ones of a connection."""
        self._shared_left += self._beyond_share(held_count) - self._beyond_share(held_count - returned_count)

    def _beyond_share(self, held_count: int) -> int:
        return max(0, held_count - self._fair_share)


def kept_bytes(handler_arguments: Sequence[object]) -> int:
    """Return an upper bound of the bytes that a subscription keeps of its parameters: lists of watched keys."""
    return ITEM_BYTES + sum(_bytes_of(argument) for argument in handler_arguments if isinstance(argument, list))


def _bytes_of(parameter_value: object) -> int:
    if isinstance(parameter_value, list):
        return ITEM_BYTES + sum(map(_bytes_of, parameter_value))
    return ITEM_BYTES + (len(parameter_value) if isinstance(parameter_value, bytes | str) else 0)
