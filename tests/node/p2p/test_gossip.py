"""Our gossip: each id once, never back, flood when small, fan-out when large, and a whole simulated network."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.p2p.gossip import FLOOD_PEERS, MIN_FANOUT, Gossip, SeenCache


def test_a_new_id_goes_to_everybody_but_its_source_and_once() -> None:
    gossip = Gossip(random.Random(1))
    assert gossip.on_message(b"id", "b", ["a", "b", "c"]) == ("a", "c")
    assert gossip.on_message(b"id", "c", ["a", "b", "c"]) is None
    assert gossip.duplicates == 1


def test_own_messages_are_not_taken_back() -> None:
    gossip = Gossip(random.Random(1))
    assert gossip.on_own(b"id", ["a", "b"]) == ("a", "b")
    assert gossip.on_message(b"id", "a", ["a", "b"]) is None


def test_same_seed_same_choice() -> None:
    peers = [f"peer{number}" for number in range(100)]
    first, again = (Gossip(random.Random(7)).on_own(b"id", peers) for _ in range(2))
    assert first == again
    assert len(first or ()) == max(MIN_FANOUT, 10)


@given(st.lists(st.binary(max_size=2)), st.integers(1, 5))
def test_the_cache_is_bounded_and_never_calls_an_old_id_of_its_memory_new(ids: list[bytes], capacity: int) -> None:
    cache = SeenCache(capacity)
    for message_id in ids:
        known = message_id in cache
        assert cache.add(message_id) is not known
        assert message_id in cache
        assert len(cache) <= capacity


def test_a_cache_needs_room() -> None:
    with pytest.raises(ValueError, match="positive"):
        SeenCache(0)


@pytest.mark.parametrize(("nodes", "expected"), [(FLOOD_PEERS, 1.0), (200, 0.99)])
def test_a_network_is_reached(nodes: int, expected: float) -> None:
    names = [f"n{number}" for number in range(nodes)]
    gossips = {name: Gossip(random.Random(index)) for index, name in enumerate(names)}
    reached = 0
    for round_number in range(20):
        message_id = bytes([round_number])
        holders = {names[0]}
        queue = [(names[0], to) for to in gossips[names[0]].on_own(message_id, names[1:])]
        while queue:
            source, node = queue.pop()
            targets = gossips[node].on_message(message_id, source, [name for name in names if name != node])
            if targets is not None:
                holders.add(node)
                queue += [(node, to) for to in targets]
        reached += len(holders)
    assert reached >= expected * nodes * 20
