"""The queue towards one peer: order of classes, limits, counted losses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.p2p.frames import FrameKind, MessageClass, class_of, encode_frame
from node.p2p.meter import BULK_SHARE, RateLimits
from node.p2p.outbox import CLASS_QUEUE_BYTES, FRAME_TARGET_BYTES, MAX_QUEUED_BYTES, MAX_QUEUED_MESSAGES, Outbox

PLENTY = 1e12


def outbox(rate: float = PLENTY, messages: float = PLENTY) -> Outbox:
    """Return a queue with `rate` bytes and `messages` of gossip and sync, each second and at once."""
    limits = (rate / BULK_SHARE, rate / BULK_SHARE, messages / BULK_SHARE, messages / BULK_SHARE)
    return Outbox(RateLimits(*limits), now=0.0)


def test_best_class_first_and_in_order_within_a_class() -> None:
    box = outbox()
    for kind, payload in [
        (FrameKind.BLOCKS, b"s"),
        (FrameKind.TX, b"t1"),
        (FrameKind.VOTE, b"v1"),
        (FrameKind.TX, b"t2"),
        (FrameKind.VOTE, b"v2"),
    ]:
        assert box.push(kind, payload)
    taken = box.take(0.0)
    assert [payload for _, payload in taken] == [b"v1", b"v2", b"t1", b"t2", b"s"]
    assert box.take(0.0) == []


def test_a_large_block_travels_alone_and_votes_do_not_wait_for_it() -> None:
    box = outbox()
    box.push(FrameKind.VOTE, b"v")
    box.push(FrameKind.BLOCK, bytes(2_000_000))
    assert [kind for kind, _ in box.take(0.0)] == [FrameKind.VOTE]
    assert [kind for kind, _ in box.take(0.0)] == [FrameKind.BLOCK]


def test_overflow_drops_lowest_class_first_and_counts() -> None:
    box = outbox()
    while box.push(FrameKind.BLOCKS, bytes(1_000_000)):
        pass
    while box.push(FrameKind.TX, bytes(60_000)):
        pass
    for _ in range(3):
        assert box.push(FrameKind.BLOCK, bytes(1_900_000))
    assert box.queued_bytes <= MAX_QUEUED_BYTES
    assert box.dropped[MessageClass.SYNC] > 1
    assert box.dropped[MessageClass.CONSENSUS] == 0


def test_gossip_never_displaces_consensus() -> None:
    box = outbox()
    while box.push(FrameKind.VOTE, bytes(60_000)):
        pass
    while box.push(FrameKind.BLOCKS, bytes(60_000)):
        pass
    frames = iter(lambda: box.take(0.0), [])
    votes = [payload for messages in frames for kind, payload in messages if kind is FrameKind.VOTE]
    assert sum(map(len, votes)) > CLASS_QUEUE_BYTES[MessageClass.CONSENSUS] - 60_000


def test_count_is_bounded_even_for_empty_messages() -> None:
    box = outbox()
    for _ in range(MAX_QUEUED_MESSAGES + 10):
        box.push(FrameKind.TX, b"")
    assert len(box) == MAX_QUEUED_MESSAGES
    assert box.push(FrameKind.VOTE, b"")
    assert box.dropped[MessageClass.GOSSIP] == 11


def test_bulk_is_paced_and_consensus_is_not() -> None:
    box = outbox(rate=1000.0)
    for _ in range(4):
        box.push(FrameKind.TX, bytes(988))
        box.push(FrameKind.VOTE, bytes(60_000))
    assert [kind for kind, _ in box.take(0.0)] == [FrameKind.VOTE] * 4 + [FrameKind.TX]
    assert box.take(0.5) == [(FrameKind.TX, bytes(988))]
    assert box.take(0.9) == []
    assert box.take(1.6) == [(FrameKind.TX, bytes(988))]


def test_bulk_is_paced_by_count_too() -> None:
    box = outbox(messages=2.0)
    for _ in range(5):
        box.push(FrameKind.TX, b"")
        box.push(FrameKind.VOTE, b"")
    assert [kind for kind, _ in box.take(0.0)] == [FrameKind.VOTE] * 5 + [FrameKind.TX] * 2
    assert box.take(0.0) == []
    assert len(box.take(1.0)) == 2


def test_too_long_a_payload_is_our_bug() -> None:
    with pytest.raises(ValueError, match="VOTE too long"):
        outbox().push(FrameKind.VOTE, bytes(65_537))


@given(st.lists(st.tuples(st.sampled_from(FrameKind), st.integers(0, 65_000) | st.integers(0, 100))))
def test_every_frame_taken_can_be_encoded_and_nothing_is_lost_silently(pushes: list[tuple[FrameKind, int]]) -> None:
    box = outbox()
    accepted = sum(box.push(kind, bytes(size)) for kind, size in pushes)
    taken = 0
    for messages in iter(lambda: box.take(0.0), []):
        assert len(encode_frame(messages)) <= FRAME_TARGET_BYTES + 65_536
        assert [class_of(kind) for kind, _ in messages] == sorted(class_of(kind) for kind, _ in messages)
        taken += len(messages)
    displaced = sum(box.dropped.values()) - (len(pushes) - accepted)
    assert taken + displaced == accepted
    assert box.queued_bytes == 0
