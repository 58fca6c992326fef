"""Room for waiting blocks: a share for each peer, turns by peer, and the greediest yields."""

from __future__ import annotations

from node.sync.waiting_blocks import Room, Waiting
from runtime.blocks.block import Header


def block(number: int, peer: bytes, size: int = 10, parent: bytes = bytes(32)) -> Waiting:
    header = Header(parent, number, bytes(32), bytes(32), ())
    return Waiting(number.to_bytes(32, "big"), header, peer[:1] * size, 0, peer)


def room(count: int = 4, peer_bytes: int = 1_000, total: int = 3_000) -> Room:
    return Room(peer_count_max=count, peer_bytes_max=peer_bytes, bytes_max=total)


def test_a_peer_fills_its_own_share_and_no_more() -> None:
    kept = room()
    assert [kept.add(block(number, b"a")) for number in range(6)] == [True] * 4 + [False] * 2
    assert kept.add(block(9, b"b"))
    assert not kept.add(block(10, b"c", size=1_001))
    long = room()
    assert [long.add(block(number, b"a", size=300)) for number in range(4)] == [True] * 3 + [False]


def test_turns_go_round_the_peers_and_the_oldest_of_each_comes_first() -> None:
    kept = room()
    for number, peer in enumerate((b"a", b"a", b"a", b"b", b"b")):
        kept.add(block(number, peer))
    assert [kept.take().header.number for _ in range(5)] == [0, 3, 1, 4, 2]
    assert len(kept) == 0


def test_when_all_is_full_the_newest_of_whoever_holds_most_leaves() -> None:
    kept = room(total=1_000)
    for number in range(3):
        kept.add(block(number, b"a", size=300))
    kept.add(block(9, b"b", size=200))
    assert [waiting.header.number for waiting in kept] == [0, 1, 9]


def test_copies_of_a_block_wait_beside_each_other_unless_they_are_the_same() -> None:
    kept = room()
    honest, forged = block(1, b"a"), block(1, b"b")
    assert kept.add(forged)
    assert kept.add(honest)
    assert not kept.add(Waiting(honest.block_id, honest.header, honest.data, 0, b"c"))
    assert len(kept.take_children(bytes(32))) == 2
    assert honest.block_id not in kept


def test_what_a_peer_brought_and_what_is_too_low_is_let_go() -> None:
    kept = room()
    for number, peer in enumerate((b"a", b"a", b"b"), start=1):
        kept.add(block(number, peer))
    kept.forget_to(1)
    kept.forget_peer(b"b")
    assert [waiting.header.number for waiting in kept.take_all()] == [2]
    assert kept._peer_bytes == {}
