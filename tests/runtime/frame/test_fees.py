"""Fees and the multiplier: single values, and how the multiplier moves over any load."""

from hypothesis import given
from hypothesis import strategies as st

from runtime.cryptography.signatures import Scheme
from runtime.encoding.types import DispatchClass, Weight
from runtime.frame.fees import (
    MILLIONTHS,
    MULTIPLIER_MAX,
    MULTIPLIER_ONE,
    FeePrices,
    InclusionFee,
    fullness,
    highest_priority,
    inclusion_fee,
    next_multiplier,
    priority,
    total_fee,
)
from runtime.frame.weights import class_limit, length_limit
from runtime.pallets.system import System
from runtime.pallets.transaction_payment import TransactionPayment
from small_chain import ALICE, BOB, SmallChain

PRICES = FeePrices()


def anyone(scheme: Scheme, key: bytes, message: bytes, signature: bytes) -> bool:
    return True


def test_a_fee_is_base_and_length_and_weight() -> None:
    assert inclusion_fee(PRICES, 147, Weight(), MULTIPLIER_ONE) == InclusionFee(2_000, 1_470, 0)
    assert inclusion_fee(PRICES, 147, Weight(15_000_000), MULTIPLIER_ONE).total == 3_470 + 150
    assert inclusion_fee(PRICES, 147, Weight(15_000_000), 5 * MULTIPLIER_ONE // 2).total == 3_470 + 375
    assert total_fee(PRICES, 147, Weight(15_000_000), 5 * MULTIPLIER_ONE // 2) == 3_470 + 375


def test_the_multiplier_rises_and_falls_by_an_eighth() -> None:
    assert next_multiplier(8 * MULTIPLIER_ONE, MILLIONTHS) == 9 * MULTIPLIER_ONE
    assert next_multiplier(8 * MULTIPLIER_ONE, MILLIONTHS // 2) == 8 * MULTIPLIER_ONE
    assert next_multiplier(8 * MULTIPLIER_ONE, 0) == 7 * MULTIPLIER_ONE
    assert next_multiplier(MULTIPLIER_ONE, 0) == MULTIPLIER_ONE
    assert next_multiplier(MULTIPLIER_MAX, MILLIONTHS) == MULTIPLIER_MAX


def test_fullness_is_that_of_the_scarcer_thing() -> None:
    limit = class_limit(DispatchClass.Normal)
    assert limit is not None
    assert fullness(Weight(limit.ref_time // 4), length_limit(DispatchClass.Normal) // 2) == MILLIONTHS // 2
    assert fullness(Weight(limit.ref_time), 0) == MILLIONTHS
    assert fullness(Weight(10 * limit.ref_time), 0) == MILLIONTHS


@given(st.integers(0, 2**70), st.integers(0, 10**7), st.integers(0, 10**13))
def test_no_call_gives_a_higher_priority_than_one_that_weighs_nothing(tip: int, length: int, time: int) -> None:
    assert highest_priority(tip, length) == priority(tip, length, Weight()) >= priority(tip, length, Weight(time))


@given(st.lists(st.integers(0, MILLIONTHS), max_size=200))
def test_the_multiplier_stays_within_its_bounds(load: list[int]) -> None:
    multiplier = MULTIPLIER_ONE
    for full in load:
        after = next_multiplier(multiplier, full)
        assert MULTIPLIER_ONE <= after <= MULTIPLIER_MAX
        assert abs(after - multiplier) <= multiplier // 8 + 1
        multiplier = after


def test_priority_prefers_the_tip_for_each_share_of_a_block() -> None:
    light, heavy = Weight(10_000_000), Weight(1_000_000_000)
    assert priority(10, 100, light) > priority(10, 100, heavy)
    assert priority(11, 100, light) > priority(10, 100, light)
    assert priority(10, 100, light) > priority(10, 100_000, light)
    assert priority(2**128 - 1, 1, Weight(1)) == 2**64 - 1


def test_full_blocks_make_the_weight_part_dearer_and_quiet_ones_make_it_cheap_again() -> None:
    chain = SmallChain()
    filler = System.remark(remark=bytes(60_000))
    raws = [chain.signed(who, filler, nonce=nonce) for nonce in range(20) for who in (ALICE, BOB)]
    chain.author(*raws, verifier=anyone)
    risen = chain.bound[TransactionPayment].next_fee_multiplier.get()
    assert risen > MULTIPLIER_ONE
    chain.author()
    assert MULTIPLIER_ONE <= chain.bound[TransactionPayment].next_fee_multiplier.get() < risen
