"""While a long block waits for its import, votes do not wait for other work."""

from pathlib import Path

import pytest
import trio

from loop_stage import about_to_import
from node.loop import TURNS_BEFORE_IMPORT
from node.p2p.frames import FrameKind
from node.p2p.inbox import InboxMessage

VOTE_AT = 3


@pytest.mark.trio
async def test_a_vote_waits_for_few_turns_of_others_while_a_long_block_is_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage, _ = about_to_import(tmp_path)
    monkeypatch.setattr(type(stage.sync), "next_bytes", property(lambda _: 2 * 1024 * 1024))
    turns = 0
    served_at: list[int] = []

    def serve(_: InboxMessage) -> float:
        served_at.append(turns)
        return 1.0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1  # 4 ms of the pool's checks, and as much of its entrance
            if turns == VOTE_AT:
                await stage.transport.inbound.put(InboxMessage("voter", FrameKind.VOTE, b""))
            await trio.lowlevel.checkpoint()

    monkeypatch.setattr(stage.loop, "_serve_message", serve)
    with trio.move_on_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stage.loop.run)
            nursery.start_soon(others)
            while not served_at:
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
    assert served_at[0] - VOTE_AT <= 2 * TURNS_BEFORE_IMPORT


@pytest.mark.trio
async def test_gossip_waits_until_an_announced_block_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage, block = about_to_import(tmp_path)
    served: list[tuple[FrameKind, bool]] = []

    def serve(message: InboxMessage) -> float:
        served.append((message.kind, block.facts.id in stage.chain))
        return 0.001

    monkeypatch.setattr(stage.loop, "_serve_message", serve)
    for kind in (FrameKind.HEARTBEAT, FrameKind.GET_BLOCKS, FrameKind.VOTE):
        await stage.transport.inbound.put(InboxMessage("peer", kind, b""))
    with trio.move_on_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stage.loop.run)
            while len(served) < 3:
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
    assert served == [(FrameKind.VOTE, False), (FrameKind.HEARTBEAT, True), (FrameKind.GET_BLOCKS, True)]
