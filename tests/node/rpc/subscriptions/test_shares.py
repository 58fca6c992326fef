"""Subscriptions: a fair share for each connection, and half of all for any first comer."""

import pytest

from node.rpc.jsonrpc import JsonRpcError
from node.rpc.subscriptions.shares import SubscriptionShares

EACH, CONNECTIONS, TOTAL = 60, 10, 100
SHARE = TOTAL // 2 // CONNECTIONS


def take(shares: SubscriptionShares, held: int, most: int) -> int:
    """Return the number that a connection with `held` of them still gets."""
    for count in range(held, most):
        try:
            shares.take(count)
        except JsonRpcError:
            return count
    return most


def test_the_limit_of_a_connection_is_the_one_that_holds() -> None:
    assert take(SubscriptionShares(7, CONNECTIONS, TOTAL), 0, 100) == 7


def test_whoever_takes_everything_leaves_everybody_a_share() -> None:
    shares = SubscriptionShares(EACH, CONNECTIONS, TOTAL)
    assert take(shares, 0, 1_000) == SHARE + TOTAL // 2
    for _ in range(CONNECTIONS - 1):
        assert take(shares, 0, 1_000) == SHARE


def test_what_is_given_back_can_be_had_again() -> None:
    shares = SubscriptionShares(EACH, CONNECTIONS, TOTAL)
    for _ in range(5):
        held = take(shares, 0, 1_000)
        assert held == SHARE + TOTAL // 2
        for count in range(held, 0, -1):
            shares.give_back(count)


def test_a_share_is_not_given_back_into_the_common_half() -> None:
    shares = SubscriptionShares(EACH, CONNECTIONS, TOTAL)
    for _ in range(100):
        shares.take(0)
        shares.give_back(1)
    assert take(shares, 0, 1_000) == SHARE + TOTAL // 2
    with pytest.raises(JsonRpcError):
        shares.take(SHARE)


def test_keys_are_taken_several_at_once_and_given_back_the_same() -> None:
    shares = SubscriptionShares(EACH, CONNECTIONS, TOTAL)
    shares.take(0, SHARE + 10)
    assert shares._shared_left == TOTAL // 2 - 10
    with pytest.raises(JsonRpcError):
        shares.take(SHARE + 10, EACH - SHARE - 9)
    with pytest.raises(JsonRpcError):
        shares.take(0, SHARE + TOTAL // 2 - 9)
    assert shares._shared_left == TOTAL // 2 - 10
    shares.give_back(SHARE + 10, SHARE + 10)
    assert shares._shared_left == TOTAL // 2
