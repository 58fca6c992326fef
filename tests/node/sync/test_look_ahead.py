"""Blocks before their turn: their early checks, and their safety against strangers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from block_maker import Maker, as_bytes
from consensus import events as ev
from genesis import dev_accounts
from node.ledger.chain import Foreseen
from node.peers.messages import BLOCKS
from node.pool.transaction_pool import Held, foresee
from node.pool.verifier import Verifier
from node.sync import sync
from node.sync.sync import LOOK_AHEAD, WAITS_MAX
from runtime.blocks.block import BLOCK, Block, block_id, extrinsics_root
from runtime.blocks.extrinsic import Authorization, decode_extrinsic
from runtime.cryptography import signatures
from runtime.encoding.scale import encode_compact
from runtime.execution import executive
from runtime.pallets.balances import Balances
from sync_stage import OTHER, PEER, Stage

PAY = Balances.transfer_keep_alive(dest=dev_accounts.stash("Bob"), value=1)


def payload_of(maker: Maker, who: Authorization) -> bytes:
    genesis, version = maker.chain.genesis, maker.chain.runtime.version
    tail = version.spec_version.to_bytes(4, "little") + version.transaction_version.to_bytes(4, "little")
    return who.payload_with(tail + genesis + genesis + b"\0")


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def test_the_next_blocks_are_told_ahead_and_each_once(stage: Stage) -> None:
    blocks = stage.branch(7)
    stage.sync.fetch(blocks[-1].facts.id, PEER, 0)
    stage.sync.on_answer(BLOCKS.encode(tuple(map(as_bytes, blocks))), PEER)
    stage.sync.import_next()
    assert stage.foreseen == [block.extrinsics for block in blocks[: 1 + LOOK_AHEAD]]
    stage.import_all()
    assert stage.foreseen == [block.extrinsics for block in blocks]


def test_a_body_is_cut_out_and_proven_once(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = stage.branch(4)
    proven: list[tuple[bytes, ...]] = []

    def note(extrinsics: tuple[bytes, ...]) -> bytes:
        proven.append(extrinsics)
        return extrinsics_root(extrinsics)

    monkeypatch.setattr(sync, "extrinsics_root", note)
    monkeypatch.setattr(executive, "extrinsics_root", None)  # no second computation
    stage.sync.fetch(blocks[-1].facts.id, PEER, 0)
    stage.sync.on_answer(BLOCKS.encode(tuple(map(as_bytes, blocks))), PEER)
    stage.import_all()
    assert sorted(proven) == sorted(block.extrinsics for block in blocks)
    assert [stage.chain[block.facts.id].stored for block in blocks] == [block.stored for block in blocks]


def test_what_was_seen_ahead_of_one_copy_says_nothing_of_another(stage: Stage) -> None:
    first, second = stage.branch(2)
    stage.sync.fetch(second.facts.id, PEER, 0)
    stage.sync.on_answer(BLOCKS.encode((as_bytes(first), as_bytes(second))), PEER)
    stage.sync.import_next()
    assert second.facts.id in stage.sync._seen_ahead
    wrong = BLOCK.encode(Block(second.header, (*second.extrinsics, encode_compact(1) + b"x")))
    stage.announce(wrong, OTHER)
    stage.sync.import_next()  # the announced copy is first
    assert second.facts.id not in stage.chain
    assert stage.network.penalties == 1
    stage.import_all()
    assert second.facts.id in stage.chain


def test_no_more_is_opened_ahead_than_fits(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = stage.branch(LOOK_AHEAD + 1)
    monkeypatch.setattr(sync, "LOOK_AHEAD_BYTES", sum(len(as_bytes(block)) for block in blocks[:2]))
    stage.sync.fetch(blocks[-1].facts.id, PEER, 0)
    stage.sync.on_answer(BLOCKS.encode(tuple(map(as_bytes, blocks))), PEER)
    stage.sync.import_next()
    assert stage.foreseen == [block.extrinsics for block in blocks[:2]]
    assert stage.sync._seen_ahead
    stage.sync.forget_peer(PEER)
    stage.sync.retry_early()
    assert not stage.sync._seen_ahead, "nothing is kept of blocks that left with their peer"


def test_nothing_is_seen_ahead_of_blocks_that_nobody_sealed(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bodies of made-up blocks below the final one, with unknown parents: dropping them required decoding them."""
    looked: list[tuple[bytes, ...]] = []
    monkeypatch.setattr(sync, "extrinsics_root", looked.append)
    genuine = BLOCK.decode(as_bytes(stage.branch(1)[0]))
    parent, forged = b"?" * 32, []
    for number in (0, 0, 1, 2, 3):
        header = replace(genuine.header, parent_hash=parent, number=number)
        forged.append(BLOCK.encode(Block(header, genuine.extrinsics)))
        parent = block_id(header)
    stage.sync.fetch(parent, PEER, 0)
    stage.sync.on_answer(BLOCKS.encode(tuple(forged)), PEER)
    stage.sync.import_next()
    assert not stage.foreseen
    assert not looked


def test_a_wrong_body_that_is_seen_ahead_bans(stage: Stage) -> None:
    """A sealed header may carry any body. With an unknown parent, its own turn never checked that."""
    blocks = [BLOCK.decode(as_bytes(block)) for block in stage.branch(3)]
    wrong = BLOCK.encode(Block(blocks[2].header, (*blocks[2].extrinsics, encode_compact(1) + b"x")))
    stage.sync.fetch(blocks[2].header.parent_hash, PEER, 0)
    stage.sync.on_answer(BLOCKS.encode((BLOCK.encode(blocks[1]), wrong)), PEER)
    stage.sync.import_next()
    assert stage.transport.banned == [PEER.decode()]
    assert stage.foreseen == [blocks[1].extrinsics]


class Late:
    """Verdicts that a worker has not given yet."""

    missing = 1

    async def wait(self) -> None:
        """Do not wait."""


def test_a_block_is_put_off_while_a_worker_is_at_it_but_not_for_ever(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = stage.branch(2)
    late = Late()
    monkeypatch.setattr(stage.sync, "_foresee_block", lambda _: Foreseen(signatures.verify, decode_extrinsic, late))
    stage.sync.fetch(second.facts.id, PEER, 0)
    stage.sync.on_answer(BLOCKS.encode((as_bytes(first), as_bytes(second))), PEER)
    assert stage.sync.put_off() is None, "nobody looked yet"
    stage.sync.look_ahead()
    assert [stage.sync.put_off() for _ in range(WAITS_MAX)] == [late] * WAITS_MAX
    assert stage.sync.put_off() is None, "a worker that died over it answers never"
    stage.sync.import_next()
    assert stage.sync.put_off() is late, "the next block has a time of its own"
    late.missing = 0
    assert stage.sync.put_off() is None
    stage.import_all()
    assert second.facts.id in stage.chain


def test_behind_a_block_with_a_forged_signature_nothing_is_imported_and_its_peer_pays(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each block needs the one before, and a wrong verdict is checked again, for any early finding."""
    maker = stage.maker
    good = maker.transfer(PAY, 0)
    before = maker.make(None, good)
    forged = bytearray(maker.transfer(PAY, 1))
    forged[40] ^= 1  # its proposer seals it anyway: authors of this kind check nothing
    monkeypatch.setattr(maker.author, "_verify_signature", lambda *_: True)
    monkeypatch.setattr(Held, "verified_or", lambda *_: lambda *_: True)
    wrong = maker.make(before.facts.id, bytes(forged))
    behind = [maker.make(wrong.facts.id, maker.transfer(PAY, 2))]
    behind.append(maker.make(behind[0].facts.id))
    verifier = Verifier()  # with mute workers, whose verdicts decide nothing
    monkeypatch.setattr(
        stage.sync, "_foresee_block", lambda raws: foresee(raws, lambda who: payload_of(maker, who), verifier)
    )
    stage.sync.fetch(behind[-1].facts.id, PEER, 0)
    stage.sync.on_answer(BLOCKS.encode(tuple(map(as_bytes, (before, wrong, *behind)))), PEER)
    events = stage.import_all()
    assert [event.facts.id for event in events if isinstance(event, ev.BlockImported)] == [before.facts.id]
    assert [event.block for event in events if isinstance(event, ev.BlockRejected)] == [wrong.facts.id]
    assert stage.network.penalties == 1
    assert not stage.sync.has_work, "what hangs on it went with it"
    stage.sync.on_answer(BLOCKS.encode(tuple(map(as_bytes, behind))), OTHER)
    stage.import_all()
    assert not any(block.facts.id in stage.chain for block in behind)
