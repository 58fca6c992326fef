"""A joiner beside peers with a halted chain: they announce their tip once, and nothing of it repeats."""

from __future__ import annotations

from pathlib import Path

import pytest

from block_maker import Maker, open_at
from loop_stage import Stage
from node.ledger.chain import ExecutedBlock
from node.p2p.frames import FrameKind
from node.peers.messages import GET_BLOCKS, STATUS, GetBlocks, PeerStatus, encode_answer
from node.sync.sync import AGAIN_MS
from node.sync.waiting_blocks import Room

BLOCKS = 40
ROOM = 8
"""The most blocks that may wait here. The chain is several times as long."""


class Beside:
    """A node that only follows, and its peers. The test carries their messages, second by second."""

    def __init__(self, folder: Path) -> None:
        self.maker = Maker(folder / "maker")
        self.branch: list[ExecutedBlock] = [self.maker.make()]
        while len(self.branch) < BLOCKS:
            self.branch.append(self.maker.make(self.branch[-1].facts.id))
        self.stage = Stage(open_at(folder / "other"), None, folder)
        self.stage.sync._answered = Room(peer_count_max=ROOM, peer_bytes_max=2**24, bytes_max=2**24)
        self.asked: list[GetBlocks] = []
        self.served = 0

    def meet(self, peer: str, tip: bytes) -> None:
        """Connect a peer with its tip."""
        self.stage.loop.peer_up(peer, ())
        self.stage.hear(FrameKind.STATUS, STATUS.encode(PeerStatus(tip, BLOCKS, self.maker.chain.genesis, 0)), peer)

    def pass_second(self, *, answering: bool) -> None:
        """Let a second pass without execution. Asked peers answer at its end, if at all."""
        stage = self.stage
        stage.pass_seconds(1)
        stage.loop.feed(*stage.sync.want_again())
        questions = [(peer, payload) for peer, kind, payload in stage.transport.sent[self.served :]]
        kinds = [kind for _, kind, _ in stage.transport.sent[self.served :]]
        self.served = len(stage.transport.sent)
        for kind, (peer, payload) in zip(kinds, questions, strict=True):
            if kind is not FrameKind.GET_BLOCKS:
                continue
            request = GET_BLOCKS.decode(payload)
            self.asked.append(request)
            blocks = self.maker.chain.branch(request.block, request.above) if answering else []
            if blocks:
                stage.hear(FrameKind.BLOCKS, encode_answer(blocks), peer)

    def execute(self) -> None:
        """Execute all waiting blocks."""
        while self.stage.sync.has_work:
            self.stage.loop._import_next()


@pytest.fixture
def beside(tmp_path: Path) -> Beside:
    return Beside(tmp_path)


def test_it_fetches_everything_however_long_its_blocks_wait(beside: Beside) -> None:
    tip = beside.branch[-1].facts.id
    beside.meet("peer", tip)
    for _ in range(3 * BLOCKS // ROOM):
        for _ in range(5):  # the machine gives a block up after three
            beside.pass_second(answering=True)
        beside.execute()
    assert tip in beside.stage.chain
    assert beside.stage.machine.tip.id == tip
    assert beside.stage.peers.penalties == 0


def test_it_asks_again_whoever_did_not_answer_for_a_while(beside: Beside) -> None:
    tip = beside.branch[-1].facts.id
    beside.meet("peer", tip)
    for _ in range(20):
        beside.pass_second(answering=False)
    for _ in range(3 * BLOCKS // ROOM + 2 * AGAIN_MS // 1_000):
        beside.pass_second(answering=True)
        beside.execute()
    assert tip in beside.stage.chain


def test_a_tip_that_nobody_has_costs_a_question_a_second(beside: Beside) -> None:
    beside.meet("liar", b"t" * 32)
    beside.meet("peer", beside.branch[-1].facts.id)
    for _ in range(60):
        beside.pass_second(answering=True)
        beside.execute()
    assert beside.branch[-1].facts.id in beside.stage.chain, "and it keeps nothing else from coming"
    asked = [request for request in beside.asked if request.block == b"t" * 32]
    assert 10 <= len(asked) <= 2 * 60


def test_blocks_that_are_here_or_below_the_final_one_are_not_asked_for_again(beside: Beside) -> None:
    beside.meet("peer", beside.branch[-1].facts.id)
    for _ in range(20):
        beside.pass_second(answering=True)
        beside.execute()
    before = len(beside.asked)
    old = PeerStatus(b"o" * 32, 0, b"o" * 32, 0)
    beside.stage.hear(FrameKind.STATUS, STATUS.encode(old), "peer")
    for _ in range(10):
        beside.pass_second(answering=True)
    again = [request for request in beside.asked[before:] if request.block != b"o" * 32]
    assert again == []
    assert beside.stage.sync.want_again() == []
