"""Vouchers: their bytes without this project's codec, their amounts, and the binding of items to requests."""

from hashlib import blake2b

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.batches.leaves import leaf_of
from gpu_tasks.batches.outcomes import Completed
from gpu_tasks.batches.requests import PRICED, TOKEN
from gpu_tasks.batches.sum_tree import Totals
from gpu_tasks.market.sessions.vouchers import (
    VOUCHER,
    Voucher,
    amount_of,
    item_salt,
    session_claim_id,
    voucher_payload,
)

GENESIS, SESSION, TOP, SECRET = (bytes((number,)) * 32 for number in range(0xA0, 0xA4))
VOUCHER_OF_SEVEN = Voucher(SESSION, 7, Totals(3, 1_000, 64, TOP))
BYTES = (
    SESSION + bytes((7, 0, 0, 0)) + bytes((3, 0, 0, 0)) + (1_000).to_bytes(8, "little") + bytes((64,)) + bytes(7) + TOP
)


def hashed(data: bytes) -> bytes:
    return blake2b(data, digest_size=32).digest()


def test_the_signed_bytes_name_the_chain_the_session_the_period_and_the_totals() -> None:
    assert voucher_payload(GENESIS, VOUCHER_OF_SEVEN) == b"ogpu/1/voucher\0" + GENESIS + BYTES
    assert VOUCHER.decode(BYTES) == VOUCHER_OF_SEVEN


def test_ids_and_salts() -> None:
    assert session_claim_id(SESSION, 7) == hashed(b"ogpu/session-claim" + SESSION + bytes((7, 0, 0, 0)))
    assert item_salt(SECRET, b"hello") == hashed(b"ogpu/session-item" + SECRET + hashed(b"hello"))
    with pytest.raises(ValueError, match="32 bytes"):
        item_salt(SECRET[1:], b"hello")


def test_a_leaf_binds_its_request() -> None:
    claim, answer = session_claim_id(SESSION, 0), Completed(b"answer", 3, 4)
    leaves = [leaf_of(GENESIS, claim, item_salt(SECRET, request), 0, answer) for request in (b"hard", b"easy")]
    assert leaves[0].digest != leaves[1].digest


def test_an_amount_is_the_price_of_the_work_rounded_up() -> None:
    assert amount_of(1_000, 0, Totals(1, 10**9, 64, TOP)) == 64
    assert amount_of(1_000, TOKEN // 4, Totals(1, 100, 64, TOP)) == 89
    assert amount_of(1, 0, Totals(1, 0, 1, TOP)) == 1


@given(st.integers(0, 10**15), st.integers(0, TOKEN), st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_an_amount_is_less_than_a_grain_above_the_exact_price(rate: int, share: int, read: int, written: int) -> None:
    work = read * share + written * TOKEN
    excess = amount_of(rate, share, Totals(1, read, written, TOP)) * PRICED - rate * work
    assert 0 <= excess < PRICED
