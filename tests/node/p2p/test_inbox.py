"""The queue of peers' messages: order of classes, turns by peer, counted drops, consensus waits, work is charged."""

import pytest
import trio
import trio.testing

from node.p2p import inbox, work
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


async def test_where_only_consensus_is_served_gossip_and_sync_wait() -> None:
    box = Inbox()
    for kind in (FrameKind.BLOCKS, FrameKind.TX, FrameKind.VOTE):
        await box.put(InboxMessage("a", kind, b""))
    served = [box.receive_nowait(consensus_only=True) for _ in range(2)]
    assert served == [InboxMessage("a", FrameKind.VOTE, b""), None]
    assert len(box) == 2


@pytest.mark.parametrize("limit", [inbox.PEER_MESSAGES, inbox.PEER_BYTES])
async def test_full_gossip_is_dropped_and_counted_and_consensus_passes(
    limit: dict[MessageClass, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(limit, MessageClass.GOSSIP, 2)
    box = Inbox()
    for _ in range(5):
        await box.put(InboxMessage("a", FrameKind.TX, b"x"))
    await box.put(InboxMessage("a", FrameKind.VOTE, b"x"))
    await box.put(InboxMessage("b", FrameKind.TX, b"of somebody else"))
    assert box.dropped[MessageClass.GOSSIP] == 3
    assert (await box.receive()).kind is FrameKind.VOTE
    assert len(box) == 3


async def test_full_consensus_makes_its_own_writer_wait_and_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(inbox.PEER_MESSAGES, MessageClass.CONSENSUS, 1)
    box = Inbox()
    received: list[tuple[str, bytes]] = []

    async def write(peer: str) -> None:
        for number in range(3):
            await box.put(InboxMessage(peer, FrameKind.VOTE, bytes([number])))

    async with trio.open_nursery() as nursery:
        for peer in "abc":
            nursery.start_soon(write, peer)
        await trio.testing.wait_all_tasks_blocked()
        assert len(box) == 3
        for _ in range(9):
            message = await box.receive()
            received.append((message.peer, message.payload))
            await trio.testing.wait_all_tasks_blocked()
    assert sum(box.dropped.values()) == 0
    for peer in "abc":
        assert [payload for sender, payload in received if sender == peer] == [b"\x00", b"\x01", b"\x02"]
    assert {peer for peer, _ in received[:3]} == {"a", "b", "c"}, "nobody waits for another to finish"


async def test_turns_go_round_the_peers() -> None:
    box = Inbox()
    for peer in "aaaaab":
        await box.put(InboxMessage(peer, FrameKind.VOTE, b""))
    assert [(await box.receive()).peer for _ in range(3)] == ["a", "b", "a"]


async def test_c1_who_costs_more_than_its_share_waits_and_others_do_not(
    autojump_clock: trio.testing.MockClock,
) -> None:
    box = Inbox(lambda peer: peer == "validator")
    for _ in range(3):
        for peer in ("stranger", "validator"):
            await box.put(InboxMessage(peer, FrameKind.VOTE, b""))
    dear = await box.receive()
    assert dear.peer == "stranger"
    box.charge(dear, 1.0)  # two strangers' shares are a tenth of a second in each second
    began = trio.current_time()
    order = [(await box.receive()).peer for _ in range(5)]
    assert order == ["validator", "validator", "validator", "stranger", "stranger"]
    assert trio.current_time() - began == pytest.approx(8.0, abs=0.1), "it pays 0.8 s at a tenth of a second each"


async def test_c1_strangers_pay_together_and_new_names_buy_nothing(autojump_clock: trio.testing.MockClock) -> None:
    box = Inbox(lambda peer: peer == "validator")
    served = 0
    began = trio.current_time()
    for number in range(100):
        await box.put(InboxMessage(f"identity{number}", FrameKind.VOTE, b""))
    while len(box):
        box.charge(await box.receive(), 0.05)
        served += 1
    elapsed = trio.current_time() - began
    assert served == 100
    assert elapsed >= 100 * 0.05 / work.STRANGERS_SHARES[MessageClass.CONSENSUS] - work.BURST_SECONDS - 1


async def test_what_a_banned_peer_has_sent_is_dropped() -> None:
    box = Inbox()
    await box.put(InboxMessage("a", FrameKind.VOTE, b""))
    await box.put(InboxMessage("a", FrameKind.TX, b"x"))
    await box.put(InboxMessage("b", FrameKind.TX, b"x"))
    box.forget("a")
    assert len(box) == 1
    assert (await box.receive()).peer == "b"


async def test_a_cancelled_receive_loses_nothing() -> None:
    box = Inbox()
    with trio.move_on_after(0):
        await box.receive()
    await box.put(InboxMessage("a", FrameKind.VOTE, b"kept"))
    with trio.move_on_after(0):
        await box.receive()
    assert (await box.receive()).payload == b"kept"
