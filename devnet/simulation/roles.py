"""Honest nodes that are no validators, and how the nodes of a world are connected."""

from collections.abc import Iterable
from random import Random

from devnet.simulation.node import SimulatedNode

Links = frozenset[tuple[int, int]]


class Follower(SimulatedNode):
    """A full node: it votes for nothing, and passes on what others lack."""

    def session_of(self, _epoch: int) -> bytes | None:
        """It has no key."""
        return None

    def proven(self) -> tuple[bytes, ...]:
        """It proves none."""
        return ()


def both_ways(pairs: Iterable[tuple[int, int]]) -> Links:
    """Connections without a direction."""
    return frozenset(link for first, second in pairs for link in ((first, second), (second, first)))


def ring(count: int, peers: int) -> Links:
    """Each node with its nearest ones on a circle, `peers` in all."""
    steps = range(1, peers // 2 + 1)
    return both_ways((place, (place + step) % count) for place in range(count) for step in steps)


def star(count: int) -> Links:
    """Everybody with node 0 alone."""
    return both_ways((0, place) for place in range(1, count))


def line(count: int) -> Links:
    """Each node with the next one."""
    return both_ways((place, place + 1) for place in range(count - 1))


def sparse(count: int, random: Random) -> Links:
    """A random tree and half as many links again: connected, and by far no mesh."""
    tree = [(place, random.randrange(place)) for place in range(1, count)]
    more = [(random.randrange(count), random.randrange(count)) for _ in range(count // 2)]
    return both_ways(pair for pair in tree + more if pair[0] != pair[1])
