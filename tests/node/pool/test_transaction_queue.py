"""The queue of transactions: a table of single steps, then a property over sequences against a plain model."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import node.pool.bans
import node.pool.transaction_queue
from node.pool.pooled import PooledExtrinsic
from node.pool.refusal import PoolRefusalError
from node.pool.transaction_queue import TransactionQueue


def xt(
    sender: int, nonce: int, priority: int = 100, *, size: int = 10, expires_at: int = 10**9, fee: int = 1
) -> PooledExtrinsic:
    name = b"%d/%d/%d/%d" % (sender, nonce, priority, size)
    return PooledExtrinsic(name, name.ljust(size, b"."), bytes([sender]) * 32, nonce, priority, expires_at, fee)


def order(pool: TransactionQueue) -> list[tuple[int, int]]:
    return [(c.sender[0], c.nonce) for c in pool.ready()]


def test_a_gap_makes_future_and_filling_it_promotes() -> None:
    pool = TransactionQueue()
    assert pool.add(xt(1, 5), 5).status == "ready"
    assert pool.add(xt(1, 7), 5).status == "future"
    assert (pool.ready_count, pool.future_count) == (1, 1)
    admitted = pool.add(xt(1, 6), 5)
    assert (admitted.status, admitted.promoted_hashes) == ("ready", (xt(1, 7).extrinsic_hash,))
    assert order(pool) == [(1, 5), (1, 6), (1, 7)]
    assert (pool.ready_count, pool.future_count) == (3, 0)


def test_order_is_priority_then_arrival_and_never_breaks_nonces() -> None:
    pool = TransactionQueue()
    for candidate in (xt(1, 0, 1), xt(1, 1, 1000), xt(2, 0, 10), xt(3, 0, 10)):
        pool.add(candidate, 0)
    assert order(pool) == [(2, 0), (3, 0), (1, 0), (1, 1)]


def test_replacement_needs_ten_percent_more() -> None:
    pool = TransactionQueue()
    pool.add(xt(1, 0, 100), 0)
    with pytest.raises(PoolRefusalError, match="110 needed"):
        pool.add(xt(1, 0, 109), 0)
    assert pool.add(xt(1, 0, 110), 0).usurped_hash == xt(1, 0, 100).extrinsic_hash
    assert len(pool) == 1


def test_a_used_nonce_is_refused() -> None:
    with pytest.raises(PoolRefusalError) as refused:
        TransactionQueue().add(xt(1, 0), 1)
    assert refused.value.code == 1010


def test_known_and_banned_are_told_apart() -> None:
    pool = TransactionQueue()
    pool.add(xt(1, 0), 0)
    with pytest.raises(PoolRefusalError) as known:
        pool.refuse_known(xt(1, 0).extrinsic_hash, lambda: 0.0)
    assert known.value.code == 1013
    pool.ban(b"bad", 100.0)
    with pytest.raises(PoolRefusalError) as banned:
        pool.refuse_known(b"bad", lambda: 100.0 + node.pool.bans.BAN_SECONDS - 1)
    assert banned.value.code == 1012
    pool.refuse_known(b"bad", lambda: 100.0 + node.pool.bans.BAN_SECONDS)


def test_long_ones_that_pay_more_push_out_as_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node.pool.transaction_queue, "BYTES_LIMIT", 100)
    pool = TransactionQueue()
    cheap = [xt(1, 0, 10, size=60), xt(2, 0, 20, size=40)]
    for candidate in cheap:
        pool.add(candidate, 0)
    admitted = pool.add(xt(3, 0, 30, size=90), 0)
    assert admitted.dropped_hashes == tuple(candidate.extrinsic_hash for candidate in cheap)
    assert (pool.bytes_used, order(pool)) == (90, [(3, 0)])
    with pytest.raises(PoolRefusalError):
        pool.add(xt(4, 0, 30, size=11), 0)


def test_a_block_uses_nonces_and_expires_others() -> None:
    pool = TransactionQueue()
    for candidate in (xt(1, 0), xt(1, 1), xt(1, 3), xt(2, 0, expires_at=4), xt(2, 1)):
        pool.add(candidate, 0)
    settled = pool.settle({bytes([1]) * 32: 3, bytes([9]) * 32: 7}, 5)
    assert settled.promoted_hashes == (xt(1, 3).extrinsic_hash,)
    assert settled.dropped_hashes == (xt(2, 0).extrinsic_hash,)
    assert settled.demoted_hashes == (xt(2, 1).extrinsic_hash,)
    assert order(pool) == [(1, 3)]


def test_one_may_be_in_a_block_of_the_last_height_that_it_is_good_for() -> None:
    pool = TransactionQueue()
    pool.add(xt(1, 0, expires_at=4), 0)
    assert pool.settle({}, 4).dropped_hashes == ()
    assert pool.settle({}, 5).dropped_hashes == (xt(1, 0).extrinsic_hash,)


def test_a_reverted_block_gives_nonces_back() -> None:
    pool = TransactionQueue()
    pool.add(xt(1, 1), 1)
    assert pool.settle({bytes([1]) * 32: 0}, 5).demoted_hashes == (xt(1, 1).extrinsic_hash,)
    assert pool.add(xt(1, 0), 0).promoted_hashes == (xt(1, 1).extrinsic_hash,)


def test_removing_an_invalid_one_holds_back_those_behind_it() -> None:
    pool = TransactionQueue()
    for nonce in range(3):
        pool.add(xt(1, nonce), 0)
    settled = pool.remove(xt(1, 1).extrinsic_hash)
    assert (settled.dropped_hashes, settled.demoted_hashes) == ((xt(1, 1).extrinsic_hash,), (xt(1, 2).extrinsic_hash,))
    assert pool.remove(b"unknown") == node.pool.pooled.Settled()


def ready_twice_ten() -> TransactionQueue:
    """Return ten transactions of each of two senders. The first of each expires at height 5."""
    pool = TransactionQueue()
    for sender in (1, 2):
        for nonce in range(10):
            pool.add(xt(sender, nonce, 10**9, expires_at=5 if nonce == 0 else 10**9), 0)
    return pool


def test_what_can_be_ready_no_more_does_not_stay_to_fill_the_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node.pool.transaction_queue, "FUTURE_PER_SENDER_LIMIT", 4)
    monkeypatch.setattr(node.pool.transaction_queue, "FUTURE_LIMIT", 6)
    pool = ready_twice_ten()
    for sender, kept in ((1, 4), (2, 2)):
        settled = pool.remove(xt(sender, 0, 10**9).extrinsic_hash)
        assert (len(settled.demoted_hashes), len(settled.dropped_hashes)) == (kept, 10 - kept)
    assert (len(pool), pool.ready_count, pool.future_count) == (6, 0, 6)
    pool = ready_twice_ten()
    settled = pool.settle({}, 6)
    assert (len(settled.demoted_hashes), len(settled.dropped_hashes)) == (4, 16)
    assert (len(pool), pool.ready_count, pool.future_count) == (4, 0, 4)


def test_limits_per_sender(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node.pool.transaction_queue, "PER_SENDER_LIMIT", 2)
    monkeypatch.setattr(node.pool.transaction_queue, "FUTURE_PER_SENDER_LIMIT", 1)
    pool = TransactionQueue()
    pool.add(xt(1, 0), 0)
    pool.add(xt(1, 2), 0)
    with pytest.raises(PoolRefusalError, match="has 2"):
        pool.add(xt(1, 1), 0)
    pool.add(xt(2, 5), 0)
    with pytest.raises(PoolRefusalError, match="lower nonce"):
        pool.add(xt(2, 7), 0)


def test_a_full_pool_drops_what_pays_least(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node.pool.transaction_queue, "READY_LIMIT", 3)
    pool = TransactionQueue()
    for candidate in (xt(1, 0, 5), xt(1, 1, 500), xt(2, 0, 50)):
        pool.add(candidate, 0)
    with pytest.raises(PoolRefusalError, match="pay more"):
        pool.add(xt(3, 0, 5), 0)
    admitted = pool.add(xt(3, 0, 6), 0)
    assert admitted.dropped_hashes == (xt(1, 1, 500).extrinsic_hash,)
    assert order(pool) == [(2, 0), (3, 0), (1, 0)]


def test_a_sender_holds_no_more_than_it_can_pay_for() -> None:
    pool = TransactionQueue()
    pool.add(xt(1, 0, fee=40), 0, 100)
    pool.add(xt(1, 1, fee=40), 0, 100)
    with pytest.raises(PoolRefusalError, match="cannot pay"):
        pool.add(xt(1, 2, fee=21), 0, 100)
    with pytest.raises(PoolRefusalError, match="cannot pay"):
        pool.add(xt(1, 9, fee=21), 0, 100)
    pool.add(xt(1, 1, 200, fee=60), 0, 100)
    pool.settle({bytes([1]) * 32: 1}, 1)
    pool.add(xt(1, 2, fee=40), 1, 100)


def test_a_nonce_is_replaced_a_few_times_only() -> None:
    pool = TransactionQueue()
    most = node.pool.transaction_queue.REPLACEMENTS_MAX
    for step in range(most + 1):
        pool.add(xt(1, 3, 2**step), 0)
    with pytest.raises(PoolRefusalError, match="replaced 8 times"):
        pool.add(xt(1, 3, 2 ** (most + 1)), 0)
    with pytest.raises(PoolRefusalError, match="replaced 8 times"):
        pool.refuse_hopeless(bytes([1]) * 32, 3, 2 ** (most + 1))
    pool.settle({bytes([1]) * 32: 4}, 1)
    assert len(pool) == 0


def test_few_accounts_keep_nobody_from_waiting_for_a_nonce(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node.pool.transaction_queue, "FUTURE_LIMIT", 32)
    pool = TransactionQueue()
    for sender in range(4):
        for nonce in range(1, 9):
            pool.add(xt(sender, nonce, 1_000), 0)
    assert pool.future_count == 32
    honest = pool.add(xt(9, 1, 1), 0)
    assert (honest.status, honest.dropped_hashes) == ("future", (xt(0, 8, 1_000).extrinsic_hash,))
    with pytest.raises(PoolRefusalError, match="lower nonce"):
        pool.add(xt(1, 20, 1_000), 0)
    assert pool.add(xt(9, 0, 1), 0).promoted_hashes == (xt(9, 1, 1).extrinsic_hash,)
    for sender in range(10, 30):
        pool.add(xt(sender, 1, 1_000), 0)
    assert pool.future_count == 32
    counts = [sum(candidate.sender == bytes([sender]) * 32 for candidate in pool.future()) for sender in range(4)]
    assert max(counts) - min(counts) <= 1, "those that have most gave way"


def test_of_equals_the_one_that_pays_more_may_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node.pool.transaction_queue, "FUTURE_LIMIT", 2)
    pool = TransactionQueue()
    pool.add(xt(1, 1, 10), 0)
    pool.add(xt(2, 1, 20), 0)
    with pytest.raises(PoolRefusalError, match="lower nonce"):
        pool.add(xt(3, 1, 10), 0)
    assert pool.add(xt(3, 1, 11), 0).dropped_hashes == (xt(1, 1, 10).extrinsic_hash,)


def test_what_is_hopeless_is_known_before_its_signature() -> None:
    pool = TransactionQueue()
    pool.add(xt(1, 0, 100), 0)
    pool.refuse_hopeless(bytes([1]) * 32, 1, 1)
    pool.refuse_hopeless(bytes([1]) * 32, 0, 110)
    pool.refuse_hopeless(bytes([2]) * 32, 0, 1)
    with pytest.raises(PoolRefusalError, match="110 needed"):
        pool.refuse_hopeless(bytes([1]) * 32, 0, 109)


STEP = st.one_of(
    st.tuples(st.just("add"), st.integers(0, 3), st.integers(0, 6), st.integers(1, 40)),
    st.tuples(st.just("settle"), st.integers(0, 3), st.integers(0, 6), st.integers(0, 30)),
    st.tuples(st.just("remove"), st.integers(0, 3), st.integers(0, 6), st.just(0)),
)


@given(st.lists(STEP, max_size=60))
@settings(deadline=None)
def test_sequences_keep_every_promise(steps: list[tuple[str, int, int, int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(node.pool.transaction_queue, "READY_LIMIT", 8)
        patch.setattr(node.pool.transaction_queue, "BYTES_LIMIT", 200)
        patch.setattr(node.pool.transaction_queue, "FUTURE_PER_SENDER_LIMIT", 3)
        patch.setattr(node.pool.transaction_queue, "FUTURE_LIMIT", 5)
        pool, nonces = TransactionQueue(), dict.fromkeys(range(4), 0)
        for kind, sender, nonce, number in steps:
            if kind == "add":
                before = pool.hashes()
                try:
                    candidate = xt(sender, nonce, number, size=10 + number, expires_at=number, fee=number)
                    pool.add(candidate, nonces[sender], SPENDABLE)
                except PoolRefusalError:
                    assert pool.hashes() == before
            elif kind == "settle":
                nonces[sender] = nonce
                pool.settle({bytes([sender]) * 32: nonce}, number)
            else:
                for extrinsic_hash in pool.hashes():
                    if extrinsic_hash.startswith(b"%d/%d/" % (sender, nonce)):
                        pool.remove(extrinsic_hash)
            check(pool, nonces)


SPENDABLE = 90


def check(pool: TransactionQueue, nonces: dict[int, int]) -> None:
    raws = [candidate.raw for candidate in (*pool.ready(), *pool.future())]
    assert len(pool) <= 8
    assert pool.bytes_used == sum(map(len, raws)) <= 200
    held: dict[int, set[int]] = {}
    for extrinsic_hash in pool.hashes():
        sender, nonce = (int(part) for part in extrinsic_hash.split(b"/")[:2])
        assert nonce not in held.setdefault(sender, set())
        held[sender].add(nonce)
    expected = set()
    for sender, numbers in held.items():
        nonce = nonces[sender]
        while nonce in numbers:
            expected.add((sender, nonce))
            nonce += 1
    ready = order(pool)
    assert set(ready) == expected
    assert len(ready) == len(expected) == pool.ready_count
    assert pool.future_count == len(pool) - len(expected)
    fees: dict[bytes, int] = {}
    for candidate in (*pool.ready(), *pool.future()):
        fees[candidate.sender] = fees.get(candidate.sender, 0) + candidate.fee
    assert fees == {account: sender.fees for account, sender in pool._senders_by_account.items()}
    assert max(fees.values(), default=0) <= SPENDABLE
    assert set(pool._future_accounts) >= {candidate.sender for candidate in pool.future()}
    assert set(pool._future_accounts) <= set(fees)
    for sender in range(4):
        assert [n for s, n in ready if s == sender] == sorted(n for s, n in ready if s == sender)


@pytest.mark.parametrize(
    ("counter", "value", "promise"),
    [
        ("_future_count", -1, "part of the pool"),
        ("_future_count", 5, "part of the pool"),
        ("_total_bytes", -1_000, "the pool twice"),
    ],
)
def test_a_counter_that_lies_is_found_when_a_block_is_settled(counter: str, value: int, promise: str) -> None:
    pool = TransactionQueue()
    pool.add(xt(1, 0), 0)
    setattr(pool, counter, value)
    with pytest.raises(AssertionError, match=promise):
        pool.settle({}, 1)


def test_an_empty_pool_that_still_counts_is_found() -> None:
    pool = TransactionQueue()
    pool.add(xt(1, 0), 0)
    pool._total_bytes += 1
    with pytest.raises(AssertionError, match="empty pool"):
        pool.remove(xt(1, 0).extrinsic_hash)


def test_a_gap_among_the_ready_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = TransactionQueue()
    pool.add(xt(1, 0), 0)
    pool.add(xt(1, 1), 0)
    monkeypatch.setattr(pool, "_settle_sender", lambda *_: ([], []))
    with pytest.raises(AssertionError, match="no gap"):
        pool.remove(xt(1, 0).extrinsic_hash)
