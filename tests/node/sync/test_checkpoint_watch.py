"""A checkpoint that peers contradict: by silence, by a block, by a certified handoff; and one that they confirm."""

from __future__ import annotations

from pathlib import Path

import pytest

from block_maker import SPEC, as_bytes
from consensus.headers import TrustedBlock
from joiner import PEER as SERVER
from joiner import Joiner, history
from node.ledger.chain import ExecutedBlock
from node.ledger.trusted_point import TrustedPoint
from node.peers.messages import GetBlocks, PeerStatus, encode_answer
from node.sync import checkpoint_watch
from node.sync.checkpoint_watch import AGAIN_MS, ASKED_MAX, PATIENCE_MS
from sync_stage import OTHER, PEER, Stage

WRONG = b"o" * 32


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]


def trust(stage: Stage, height: int, block: bytes) -> None:
    TrustedPoint(stage.chain, SPEC, TrustedBlock(height, block))


def claim(stage: Stage, blocks: list[ExecutedBlock], peer: bytes = PEER) -> None:
    """A peer says that the last of these is final."""
    tip = blocks[-1].facts
    stage.sync.on_status(PeerStatus(tip.id, tip.height, tip.id, tip.height), peer)


def test_peers_that_are_past_it_are_asked_for_it_once_each_and_their_silence_is_told(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    blocks = stage.branch(4)
    trust(stage, 3, WRONG)
    for peer in (PEER, OTHER, PEER):
        claim(stage, blocks, peer)
    assert [request for request in stage.requests() if request.block == WRONG] == [GetBlocks(WRONG, 2)] * 2
    stage.sync.retry_early()
    assert errors(caplog) == []
    stage.now_ms += PATIENCE_MS
    stage.sync.retry_early()
    (told,) = errors(caplog)
    assert WRONG.hex() in told
    stage.sync.retry_early()
    assert len(errors(caplog)) == 1
    stage.now_ms += AGAIN_MS
    stage.sync.retry_early()
    assert len(errors(caplog)) == 2


def test_a_peer_that_is_below_it_is_not_asked(stage: Stage) -> None:
    blocks = stage.branch(2)
    trust(stage, 3, WRONG)
    claim(stage, blocks)
    assert not any(request.block == WRONG for request in stage.requests())


def test_a_checkpoint_that_a_peer_has_is_left_in_peace_and_the_sync_goes_on(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    blocks = stage.branch(4)
    trust(stage, 3, blocks[2].facts.id)
    claim(stage, blocks)
    stage.sync.on_answer(encode_answer([as_bytes(blocks[2])]), PEER)
    assert not stage.sync.has_work, "it is no block of the tree yet"
    stage.now_ms += PATIENCE_MS
    stage.sync.retry_early()
    assert errors(caplog) == []
    stage.sync.fetch(blocks[3].facts.id, PEER, 0)
    stage.sync.on_answer(encode_answer([as_bytes(block) for block in blocks]), PEER)
    stage.import_all()
    assert blocks[3].facts.id in stage.chain


def test_a_block_at_its_height_that_is_another_one_is_told_at_once(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    blocks = stage.branch(1)
    trust(stage, 1, WRONG)
    stage.announce(as_bytes(blocks[0]))
    (told,) = errors(caplog)
    assert blocks[0].facts.id.hex() in told


def test_a_certified_handoff_with_another_block_is_told_at_once(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    joiner = Joiner(stage.chain)
    handoffs, _ = history(joiner.chain, [("Alice",), ("Alice", "Bob")])
    trust(stage, joiner.chain.parameters.boundary(1), WRONG)
    joiner.claim(SERVER, 2)
    joiner.asks()
    joiner.answer(SERVER, *handoffs)
    assert len(errors(caplog)) == 1


def test_a_few_peers_are_asked(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ASKED_MAX == 8
    monkeypatch.setattr(checkpoint_watch, "ASKED_MAX", 1)
    blocks = stage.branch(4)
    trust(stage, 3, WRONG)
    for peer in (PEER, OTHER):
        claim(stage, blocks, peer)
    assert sum(request.block == WRONG for request in stage.requests()) == 1
