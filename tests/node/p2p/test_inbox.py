"""The queue of what peers sent: order of classes, drops counted, consensus waits instead."""

import pytest
import trio
import trio.testing

from node.p2p import inbox
from node.p2p.frames import FrameKind, MessageClass
from node.p2p.inbox import Inbox, InboxMessage

pytestmark = pytest.mark.trio


async def test_consensus_before_gossip_before_sync() -> None:
    box = Inbox()
    for kind in (FrameKind.BLOCKS, FrameKind.TX, FrameKind.VOTE, FrameKind.ATTESTATION, FrameKind.CHITS):
        await box.put(InboxMessage("a", kind, b""))
    order = [(await box.receive()).kind for _ in range(5)]
    assert order == [FrameKind.VOTE, FrameKind.CHITS, FrameKind.TX, FrameKind.ATTESTATION, FrameKind.BLOCKS]
    assert box.receive_nowait() is None


@pytest.mark.parametrize("limit", ["messages", "bytes"])
async def test_full_gossip_is_dropped_and_counted_and_consensus_passes(
    limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(inbox.CLASS_MESSAGES if limit == "messages" else inbox.CLASS_BYTES, MessageClass.GOSSIP, 2)
    box = Inbox()
    for _ in range(5):
        await box.put(InboxMessage("a", FrameKind.TX, b"x"))
    await box.put(InboxMessage("a", FrameKind.VOTE, b"x"))
    assert box.dropped[MessageClass.GOSSIP] == 3
    assert (await box.receive()).kind is FrameKind.VOTE
    assert len(box) == 2


async def test_full_consensus_makes_its_writers_wait_and_serves_them_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(inbox.CLASS_MESSAGES, MessageClass.CONSENSUS, 1)
    box = Inbox()
    received: list[tuple[str, bytes]] = []

    async def write(peer: str) -> None:
        for number in range(3):
            await box.put(InboxMessage(peer, FrameKind.VOTE, bytes([number])))

    async with trio.open_nursery() as nursery:
        for peer in "abc":
            nursery.start_soon(write, peer)
        await trio.testing.wait_all_tasks_blocked()
        assert len(box) == 1
        for _ in range(9):
            message = await box.receive()
            received.append((message.peer, message.payload))
            await trio.testing.wait_all_tasks_blocked()
    assert sum(box.dropped.values()) == 0
    for peer in "abc":
        assert [payload for sender, payload in received if sender == peer] == [b"\x00", b"\x01", b"\x02"]
    assert {peer for peer, _ in received[:4]} == {"a", "b", "c"}, "nobody waits for another to finish"


async def test_a_cancelled_receive_loses_nothing() -> None:
    box = Inbox()
    with trio.move_on_after(0):
        await box.receive()
    await box.put(InboxMessage("a", FrameKind.VOTE, b"kept"))
    with trio.move_on_after(0):
        await box.receive()
    assert (await box.receive()).payload == b"kept"
