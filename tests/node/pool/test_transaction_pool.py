"""The pool over a real chain: admission, statuses, and changes with the tip."""

from __future__ import annotations

from pathlib import Path

import pytest

from block_maker import Maker
from genesis import dev_accounts
from node.p2p.frames import FrameKind
from node.pool.pooled import PooledExtrinsic
from node.pool.refusal import PoolRefusalError
from node.pool.transaction_pool import TransactionPool
from played_pool import running
from runtime.blocks.extrinsic import open_envelope
from runtime.cryptography.hashing import blake2_256
from runtime.pallets.balances import Balances
from runtime.pallets.system import System

PAY = Balances.transfer_keep_alive(dest=dev_accounts.stash("Bob"), value=1)


@pytest.fixture
def maker(tmp_path: Path) -> Maker:
    return Maker(tmp_path)


async def refusal(pool: TransactionPool, raw: bytes) -> PoolRefusalError:
    with pytest.raises(PoolRefusalError) as refused:
        await pool.submit(raw)
    return refused.value


@pytest.mark.trio
async def test_good_ones_enter_and_bad_ones_are_named(maker: Maker) -> None:
    async with running(maker) as played:
        pool = played.pool
        first, second, gap = (maker.transfer(PAY, nonce) for nonce in (0, 1, 5))
        assert await pool.submit(first) == blake2_256(first)
        assert await pool.submit(gap) == blake2_256(gap)
        await pool.submit(second)
        assert played.told("peer") == played.told("other") == [first, second]
        assert pool.pending() == [first, second, gap]
        assert (await refusal(pool, first)).code == 1013
        forged = bytearray(maker.transfer(PAY, 2))
        forged[50] ^= 1
        assert ((await refusal(pool, bytes(forged))).code, (await refusal(pool, bytes(forged))).code) == (1010, 1012)
        assert (await refusal(pool, b"nonsense")).code == 1001
        assert (await refusal(pool, b"")).code == 1001
        assert [status for _, status, _ in played.statuses] == ["ready", "future", "ready"]


@pytest.mark.trio
async def test_blocks_use_extrinsics_and_reverts_give_them_back(maker: Maker) -> None:
    async with running(maker) as played:
        pool = played.pool
        raws = [maker.transfer(PAY, nonce) for nonce in range(3)]
        for raw in raws:
            await pool.submit(raw)
        a1 = maker.make(None, *raws[:2])
        b1 = maker.make(None, raws[0])
        played.statuses.clear()
        pool.on_tip(a1.facts.id)
        assert pool.queue.ready_count == 1
        assert [pool.next_nonce(open_envelope(raws[0]).authorization.signer, nonce) for nonce in (0, 1, 3, 7)] == [
            3,
            3,
            3,
            7,
        ]
        assert pool.next_nonce(bytes(32), 4) == 4, "of an account that has nothing here"
        assert (pool.pending(), played.statuses) == (raws, []), "clients read the accepted block's state, not the tip's"
        pool.on_accepted(a1.facts.id, reverted=False)
        assert pool.pending() == raws[2:]
        pool.on_tip(b1.facts.id)
        pool.on_accepted(b1.facts.id, reverted=False)
        assert pool.pending() == raws[1:]
        assert pool.queue.ready_count == 2
        positions = {blake2_256(raw): position for position, raw in enumerate(raws)}
        said = [(positions[extrinsic_hash], status) for extrinsic_hash, status, _ in played.statuses]
        assert [(position, status) for position, status in said if status in {"in_block", "retracted"}] == [
            (0, "in_block"), (1, "in_block"), (0, "retracted"), (1, "retracted"), (0, "in_block")
        ]  # fmt: skip
        final = maker.chain.finalise((b1.facts.id,), maker.certify(b1))
        pool.on_final(final)
        assert played.statuses[-1] == (blake2_256(raws[0]), "finalized", b1.facts.id)
        assert [status for _, status, _ in played.statuses].count("in_block") == 3
        assert b1.facts.id == maker.chain.final.facts.id


@pytest.mark.trio
async def test_what_peers_bring_is_judged_once_and_passed_on_when_it_is_good(maker: Maker) -> None:
    async with running(maker) as played:
        good, forged = maker.transfer(PAY, 0), bytearray(maker.transfer(PAY, 1))
        forged[50] ^= 1
        for raw in (good, bytes(forged)):
            played.pool.on_gossip(FrameKind.TX, raw, "peer")
            played.pool.on_gossip(FrameKind.TX, raw, "other")
        played.pool.on_gossip(FrameKind.ATTESTATION, b"not the pool's", "peer")
        assert len(played.pool.entrance.arrivals) == 2
        await played.pool.submit(maker.transfer(PAY, 1))
        assert played.told("other") == [good, maker.transfer(PAY, 1)]
        assert played.told("peer") == [maker.transfer(PAY, 1)]
        played.pool.on_gossip(FrameKind.TX, good, "other")
        assert len(played.pool.entrance.arrivals) == 0


@pytest.mark.trio
async def test_gossip_beyond_what_waits_is_dropped(maker: Maker) -> None:
    async with running(maker) as played:
        for number in range(10_000):
            played.pool.offer(b"%d" % number, "peer", b"%032d" % number)
        await played.pool.submit(maker.transfer(PAY, 0))
        assert len(played.pool.queue) == 1


@pytest.mark.trio
async def test_one_that_no_further_block_may_hold_leaves(maker: Maker) -> None:
    async with running(maker) as played:
        queue = played.pool.queue
        for nonce, expires_at in enumerate((2, 1)):
            queue.add(PooledExtrinsic(bytes([nonce]), b"", b"s" * 32, nonce, 1, expires_at), 0)
        played.pool._revalidate = lambda: None  # type: ignore[method-assign]  # these are none that could be judged
        played.pool.on_tip(maker.make().facts.id)
        assert queue.hashes() == [bytes([0])], "the next block is the second"


@pytest.mark.trio
async def test_what_a_block_made_unpayable_leaves(maker: Maker) -> None:
    async with running(maker) as played:
        owned = genesis_balance(maker)
        drain = Balances.transfer_allow_death(dest=dev_accounts.stash("Bob"), value=owned - 10_000)
        first, second = maker.transfer(drain, 0), maker.transfer(drain, 1)
        await played.pool.submit(first)
        await played.pool.submit(second)
        block = maker.make(None, first)
        played.pool.on_tip(block.facts.id)
        assert played.pool.queue.hashes() == []
        assert played.statuses[-1][1] == "invalid"


def genesis_balance(maker: Maker) -> int:
    item = maker.chain.runtime.item(System.account)
    raw = maker.chain.final.state.get(item.key(dev_accounts.key("Alice", dev_accounts.PROVIDER)))
    assert raw is not None
    return int(item.decode(raw).data.free)


@pytest.mark.trio
@pytest.mark.parametrize("is_handed_in_again", [False, True], ids=["nonsense follows", "the same follows"])
async def test_a_refused_submission_gives_back_its_place_among_the_watched(
    maker: Maker, monkeypatch: pytest.MonkeyPatch, *, is_handed_in_again: bool
) -> None:
    """Refused ones, which cost nothing, once took the places of waiting ones. A second submission takes no place."""
    monkeypatch.setattr("node.pool.transaction_pool.WATCHED_MAX", 2)
    async with running(maker) as played:
        good = maker.transfer(PAY, 0)
        await played.pool.submit(good)
        for number in range(3):
            await refusal(played.pool, good if is_handed_in_again else b"nonsense%d" % number)
        block = maker.make(None, good)
        played.pool.on_tip(block.facts.id)
        played.pool.on_accepted(block.facts.id, reverted=False)
        assert played.statuses[-1] == (blake2_256(good), "in_block", block.facts.id)
