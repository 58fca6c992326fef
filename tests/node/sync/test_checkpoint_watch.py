"""A checkpoint contradicted by peers: by silence, by a block, by a certified handoff; and a confirmed one."""

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
from node.sync.checkpoint_watch import AGAIN_MS, ASKED_MAX, PATIENCE_MS, SILENT_KEPT_MAX, SILENT_MIN
from sync_stage import OTHER, PEER, Stage

WRONG = b"o" * 32


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def told(caplog: pytest.LogCaptureFixture, level: str = "ERROR") -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname == level]


def trust(stage: Stage, height: int, block: bytes) -> None:
    TrustedPoint(stage.chain, SPEC, TrustedBlock(height, block))


def claim(stage: Stage, blocks: list[ExecutedBlock], peer: bytes = PEER) -> None:
    """Let a peer claim that the last of these is final."""
    tip = blocks[-1].facts
    stage.sync.on_status(PeerStatus(tip.id, tip.height, tip.id, tip.height), peer)


def asked(stage: Stage) -> int:
    return sum(request == GetBlocks(WRONG, 2) for request in stage.requests())


def stay_silent(stage: Stage) -> None:
    stage.now_ms += PATIENCE_MS
    stage.sync.retry_early()


def test_peers_that_are_past_it_are_asked_for_it_once_each_and_the_silence_of_most_is_told(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    blocks = stage.branch(4)
    trust(stage, 3, WRONG)
    names = [b"peer%d" % number for number in range(SILENT_MIN)]
    stage.transport.connected += [name.decode() for name in names]
    for peer in names[1:]:
        claim(stage, blocks, peer)
    stage.now_ms += PATIENCE_MS - 1
    claim(stage, blocks, names[0])
    claim(stage, blocks, names[1])
    assert asked(stage) == SILENT_MIN
    stage.now_ms += 1
    stage.sync.retry_early()
    assert told(caplog, "WARNING") == [], "two are too few"
    stage.now_ms += PATIENCE_MS - 2
    stage.sync.retry_early()
    assert told(caplog, "WARNING") == [], "the last one still has time"
    stage.now_ms += 1
    stage.sync.retry_early()
    (message,) = told(caplog, "WARNING")
    assert WRONG.hex() in message
    stage.sync.retry_early()
    assert len(told(caplog, "WARNING")) == 1
    for peer in names:
        claim(stage, blocks, peer)
    assert asked(stage) == SILENT_MIN
    stage.now_ms += AGAIN_MS
    stage.sync.retry_early()
    assert len(told(caplog, "WARNING")) == 2
    assert told(caplog) == [], "no peer contradicted it"


def test_while_most_still_have_time_the_silence_of_a_few_is_not_told(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    blocks = stage.branch(4)
    trust(stage, 3, WRONG)
    names = [b"peer%d" % number for number in range(2 * SILENT_MIN)]
    stage.transport.connected += [name.decode() for name in names]
    for peer in names[:SILENT_MIN]:
        claim(stage, blocks, peer)
    stage.now_ms += PATIENCE_MS - 1
    for peer in names[SILENT_MIN:]:
        claim(stage, blocks, peer)
    stage.now_ms += 1
    stage.sync.retry_early()
    assert told(caplog, "WARNING") == []
    stay_silent(stage)
    assert len(told(caplog, "WARNING")) == 1


def test_silent_peers_keep_no_place_from_one_that_has_the_block(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    blocks = stage.branch(4)
    trust(stage, 3, blocks[2].facts.id)
    names = [b"silent%d" % number for number in range(ASKED_MAX)]
    stage.transport.connected += [name.decode() for name in names]
    for peer in names:
        claim(stage, blocks, peer)
    claim(stage, blocks)
    question = GetBlocks(blocks[2].facts.id, 2)
    assert stage.requests().count(question) == ASKED_MAX
    stage.now_ms += PATIENCE_MS
    claim(stage, blocks)
    assert stage.requests().count(question) == ASKED_MAX + 1
    stage.sync.on_answer(encode_answer([as_bytes(blocks[2])]), PEER)
    assert not stage.sync.has_work
    stage.sync.retry_early()
    assert told(caplog, "WARNING") == []


def test_a_late_answer_is_no_block_of_the_tree_either(stage: Stage) -> None:
    blocks = stage.branch(4)
    trust(stage, 3, blocks[2].facts.id)
    claim(stage, blocks)
    stay_silent(stage)
    stage.sync.on_answer(encode_answer([as_bytes(blocks[2])]), PEER)
    assert not stage.sync.has_work


def test_three_silent_peers_hide_no_contradiction(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    blocks = stage.branch(4)
    trust(stage, 1, WRONG)
    names = [b"peer%d" % number for number in range(SILENT_MIN)]
    stage.transport.connected += [name.decode() for name in names]
    for peer in names:
        claim(stage, blocks, peer)
    stay_silent(stage)
    assert len(told(caplog, "WARNING")) == 1
    stage.announce(as_bytes(blocks[0]))
    assert len(told(caplog)) == 1


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
    claim(stage, blocks, OTHER)
    assert len(stage.requests()) == 1, "the block is there: no other peer is asked"
    stay_silent(stage)
    assert told(caplog) == told(caplog, "WARNING") == []
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
    (message,) = told(caplog)
    assert blocks[0].facts.id.hex() in message


def test_a_certified_handoff_with_another_block_is_told_at_once(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    joiner = Joiner(stage.chain)
    handoffs, _ = history(joiner.chain, [("Alice",), ("Alice", "Bob")])
    trust(stage, joiner.chain.parameters.boundary(1), WRONG)
    joiner.claim(SERVER, 2)
    joiner.asks()
    joiner.answer(SERVER, *handoffs)
    assert len(told(caplog)) == 1


def test_a_few_peers_are_asked(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ASKED_MAX == 8
    monkeypatch.setattr(checkpoint_watch, "ASKED_MAX", 1)
    blocks = stage.branch(4)
    trust(stage, 3, WRONG)
    for peer in (PEER, OTHER):
        claim(stage, blocks, peer)
    assert asked(stage) == 1


def test_a_bounded_number_of_silent_peers_is_remembered(stage: Stage) -> None:
    assert (SILENT_MIN, SILENT_KEPT_MAX) == (3, 1_024)
    blocks = stage.branch(4)
    trust(stage, 3, WRONG)
    watch = stage.sync._checkpoint
    tip = blocks[-1].facts
    for number in range(SILENT_KEPT_MAX + 10):
        watch.question(b"%d" % number, PeerStatus(tip.id, tip.height, tip.id, tip.height), number * PATIENCE_MS)
    watch.look(10**9)
    assert len(watch._silent_peers) == SILENT_KEPT_MAX
    assert b"0" not in watch._silent_peers


def test_a_peer_that_stands_at_its_height_is_asked_for_it(stage: Stage) -> None:
    blocks = stage.branch(3)
    trust(stage, 3, WRONG)
    claim(stage, blocks[:2], OTHER)
    assert asked(stage) == 0
    claim(stage, blocks)
    assert asked(stage) == 1


@pytest.mark.parametrize("is_asked", [True, False])
def test_the_same_question_of_the_sync_brings_the_block_into_the_tree(stage: Stage, *, is_asked: bool) -> None:
    blocks = stage.branch(3)
    trust(stage, 3, blocks[2].facts.id)
    if is_asked:
        claim(stage, blocks)
        stage.sync.on_answer(encode_answer([as_bytes(blocks[2])]), PEER)
    for block in blocks[:2]:
        stage.announce(as_bytes(block))
    stage.import_all()
    stage.sync.fetch(blocks[2].facts.id, PEER, 2)
    assert stage.requests()[-1] == GetBlocks(blocks[2].facts.id, 2)
    stage.sync.on_answer(encode_answer([as_bytes(blocks[2])]), PEER)
    stage.import_all()
    assert blocks[2].facts.id in stage.chain


def test_an_open_question_keeps_no_answer_to_another_one_from_the_tree(stage: Stage) -> None:
    blocks = stage.branch(3)
    trust(stage, 1, blocks[0].facts.id)
    claim(stage, blocks)
    stage.sync.fetch(blocks[2].facts.id, PEER, 0)
    stage.sync.on_answer(encode_answer([as_bytes(block) for block in blocks]), PEER)
    stage.import_all()
    assert blocks[2].facts.id in stage.chain


def test_a_checkpoint_that_is_final_here_is_asked_for_no_more(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    blocks = stage.branch(2)
    trust(stage, 1, blocks[0].facts.id)
    names = [b"peer%d" % number for number in range(SILENT_MIN)]
    stage.transport.connected += [name.decode() for name in names]
    for peer in names:
        claim(stage, blocks, peer)
    stage.announce(as_bytes(blocks[0]))
    stage.import_all()
    stage.chain.finalise((blocks[0].facts.id,), stage.maker.certify(blocks[0]))
    claim(stage, blocks)
    assert len(stage.requests()) == SILENT_MIN
    stay_silent(stage)
    assert told(caplog, "WARNING") == []
