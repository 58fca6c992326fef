"""The remembered callers, and the time for which they are remembered."""

import asyncio

import pytest

from http_server.known_callers import KnownCallers
from http_server.turns import Caller

REMEMBERED = 4_096


class PlayedPeer(asyncio.BaseTransport):
    """A connection from an address. Without one, the connection has ended."""

    def __init__(self, *peer: object) -> None:
        super().__init__({"peername": peer or None})


def stranger(number: int) -> PlayedPeer:
    return PlayedPeer(f"192.0.{number // 256}.{number % 256}", 1)


@pytest.mark.parametrize(
    ("transport", "network"),
    [
        (PlayedPeer("192.0.2.1", 1), "192.0.2.1"),
        (PlayedPeer("2001:db8::1", 1), "2001:db8::/64"),
        (PlayedPeer("127.0.0.1", 1), None),
        (PlayedPeer(), ""),  # ended: an unknown address
        (None, ""),
    ],
)
def test_a_caller_has_its_network(transport: PlayedPeer | None, network: str | None) -> None:
    made: list[str | None] = []

    def make(of: str | None) -> Caller:
        made.append(of)
        return Caller(of)

    assert KnownCallers(make).of(transport).network == network
    assert made == [network]


def test_programs_on_this_machine_are_told_apart_by_their_ports() -> None:
    known = KnownCallers(Caller)
    first = known.of(PlayedPeer("127.0.0.1", 1))
    assert known.of(PlayedPeer("127.0.0.1", 2)) is not first
    assert known.of(PlayedPeer("::1", 1)) is not first
    assert known.of(PlayedPeer("127.0.0.1", 1)) is first
    assert known.of(PlayedPeer("192.0.2.1", 1)) is known.of(PlayedPeer("192.0.2.1", 2))


def test_the_callers_that_came_last_are_remembered() -> None:
    known = KnownCallers(Caller)
    first, second = known.of(stranger(0)), known.of(stranger(1))
    for number in range(2, REMEMBERED):
        known.of(stranger(number))
    assert known.of(stranger(0)) is first
    known.of(stranger(REMEMBERED))
    assert len(known) == REMEMBERED
    assert known.of(stranger(0)) is first
    assert known.of(stranger(1)) is not second
