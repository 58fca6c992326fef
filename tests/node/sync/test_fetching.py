"""Requests to peers, and the treatment of their answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from block_maker import as_bytes
from consensus import events as ev
from node.peers.messages import BLOCKS, GetBlocks
from node.peers.peers import PENALTIES_MAX
from sync_stage import OTHER, PEER, Stage


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def test_a_long_answer_is_asked_for_in_parts(stage: Stage) -> None:
    blocks = stage.branch(5)
    tip = blocks[-1].facts.id
    stage.sync.fetch(tip, PEER, 0)
    stage.sync.on_answer(BLOCKS.encode(tuple(map(as_bytes, blocks[:3]))), PEER)
    assert stage.requests() == [GetBlocks(tip, 0), GetBlocks(tip, 3)]
    stage.sync.on_answer(BLOCKS.encode(tuple(map(as_bytes, blocks[3:]))), PEER)
    assert len(stage.requests()) == 2
    assert len(stage.import_all()) == 5
    assert tip in stage.chain


def test_a_long_fetch_goes_on_where_it_is_however_often_the_machine_asks(stage: Stage) -> None:
    blocks = stage.branch(6)
    tip = blocks[-1].facts.id
    stage.sync.fetch(tip, PEER, 0)
    stage.sync.on_answer(BLOCKS.encode(tuple(map(as_bytes, blocks[:3]))), PEER)
    asked = [GetBlocks(tip, 0), GetBlocks(tip, 3)]
    stage.sync.fetch(tip, PEER, 0)
    stage.sync.fetch(tip, OTHER, 0)
    assert stage.requests() == asked, "the tip comes after what waits here"
    assert len(stage.import_all()) == 3
    stage.sync.fetch(tip, OTHER, 0)  # the last asked peer is silent
    assert stage.requests() == [*asked, GetBlocks(tip, 3)], "what is here is not fetched again"
    stage.sync.on_answer(BLOCKS.encode(tuple(map(as_bytes, blocks[1:]))), OTHER)
    imported = [event.facts.height for event in stage.import_all() if isinstance(event, ev.BlockImported)]
    assert imported == [4, 5, 6], "and what comes again all the same is not taken for new"


def test_a_fetch_begins_again_when_what_it_brought_is_gone(stage: Stage) -> None:
    blocks = stage.branch(6)
    tip = blocks[-1].facts.id
    stage.sync.fetch(tip, PEER, 0)
    stage.sync.on_answer(BLOCKS.encode(tuple(map(as_bytes, blocks[:3]))), PEER)
    stage.sync.forget_peer(PEER)
    stage.sync.fetch(tip, OTHER, 0)
    assert stage.requests() == [GetBlocks(tip, 0), GetBlocks(tip, 3), GetBlocks(tip, 0)]


def test_answers_that_were_not_asked_for_ban_after_a_while_and_late_ones_cost_nothing(stage: Stage) -> None:
    answer = BLOCKS.encode((as_bytes(stage.branch(1)[0]),))
    for number in range(PENALTIES_MAX):  # asked again before the answer came
        stage.sync.fetch(bytes([number]) * 32, OTHER, 0)
    for _ in range(PENALTIES_MAX):
        assert stage.transport.banned == []
        stage.sync.on_answer(answer, PEER)
        stage.sync.on_answer(answer, OTHER)
    assert stage.transport.banned == ["peer"]
    assert stage.network.penalties == PENALTIES_MAX


def test_what_was_not_asked_for_is_ignored(stage: Stage) -> None:
    stage.sync.on_answer(BLOCKS.encode((as_bytes(stage.branch(1)[0]),)), PEER)
    assert not stage.sync.has_work
    stage.sync.fetch(b"x" * 32, PEER, 0)
    stage.sync.forget_peer(PEER)
    stage.sync.on_answer(BLOCKS.encode((as_bytes(stage.branch(1)[0]),)), PEER)
    assert not stage.sync.has_work


def test_one_question_has_one_answer(stage: Stage) -> None:
    first, second = stage.branch(2)
    stage.sync.fetch(first.facts.id, PEER, 0)
    stage.sync.on_answer(BLOCKS.encode((as_bytes(first),)), PEER)
    assert (stage.sync.has_work, stage.sync.is_late) == (True, False), "what is caught up keeps no vote waiting"
    stage.import_all()
    stage.sync.on_answer(BLOCKS.encode((as_bytes(second),)), PEER)
    assert not stage.sync.has_work
    stage.announce(as_bytes(second))
    assert stage.sync.is_late
