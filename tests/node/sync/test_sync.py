"""Blocks from peers: late, out of order, twice, broken, and from liars."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import node.ledger.chain
import node.sync.orphans
from block_maker import FIRST_SLOT, Maker, as_bytes, now_of, open_at
from consensus import events as ev
from node.errors import DatabaseError
from node.ledger.chain import Chain, ExecutedBlock
from node.p2p.frames import FrameKind
from node.peers.messages import BLOCKS, GET_BLOCKS, GetBlocks, PeerStatus, encode_answer
from node.peers.peers import PENALTIES_MAX, Peers
from node.sync.sync import ANSWERS_PER_SECOND_MAX, BAD_MAX, LOOK_AHEAD, Sync
from played_transport import PlayedTransport
from runtime.blocks.block import BLOCK, Block

PEER, OTHER = b"peer", b"other"


class Stage:
    """A maker of blocks, and another node that gets them through `Sync`."""

    def __init__(self, path: Path) -> None:
        self.maker = Maker(path / "maker")
        self.chain: Chain = open_at(path / "other")
        self.transport = PlayedTransport("peer", "other")
        self.network = Peers(self.transport)
        self.now_ms = now_of(FIRST_SLOT + 10_000)
        self.unwelcome: list[bytes] = []
        self.foreseen: list[tuple[bytes, ...]] = []
        self.sync = Sync(
            self.chain,
            self.network,
            lambda: self.now_ms,
            lambda facts: facts.id not in self.unwelcome,
            lambda extrinsics: self.foreseen.append(tuple(extrinsics)),
        )

    def branch(self, count: int) -> list[ExecutedBlock]:
        """So many blocks on each other."""
        blocks = [self.maker.make()]
        while len(blocks) < count:
            blocks.append(self.maker.make(blocks[-1].facts.id))
        return blocks

    def import_all(self) -> list[ev.Event]:
        """Import what waits; what the machine was told."""
        events: list[ev.Event] = []
        while self.sync.has_work:
            events += self.sync.import_next()
        return events

    def requests(self) -> list[GetBlocks]:
        """What peers were asked for."""
        return [GET_BLOCKS.decode(payload) for _, kind, payload in self.transport.sent if kind is FrameKind.GET_BLOCKS]


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def test_blocks_in_any_order_end_up_in_the_tree(stage: Stage) -> None:
    blocks = stage.branch(4)
    for block in reversed(blocks[1:]):
        stage.sync.on_block(as_bytes(block), PEER)
    events = stage.import_all()
    wanted = {event.block for event in events if isinstance(event, ev.BlockWanted)}
    assert wanted == {blocks[0].facts.id}
    stage.sync.on_block(as_bytes(blocks[0]), OTHER)
    events = stage.import_all()
    assert [event.facts.id for event in events if isinstance(event, ev.BlockImported)] == [b.facts.id for b in blocks]
    assert stage.chain[blocks[-1].facts.id].trie.root == blocks[-1].trie.root


def test_the_next_blocks_are_told_ahead_and_each_once(stage: Stage) -> None:
    blocks = stage.branch(7)
    for block in reversed(blocks):
        stage.sync.on_block(as_bytes(block), PEER)
    stage.sync.import_next()
    assert stage.foreseen == [block.extrinsics for block in blocks[1 : 1 + LOOK_AHEAD]]
    stage.import_all()
    assert stage.foreseen == [block.extrinsics for block in blocks[1:]]


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


def test_what_was_not_asked_for_is_ignored(stage: Stage) -> None:
    stage.sync.on_answer(BLOCKS.encode((as_bytes(stage.branch(1)[0]),)), PEER)
    assert not stage.sync.has_work
    stage.sync.fetch(b"x" * 32, PEER, 0)
    stage.sync.forget_peer(PEER)
    stage.sync.on_answer(BLOCKS.encode((as_bytes(stage.branch(1)[0]),)), PEER)
    assert not stage.sync.has_work


def test_requests_are_answered_within_a_message(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node.ledger.chain, "BLOCKS_PER_ANSWER_MAX", 8)
    blocks = stage.branch(10)
    maker_sync = Sync(stage.maker.chain, stage.network, lambda: stage.now_ms, lambda _: True)
    answer = maker_sync.on_request(GetBlocks(blocks[-1].facts.id, 0), PEER)
    assert answer is not None
    assert BLOCKS.decode(answer) == tuple(map(as_bytes, blocks[:8]))
    assert maker_sync.on_request(GetBlocks(b"x" * 32, 0), PEER) is None
    assert len(BLOCKS.decode(encode_answer([b"x" * 600_000] * 3))) == 1
    answers = [maker_sync.on_request(GetBlocks(blocks[-1].facts.id, 0), OTHER) for _ in range(100)]
    assert sum(answer is not None for answer in answers) == ANSWERS_PER_SECOND_MAX


def test_a_block_that_breaks_a_rule_is_executed_once_and_its_peer_pays(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    (block,) = stage.branch(1)
    bad = bytearray(as_bytes(block))
    bad[40] ^= 1  # in the state root
    calls = []
    check = type(stage.chain._rules).check_header

    def counted(*words: Any) -> ev.BlockFacts:
        calls.append(1)
        return check(*words)

    monkeypatch.setattr(type(stage.chain._rules), "check_header", counted)
    for _ in range(20):
        stage.sync.on_block(bytes(bad), PEER)
        stage.import_all()
    assert len(calls) == 1
    assert stage.sync.rejected == 1
    stage.sync.on_block(as_bytes(block), OTHER)
    assert len(stage.import_all()) == 1


def test_a_wrong_body_does_not_condemn_the_block(stage: Stage) -> None:
    (block,) = stage.branch(1)
    stage.sync.on_block(BLOCK.encode(Block(block.header, (*block.extrinsics, block.extrinsics[0]))), PEER)
    stage.import_all()
    assert stage.network.penalties == 1
    stage.sync.on_block(as_bytes(block), OTHER)
    stage.import_all()
    assert block.facts.id in stage.chain


def test_malformed_data_bans_after_a_while_and_never_at_once(stage: Stage) -> None:
    for number in range(PENALTIES_MAX):
        assert stage.transport.banned == []
        stage.sync.on_block(b"nonsense %d" % number, PEER)
    assert stage.transport.banned == ["peer"]
    blocks = stage.branch(3)
    stage.sync.fetch(blocks[-1].facts.id, OTHER, 0)
    stage.sync.on_answer(BLOCKS.encode((as_bytes(blocks[0]), as_bytes(blocks[2]))), OTHER)
    assert stage.network.penalties == PENALTIES_MAX + 1


def test_heights_that_cannot_be_are_not_believed(stage: Stage) -> None:
    huge = PeerStatus(b"t" * 32, 2**31, b"f" * 32, 2**31)
    assert stage.sync.on_status(huge, PEER) == [ev.BlockWanted(b"t" * 32, PEER)]
    assert stage.sync.highest_height == 0
    upside_down = PeerStatus(b"u" * 32, 5, b"f" * 32, 7)
    stage.sync.on_status(upside_down, PEER)
    assert stage.sync.highest_height == 0


def test_orphans_are_bounded(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node.sync.orphans, "COUNT_MAX", 5)
    blocks = stage.branch(12)
    for block in reversed(blocks[1:]):
        stage.sync.on_block(as_bytes(block), PEER)
        stage.import_all()
    assert len(stage.sync._orphans) == 5


def test_an_unwelcome_block_is_dropped_and_may_come_again(stage: Stage) -> None:
    (block,) = stage.branch(1)
    stage.unwelcome = [block.facts.id]
    stage.sync.on_block(as_bytes(block), PEER)
    assert stage.import_all() == []
    stage.unwelcome = []
    stage.sync.on_block(as_bytes(block), PEER)
    assert stage.import_all() == [ev.BlockImported(block.facts)]


def test_a_block_from_the_future_waits_for_its_time(stage: Stage) -> None:
    (block,) = stage.branch(1)
    stage.now_ms = now_of(block.facts.slot - 3)
    stage.sync.on_block(as_bytes(block), PEER)
    assert stage.import_all() == []
    stage.now_ms = now_of(block.facts.slot)
    stage.sync.retry_early()
    assert stage.import_all() == [ev.BlockImported(block.facts)]


@pytest.mark.parametrize(
    "fault", [KeyError("x"), RecursionError(), MemoryError(), AssertionError(), ZeroDivisionError()]
)
def test_a_fault_of_our_own_is_no_verdict_on_the_block(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    (block,) = stage.branch(1)

    def fail(*_: object) -> None:
        raise fault

    monkeypatch.setattr(node.ledger.chain, "execute_block", fail)
    stage.sync.on_block(as_bytes(block), PEER)
    assert stage.import_all() == []
    assert (stage.sync.abstained, stage.sync.rejected, stage.network.penalties) == (1, 0, 0)
    assert block.facts.id in stage.sync.faulty
    assert len(stage.sync.faulty) <= BAD_MAX


def test_a_damaged_database_is_no_verdict_on_a_block_but_stops_the_node(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    (block,) = stage.branch(1)

    def fail(*_: object) -> None:
        raise DatabaseError("damaged")

    monkeypatch.setattr(node.ledger.chain, "execute_block", fail)
    stage.sync.on_block(as_bytes(block), PEER)
    with pytest.raises(DatabaseError):
        stage.import_all()
