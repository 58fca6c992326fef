"""The requests that count together as one caller's, and their limit."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from node.rpc.callers import Callers
from node.rpc.jsonrpc import RATE_LIMITED, JsonRpcError


class PlayedSocket(asyncio.BaseTransport):
    """A connection from an address."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__({"peername": (host, port)})


def is_same(first: tuple[str, int], second: tuple[str, int]) -> bool:
    callers = Callers(10)
    return callers.of(PlayedSocket(*first)) is callers.of(PlayedSocket(*second))


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (("192.0.2.1", 1), ("192.0.2.1", 2), True),
        (("192.0.2.1", 1), ("192.0.2.2", 1), False),
        (("2001:db8::1", 1), ("2001:db8::ffff:ffff", 2), True),
        (("2001:db8::1", 1), ("2001:db8:0:1::1", 1), False),
        (("::ffff:192.0.2.1", 1), ("::ffff:192.0.2.2", 1), False),
        (("127.0.0.1", 1), ("127.0.0.1", 2), False),
        (("::1", 1), ("::1", 1), True),
    ],
)
def test_a_caller_is_an_address_a_household_or_here_a_connection(
    first: tuple[str, int], second: tuple[str, int], *, expected: bool
) -> None:
    assert is_same(first, second) == expected


def test_calls_are_used_up_and_come_back_with_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("node.rpc.callers.time.monotonic", lambda: now)
    callers = Callers(60)
    caller = callers.of(PlayedSocket("192.0.2.1", 1))
    caller.refilled_at = now

    def taken() -> int:
        count = 0
        with pytest.raises(JsonRpcError) as refused:
            while count < 1_000:
                callers.take_call(caller)
                count += 1
        error: Any = refused.value
        assert error.code == RATE_LIMITED
        return count

    assert taken() == 60
    now += 5
    assert taken() == 5
    now += 3_600
    assert taken() == 60
