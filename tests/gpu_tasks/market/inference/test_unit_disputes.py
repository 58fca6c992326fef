"""Units whose racers differ or decline: the question, the ruling of the voters, and the money, to the grain."""

import pytest

from gpu_tasks.market.claims.disputes import Dispute, DisputeQuestion, DisputeStage, DisputeTerms
from gpu_tasks.market.claims.disputes_pallet import Disputes
from gpu_tasks.market.claims.findings import ItemVote, Verdict
from gpu_tasks.market.inference import events as ev
from gpu_tasks.market.inference.gpu_tasks_api import GpuTasksApi
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.money import collateral_of
from gpu_tasks.market.inference.units import Refund, UnitState, dispute_id_of
from runtime.cryptography.signatures import verify
from runtime.frame.api import Apis
from runtime.pallets.staking.trust_stake import TrustStake
from simulation.chains.dispute_chain import voter_steps
from simulation.chains.market_chain import (
    BOND,
    CUSTOMER,
    DEVICE_BOND,
    GENESIS_HASH,
    MarketChain,
    named_keys,
    root_of,
    signed,
)
from unit_cases import (
    RIGHT,
    WRONG,
    all_owned,
    committed,
    concluded,
    decided,
    declined_twice,
    matched,
    raced,
    revealed,
    vote_for,
)

VOTERS = 9


def dispute_of(chain: MarketChain) -> DisputeTerms:
    """Return the terms of the only open dispute."""
    ((_, dispute),) = chain.now()[Disputes].disputes.items()
    assert dispute is not None
    return dispute.terms


def gains(chain: MarketChain, before: dict[bytes, int]) -> dict[bytes, int]:
    return {who: chain.owned(who) - had for who, had in before.items()}


def fee_of(price: int) -> int:
    """Return the fee of a voter about a request of this price."""
    return -(-price * 6 // 5)


# --------------------------------------------------------------------------------------------------- results differ


def test_voters_are_asked_at_once_for_the_right_result_of_one_request() -> None:
    chain = MarketChain(named_keys(20))
    unit_id, unit, (liar, honest, third) = raced(chain, {0: WRONG, 1: RIGHT}, racers=3)
    assert chain.unit(unit_id).state is UnitState.DISPUTED
    terms = dispute_of(chain)
    assert terms == DisputeTerms(
        handler=InferenceMarket.index,
        question=DisputeQuestion.SIDES,
        work=unit_id,
        index=0,
        point=None,
        seeds=(),
        parties=(CUSTOMER.stash, liar.stash, honest.stash),
        excluded=(third.stash,),
        fee=fee_of(unit.price),
        sealed_at=0,
        run_blocks=60,
    )
    api = GpuTasksApi(Apis(chain.runtime, (GpuTasksApi,)), chain.state, GENESIS_HASH, verify)
    status = api.unit(unit_id)
    assert status is not None
    assert (status.dispute, status.claim) == (dispute_id_of(unit_id, 1), None)
    assert chain.now()[Disputes].open_dispute(dispute_id_of(unit_id, 1)).terms == terms


def test_a_liar_pays_the_voters_and_the_right_racer_claims_its_pay() -> None:
    chain = MarketChain(named_keys(20), epoch_blocks=1_000)
    unit_id, unit, (liar, honest) = raced(chain, {0: WRONG, 1: RIGHT})
    before, lost = all_owned(chain), collateral_of(unit)
    claimed = decided(chain, unit_id, vote_for(Verdict.RIGHT))
    gained = gains(chain, before)
    assert (claimed.state, claimed.output_root) == (UnitState.CLAIMED, RIGHT)
    assert chain.happened(ev.ProviderSlashed) == [ev.ProviderSlashed(unit_id, liar.stash, liar.device, lost)]
    assert gained[liar.stash] == -lost
    assert sorted(gained.values())[-VOTERS:] == [fee_of(unit.price)] * VOTERS
    assert gained[CUSTOMER.stash] == gained[honest.stash] == 0
    device = chain.device(liar)
    assert (device.is_paused, device.bond, device.secured) == (True, DEVICE_BOND - lost, 0)
    assert chain.now()[TrustStake].bonds[liar.stash] == BOND, "the stake is untouched"
    assert concluded(chain, unit_id).state is UnitState.SETTLED
    (paid,) = chain.happened(ev.UnitSettled)
    assert (paid.winner, paid.witness) == (honest.stash, None)


def test_two_that_lie_alike_lose_against_one() -> None:
    chain = MarketChain(named_keys(20))
    unit_id, unit, racers = raced(chain, {0: WRONG, 1: WRONG, 2: RIGHT}, racers=3)
    decided(chain, unit_id, vote_for(Verdict.RIGHT))
    assert [one.provider for one in chain.happened(ev.ProviderSlashed)] == [racers[0].stash, racers[1].stash]
    assert {one.amount for one in chain.happened(ev.ProviderSlashed)} == {collateral_of(unit)}
    (claimed,) = chain.happened(ev.ResultClaimed)
    assert claimed.winner == racers[2].stash


def test_two_that_agree_beside_a_liar_are_winner_and_witness() -> None:
    chain = MarketChain(named_keys(20))
    unit_id, _, racers = raced(chain, {0: RIGHT, 1: WRONG, 2: RIGHT}, racers=3)
    decided(chain, unit_id, vote_for(Verdict.RIGHT))
    (claimed,) = chain.happened(ev.ResultClaimed)
    assert (claimed.winner, claimed.witness) == (racers[0].stash, racers[2].stash)


def test_where_nobody_is_right_all_pay_and_the_unit_is_drawn_again() -> None:
    chain = MarketChain(named_keys(20))
    unit_id, unit, _ = raced(chain, {0: WRONG, 1: root_of(b"other")})
    record = decided(chain, unit_id, vote_for(Verdict.RIGHT))
    assert [one.amount for one in chain.happened(ev.ProviderSlashed)] == [collateral_of(unit)] * 2
    assert (record.state, record.racers, record.attempt) == (UnitState.QUEUED, (), 1)
    assert chain.happened(ev.UnitRequeued)
    assert not list(chain.now()[InferenceMarket].unit_of_dispute.keys())


def test_withholding_beside_a_dispute_costs_a_quarter_of_the_price() -> None:
    chain = MarketChain(named_keys(20))
    unit_id, unit, (one, other, silent) = matched(chain, racers=3)
    committed(chain, unit_id, (one, silent))
    committed(chain, unit_id, (other,), WRONG)
    chain.blocks(1)
    revealed(chain, unit_id, (one,))
    revealed(chain, unit_id, (other,), WRONG)
    while chain.unit(unit_id).state is UnitState.RACING:
        chain.block()
    (missed,) = chain.happened(ev.RaceMissed)
    assert (missed.provider, missed.amount) == (silent.stash, unit.price // 4)
    assert silent.stash not in dispute_of(chain).parties
    decided(chain, unit_id, vote_for(Verdict.RIGHT))
    assert chain.device(silent).secured == 0


@pytest.mark.parametrize("verdict", [Verdict.WRONG, Verdict.UNAVAILABLE])
def test_an_input_that_voters_cannot_open_costs_its_customer_the_bond_and_no_racer_anything(verdict: Verdict) -> None:
    chain = MarketChain(named_keys(20), epoch_blocks=1_000)
    unit_id, unit, racers = raced(chain, {0: WRONG, 1: RIGHT})
    before = all_owned(chain)
    record = decided(chain, unit_id, vote_for(verdict, b"input".ljust(32)))
    gained = gains(chain, before)
    assert (record.state, record.refund, record.paid) == (UnitState.REFUNDED, Refund.INPUT_BAD, unit.bond)
    assert gained[CUSTOMER.stash] == -unit.bond
    assert [gained[racer.stash] for racer in racers] == [0, 0]
    assert sorted(gained.values())[-VOTERS:] == [unit.bond // VOTERS] * VOTERS
    assert not chain.happened(ev.ProviderSlashed)


def silent(_: Dispute) -> ItemVote | None:
    return None


@pytest.mark.parametrize("validators", [3, 5, 20])
def test_without_a_decision_nobody_pays(validators: int) -> None:
    """Of five validators, two race. Only in larger sets voters can be silent: elsewhere nobody is asked."""
    chain = MarketChain(named_keys(validators), epoch_blocks=1_000)
    unit_id, _, racers = raced(chain, {0: WRONG, 1: RIGHT})
    before = all_owned(chain)
    record = decided(chain, unit_id, silent)
    gained = gains(chain, before)
    assert (record.state, record.refund, record.paid) == (UnitState.REFUNDED, Refund.INCONCLUSIVE, 0)
    assert [gained[who.stash] for who in (CUSTOMER, *racers)] == [0, 0, 0]
    assert not chain.happened(ev.ProviderSlashed)
    assert [chain.device(racer).secured for racer in racers] == [0, 0]


# ------------------------------------------------------------------------------------------------- declined inputs


def test_voters_are_asked_about_an_input_that_two_owners_declined() -> None:
    chain = MarketChain(named_keys(20))
    unit_id, (one, other) = declined_twice(chain)
    unit = chain.unit(unit_id)
    terms = dispute_of(chain)
    assert (terms.question, terms.work, terms.index, terms.run_blocks) == (DisputeQuestion.INPUT, unit_id, 0, 0)
    assert terms.parties == (CUSTOMER.stash, one.stash, other.stash)
    assert terms.fee == unit.bond // VOTERS


@pytest.mark.parametrize("verdict", [Verdict.WRONG, Verdict.UNAVAILABLE])
def test_d4_a_bad_input_costs_its_customer_the_bond(verdict: Verdict) -> None:
    chain = MarketChain(named_keys(20), epoch_blocks=1_000)
    unit_id, decliners = declined_twice(chain)
    unit, before = chain.unit(unit_id), all_owned(chain)
    record = decided(chain, unit_id, vote_for(verdict))
    gained = gains(chain, before)
    assert (record.state, record.refund, record.paid) == (UnitState.REFUNDED, Refund.INPUT_BAD, unit.bond)
    assert gained[CUSTOMER.stash] == -unit.bond
    assert [gained[who.stash] for who in decliners] == [0, 0]
    assert sorted(gained.values())[-VOTERS:] == [unit.bond // VOTERS] * VOTERS


def test_d4_who_declines_a_good_input_pays_the_miss_fee_out_of_which_voters_are_paid() -> None:
    chain = MarketChain(named_keys(20), epoch_blocks=1_000)
    unit_id, decliners = declined_twice(chain)
    unit, before = chain.unit(unit_id), all_owned(chain)
    record = decided(chain, unit_id, vote_for(Verdict.RIGHT))
    gained, miss_fee = gains(chain, before), collateral_of(unit) // 100
    assert [gained[who.stash] for who in decliners] == [-miss_fee] * 2
    assert chain.happened(ev.RaceMissed) == [ev.RaceMissed(unit_id, who.stash, miss_fee) for who in decliners]
    assert all(chain.device(who).is_paused and not chain.device(who).secured for who in decliners)
    assert sorted(gained.values())[-VOTERS:] == [unit.bond // VOTERS] * VOTERS
    assert gained[CUSTOMER.stash] == 0
    assert (record.state, set(record.declined_by)) == (UnitState.QUEUED, {who.stash for who in decliners})
    assert not chain.happened(ev.ProviderSlashed)


def test_without_a_decision_about_an_input_the_customer_is_refunded() -> None:
    chain = MarketChain(named_keys(20), epoch_blocks=1_000)
    unit_id, decliners = declined_twice(chain)
    before = all_owned(chain)
    record = decided(chain, unit_id, silent)
    assert (record.state, record.refund) == (UnitState.REFUNDED, Refund.INCONCLUSIVE)
    assert [gains(chain, before)[who.stash] for who in (CUSTOMER, *decliners)] == [0, 0, 0]


def test_a_customer_appeals_for_itself_whoever_calls_its_account_a_provider_key() -> None:
    """Its bond is at stake, so it is a party."""
    chain = MarketChain(named_keys(20))
    unit_id, _ = declined_twice(chain)
    vote = vote_for(Verdict.WRONG)
    dispute_id = dispute_id_of(unit_id, 1)
    while chain.now()[Disputes].open_dispute(dispute_id).stage is not DisputeStage.APPEALABLE:
        chain.block(*voter_steps(chain, vote))
    chain.block(signed(CUSTOMER.stash, Disputes.appeal(dispute=dispute_id)))
    assert chain.now()[Disputes].open_dispute(dispute_id).appellant == CUSTOMER.stash
    record = decided(chain, unit_id, vote_for(Verdict.RIGHT))
    assert record.state is UnitState.QUEUED
