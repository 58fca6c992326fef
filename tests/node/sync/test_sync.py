"""Blocks from peers: late, out of order, twice, broken, and from liars."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import node.ledger.chain
from block_maker import as_bytes, now_of
from consensus import events as ev
from consensus.headers import InvalidHeaderError, read_header
from node.errors import DatabaseError
from node.peers.messages import BLOCKS, GetBlocks, PeerStatus, encode_answer
from node.peers.peers import PENALTIES_MAX
from node.sync import sync
from node.sync.sync import ANSWERS_PER_SECOND_MAX, BAD_MAX, UNATTACHED_BURST, Sync
from node.sync.waiting_blocks import Room
from runtime.blocks.block import BLOCK, HEADER, Block, Header, extrinsics_root
from runtime.encoding.scale import encode_compact
from runtime.frame.errors import InvalidBlock
from sync_stage import OTHER, PEER, Stage


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def test_blocks_in_any_order_end_up_in_the_tree(stage: Stage) -> None:
    blocks = stage.branch(4)
    for block in reversed(blocks[1:]):
        stage.announce(as_bytes(block), PEER)
    events = stage.import_all()
    wanted = [event.block for event in events if isinstance(event, ev.BlockWanted)]
    assert wanted[-1] == blocks[0].facts.id
    stage.announce(as_bytes(blocks[0]), OTHER)
    events = stage.import_all()
    assert [event.facts.id for event in events if isinstance(event, ev.BlockImported)] == [b.facts.id for b in blocks]
    assert stage.chain[blocks[-1].facts.id].trie.root == blocks[-1].trie.root


def test_one_question_has_one_answer(stage: Stage) -> None:
    first, second = stage.branch(2)
    for _ in range(2):  # asked again before the answer came: the late one costs nothing, and brings nothing
        stage.sync.fetch(first.facts.id, PEER, 0)
    for block, imported, penalties in ((first, 1, 0), (second, 0, 0), (second, 0, 1)):
        stage.sync.on_answer(BLOCKS.encode((as_bytes(block),)), PEER)
        assert (len(stage.import_all()), stage.network.penalties) == (imported, penalties)


def test_requests_are_answered_within_a_message(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node.ledger.chain, "BLOCKS_PER_ANSWER_MAX", 8)
    blocks = stage.branch(10)
    maker_sync = Sync(stage.maker.chain, stage.network, lambda: stage.now_ms, lambda _: True, lambda _: None)
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
    check = type(stage.chain.rules).check_header

    def counted(*words: Any) -> ev.BlockFacts:
        calls.append(1)
        return check(*words)

    monkeypatch.setattr(type(stage.chain.rules), "check_header", counted)
    for _ in range(20):
        stage.announce(bytes(bad), PEER)
        stage.import_all()
    assert len(calls) == 1
    assert stage.sync.rejected == 1
    stage.announce(as_bytes(block), OTHER)
    assert len(stage.import_all()) == 1


def test_a_wrong_body_does_not_condemn_the_block(stage: Stage) -> None:
    (block,) = stage.branch(1)
    stage.announce(BLOCK.encode(Block(block.header, (*block.extrinsics, block.extrinsics[0]))), PEER)
    stage.import_all()
    assert stage.transport.banned == ["peer"], "nobody can have sent it by mistake"
    stage.announce(as_bytes(block), OTHER)
    stage.import_all()
    assert block.facts.id in stage.chain


ONE_BYTE = encode_compact(1) + b"x"


def heavy(header: Header, count: int = 49_000) -> bytes:
    """Return a block of many tiny extrinsics: few bytes, but a quarter of a second to decode and commit to."""
    return HEADER.encode(header) + encode_compact(count) + ONE_BYTE * count


def unread(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Forbid decoding of bodies and building of their tries. Return the number of attempts."""
    tried: list[int] = []
    monkeypatch.setattr(sync, "extrinsics_root", lambda _: tried.append(1))
    monkeypatch.setattr(sync, "BLOCK", None)
    return tried


def test_c1_a_body_is_not_looked_at_before_its_header_is_proven(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    (block,) = stage.branch(1)
    tried = unread(monkeypatch)
    forged = replace(block.header, state_root=bytes(32))  # its seal does not hold
    stage.announce(heavy(forged))
    stage.announce(heavy(replace(forged, parent_hash=b"p" * 32)))
    stage.announce(heavy(replace(forged, parent_hash=b"p" * 32, number=100_000)))
    stage.sync.fetch(b"t" * 32, OTHER, 0)
    stage.sync.on_answer(BLOCKS.encode((heavy(replace(forged, extrinsics_root=bytes(32))),)), OTHER)
    kinds = [type(event) for event in stage.import_all()]
    assert kinds == [ev.BlockRejected, ev.BlockRejected, ev.BlockWanted, ev.BlockRejected]
    assert tried == []
    assert stage.network.penalties == 3
    assert len(stage.sync._orphans) == 0


def test_c1_a_proven_header_with_a_body_of_crumbs_is_refused_by_its_count(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    (block,) = stage.branch(1)
    tried = unread(monkeypatch)
    stage.announce(heavy(block.header))
    assert stage.import_all() == []
    assert tried == []
    assert stage.transport.banned == ["peer"]


def test_a_body_of_as_many_extrinsics_as_its_length_can_hold_is_read(stage: Stage) -> None:
    (block,) = stage.branch(1)

    def read(count: int) -> int:
        extrinsics = BLOCK.decode(heavy(block.header, count)).extrinsics
        header = replace(block.header, extrinsics_root=extrinsics_root(extrinsics))
        return len(sync.read_body(sync.read_waiting(heavy(header, count), PEER)).block.extrinsics)

    assert read(256 + 5) == 256 + 5, "524 bytes: 256 that the author adds, and 5 that are signed"
    with pytest.raises(sync.WrongBodyError):
        read(256 + 5 + 1)


def test_m6_orphans_need_their_proposers_seal_and_strangers_cannot_push_out_a_leader(stage: Stage) -> None:
    first, second = stage.branch(2)
    for number in range(2_000):
        stage.announce(as_bytes_of(replace(second.header, parent_hash=number.to_bytes(32, "big"))), b"stranger")
    assert len(stage.sync._orphans) == 0
    assert not stage.sync.has_work
    assert stage.transport.banned[0] == "stranger"
    stage.announce(as_bytes(second), OTHER)
    stage.announce(as_bytes(first), OTHER)
    stage.import_all()
    assert second.facts.id in stage.chain


def test_m6_the_seal_of_a_member_whose_slot_it_is_not_is_no_seal(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    _, second = stage.branch(2)
    monkeypatch.setattr(sync, "proposer", lambda *_: b"another member's key")
    stage.announce(as_bytes(second))
    assert len(stage.sync._orphans) == 0
    assert stage.network.penalties == 1


def test_m6_blocks_of_unknown_epochs_cost_the_peer(stage: Stage) -> None:
    (block,) = stage.branch(1)
    far = [replace(block.header, number=100_000, parent_hash=n.to_bytes(32, "big")) for n in range(UNATTACHED_BURST)]
    for header in far:
        stage.announce(as_bytes_of(header))
    assert stage.network.penalties == 0
    for number in range(PENALTIES_MAX):
        stage.announce(as_bytes_of(replace(block.header, number=100_000, parent_hash=b"%032d" % number)))
    assert stage.transport.banned == ["peer"]
    assert not stage.sync.has_work


def as_bytes_of(header: Header) -> bytes:
    """A block without extrinsics."""
    return BLOCK.encode(Block(header, ()))


def test_a_wrong_body_under_a_good_header_does_not_keep_the_right_one_out(stage: Stage) -> None:
    first, second = stage.branch(2)
    stage.announce(as_bytes_of(second.header), b"stranger")
    stage.announce(as_bytes(second), OTHER)
    stage.announce(as_bytes(first), OTHER)
    stage.import_all()
    assert second.facts.id in stage.chain
    assert stage.transport.banned in ([], ["stranger"])


def test_malformed_data_bans_after_a_while_and_never_at_once(stage: Stage) -> None:
    for number in range(PENALTIES_MAX):
        assert stage.transport.banned == []
        stage.announce(b"nonsense %d" % number, PEER)
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


def test_orphans_are_bounded(stage: Stage) -> None:
    stage.sync._orphans = Room(peer_count_max=5, peer_bytes_max=100_000, bytes_max=100_000)
    blocks = stage.branch(12)
    for block in reversed(blocks[1:]):
        stage.announce(as_bytes(block), PEER)
    assert len(stage.sync._orphans) == 5
    stage.announce(as_bytes(blocks[-1]), OTHER)
    assert len(stage.sync._orphans) == 5, "the very same bytes wait once"
    stage.announce(as_bytes(blocks[1]), OTHER)
    assert len(stage.sync._orphans) == 6, "nobody fills the share of another"


def test_an_unwelcome_block_is_dropped_and_may_come_again(stage: Stage) -> None:
    (block,) = stage.branch(1)
    stage.unwelcome = [block.facts.id]
    stage.announce(as_bytes(block), PEER)
    assert stage.import_all() == []
    stage.unwelcome = []
    stage.announce(as_bytes(block), PEER)
    assert stage.import_all() == [ev.BlockImported(block.facts)]


def test_a_block_from_the_future_waits_for_its_time(stage: Stage) -> None:
    (block,) = stage.branch(1)
    stage.now_ms = now_of(block.facts.slot - 3)
    stage.announce(as_bytes(block), PEER)
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

    monkeypatch.setattr(node.ledger.chain, "execute_proven", fail)
    stage.announce(as_bytes(block), PEER)
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

    monkeypatch.setattr(node.ledger.chain, "execute_proven", fail)
    stage.announce(as_bytes(block), PEER)
    with pytest.raises(DatabaseError):
        stage.import_all()


@pytest.mark.parametrize("parent", ["known", "unknown"])
def test_a_header_made_up_for_an_answer_bans_at_once_and_an_announced_one_does_not(stage: Stage, parent: str) -> None:
    (block,) = stage.branch(1)
    forged = replace(block.header, state_root=bytes(32))  # its seal does not hold
    if parent == "unknown":
        forged = replace(forged, parent_hash=b"p" * 32)
    stage.announce(HEADER.encode(forged) + b"\0", OTHER)
    stage.import_all()
    assert stage.transport.banned == []
    stage.sync.fetch(b"t" * 32, PEER, 0)
    made_up = replace(forged, extrinsics_root=bytes(32))
    stage.sync.on_answer(BLOCKS.encode((HEADER.encode(made_up) + b"\0",)), PEER)
    stage.import_all()
    assert stage.transport.banned == ["peer"]


def test_a_block_that_was_asked_for_and_executes_to_another_root_is_one_mistake(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    (block,) = stage.branch(1)

    def wrong(*_: Any) -> None:
        raise InvalidBlock("another root")

    monkeypatch.setattr(type(stage.chain), "execute", wrong)
    stage.sync.fetch(block.facts.id, PEER, 0)
    stage.sync.on_answer(BLOCKS.encode((as_bytes(block),)), PEER)
    stage.import_all()
    assert (stage.sync.rejected, stage.transport.banned) == (1, []), "who has not executed it yet passes it on"


def test_a_proven_header_without_a_body_bans_its_peer(stage: Stage) -> None:
    (block,) = stage.branch(1)
    stage.announce(HEADER.encode(block.header))
    assert stage.import_all() == []
    assert stage.transport.banned == ["peer"]


@pytest.mark.parametrize("fault", ["no member", "another epoch"])
def test_an_orphan_needs_an_author_of_the_epoch_that_its_height_is_in(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    _, second = stage.branch(2)
    parts, waiting = read_header(second.header), sync.read_waiting(as_bytes(second), PEER)
    sync.check_unattached(stage.chain, waiting)
    if fault == "no member":
        parts = replace(parts, author=b"stranger")
    else:
        parts = replace(parts, pre_digest=replace(parts.pre_digest, epoch=parts.pre_digest.epoch + 1))
    monkeypatch.setattr(sync, "read_header", lambda _: parts)
    with pytest.raises(InvalidHeaderError):
        sync.check_unattached(stage.chain, waiting)
