"""A check's money in numbers, the cost limits of its cases, and the binding of a proof."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.batches.leaf_draws import leaves_to_check
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.courts.money import FIRST_JUDGES
from gpu_tasks.market.leaf_checks.checks import LeafStage
from gpu_tasks.market.leaf_checks.fees import auditor_seat, check_fee, dispute_bond, withheld_shares
from gpu_tasks.market.leaf_checks.proofs import leaves_proof
from simulation.chains.batch_chain import LeafChain
from simulation.chains.market_chain import CUSTOMER, signed

GRAINS = st.integers(0, 10**15)


@pytest.mark.parametrize(
    ("price", "requests", "fee"),
    [
        (1_000_000, 2, 500_000),
        (1_000_000, 10, 100_000),
        (1_000_000, 32, 31_250),
        (1_000_000, 33, 60_606),
        (1_000_000, 4_096, 3_906),
        (1_000_000, 100, 40_000),
        (10, 4_096, 100),
    ],
)
def test_an_auditor_is_paid_the_part_of_the_price_that_it_computes(price: int, requests: int, fee: int) -> None:
    assert check_fee(price, requests, 100) == fee


@given(price=GRAINS, requests=st.integers(2, 4_096), least=st.integers(1, 10**8))
def test_a_check_costs_no_more_than_a_judge_of_the_whole(price: int, requests: int, least: int) -> None:
    fee = check_fee(price, requests, least)
    assert least <= fee <= max(price // 2, least)
    assert fee >= price * leaves_to_check(requests) // requests


@given(collateral=GRAINS, fee=GRAINS)
def test_who_audits_stands_for_what_who_answered_stands_for(collateral: int, fee: int) -> None:
    assert auditor_seat(collateral, fee) >= max(collateral, 40 * fee)
    assert dispute_bond(fee) == 5 * fee


@given(price=GRAINS, held=st.lists(GRAINS, max_size=8))
def test_what_is_withheld_costs_all_and_gives_the_price_once(price: int, held: list[int]) -> None:
    named = [(bytes([place]) * 32, amount) for place, amount in enumerate(held)]
    charged = dict(withheld_shares(price, b"c" * 32, named))
    taken = {who: sum(share.amount for share in shares) for who, shares in charged.items()}
    assert taken == {who: amount for who, amount in named if amount}
    back = sum(share.amount for shares in charged.values() for share in shares if share.payee == b"c" * 32)
    assert back == min(price, sum(held))
    assert all(share.payee in (None, b"c" * 32) for shares in charged.values() for share in shares)


def test_a_proof_is_bound_to_everything_that_it_says() -> None:
    digests = (b"1" * 32, b"2" * 32)

    def proof(*, changed: int = 4, digests: tuple[bytes, ...] = digests, is_shown: bool = True) -> bytes:
        genesis, unit, auditor, salt = (b"x" * 32 if at == changed else bytes([at]) * 32 for at in range(4))
        return leaves_proof(genesis, unit, auditor, salt, digests, is_shown=is_shown)

    proofs = {proof(changed=place) for place in range(5)}
    proofs |= {proof(digests=digests[:1]), proof(digests=digests[::-1]), proof(is_shown=False)}
    assert len(proofs) == 8


def test_the_pot_gives_a_case_of_a_check_a_few_of_its_fees_at_most() -> None:
    """The checkers of a proof are paid as its auditor, the judges of a leaf as judges of the batch."""
    stage = LeafChain()
    unit = stage.settled()
    auditor, terms = stage.shown(unit), stage.check(unit).terms
    assert terms.fee < terms.judge_fee

    def costs() -> tuple[int, int]:
        case = stage.chain.now()[Courts].cases[stage.check(unit).case or b""]
        assert case is not None
        return case.fee, case.terms.pot_max

    stage.chain.block(stage.passes(unit, auditor))
    assert costs() == (terms.fee, FIRST_JUDGES * terms.fee)
    stage.until(unit, LeafStage.OPEN)
    stage.chain.block(signed(CUSTOMER.stash, stage.dispute_call(unit, 3, b"n" * 32)))
    assert costs() == (terms.judge_fee, terms.fee)
