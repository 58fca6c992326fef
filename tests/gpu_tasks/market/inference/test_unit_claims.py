"""Results of units as claims: the claim at the end of a race, its checks, and its three outcomes, to the grain."""

from dataclasses import replace

import pytest

from gpu_tasks.batches.leaf_draws import total_weight, weight_floor
from gpu_tasks.market.claims.claims import ClaimOutcome, ClaimStage, ClaimTerms
from gpu_tasks.market.claims.findings import Verdict
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.inference import events as ev
from gpu_tasks.market.inference.gpu_tasks_api import GpuTasksApi
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.money import collateral_of
from gpu_tasks.market.inference.units import Refund, UnitState
from runtime.cryptography.signatures import verify
from runtime.frame.api import Apis
from runtime.pallets.balances import Balances
from runtime.pallets.staking.slashing import Share
from simulation.chains.dispute_chain import voter_steps
from simulation.chains.market_chain import (
    CUSTOMER,
    DEVICE_BOND,
    GENESIS_HASH,
    OGPU,
    Keys,
    MarketChain,
    named_keys,
    root_of,
    signed,
    terms,
    totals_under,
)
from unit_cases import (
    RIGHT,
    WRONG,
    all_owned,
    checker_steps,
    committed,
    concluded,
    is_claim_open,
    matched,
    raced,
    revealed,
    vote_for,
    wait_for_race,
)

ALWAYS = {"ResultClaims.check_rate": 1_000_000}


def claim_terms(chain: MarketChain, unit_id: bytes) -> ClaimTerms:
    return chain.now()[ResultClaims].open_claim(unit_id).terms


def fees_of(paid: int) -> int:
    """Return the settlement fee on a payment."""
    return paid * 2 // 100


# ---------------------------------------------------------------------------------------------------------- the claim


def test_the_customer_reads_the_result_at_once_and_the_racer_waits_for_its_pay() -> None:
    chain = MarketChain(named_keys(8))
    before = all_owned(chain)
    unit_id, unit, (first, second) = raced(chain, {0: RIGHT, 1: RIGHT})
    assert chain.happened(ev.ResultClaimed) == [ev.ResultClaimed(unit_id, first.stash, RIGHT, b"o" * 32, second.stash)]
    record = chain.unit(unit_id)
    assert (record.state, record.output_root, record.paid) == (UnitState.CLAIMED, RIGHT, 0)
    assert is_claim_open(chain, unit_id)
    assert [chain.device(who).secured for who in (first, second)] == [collateral_of(unit), 0], "the witness is free"
    assert [racer.collateral for racer in record.racers] == [collateral_of(unit), 0]
    duties = chain.now()[InferenceMarket].duties
    assert [(who.stash, unit_id) in duties for who in (first, second)] == [True, False]
    assert all(chain.owned(who.stash) == before[who.stash] for who in (first, second))
    assert chain.now()[Balances].reserved_balance(CUSTOMER.stash) == unit.escrow + unit.bond + unit.deposit


def test_the_claim_has_the_terms_of_the_unit() -> None:
    chain = MarketChain(named_keys(8))
    unit_id, unit, (first, second) = raced(chain, {0: RIGHT, 1: RIGHT})
    fee = -(-unit.price * 6 // 5)
    weight = total_weight(totals_under(RIGHT), weight_floor(64, 1), input_share=0)
    assert claim_terms(chain, unit_id) == ClaimTerms(
        handler=InferenceMarket.index,
        provider=first.stash,
        customer=CUSTOMER.stash,
        root=RIGHT,
        items=1,
        weight=weight,
        item_weight_max=weight,
        price=unit.price,
        collateral=collateral_of(unit),
        rate_ppm=100_000,
        check_ppm=1_200_000,
        fee_min=OGPU // 1_000,
        fees_held=2 * fee,
        sealed_at=0,
        run_blocks=30,
        excluded=(second.stash,),
    )


def test_a_shorter_result_claims_only_its_part_of_the_price() -> None:
    chain = MarketChain(named_keys(8))
    short = root_of(b"short", tokens=16)
    unit_id, unit, _ = raced(chain, {0: short}, racers=1)
    claimed = claim_terms(chain, unit_id)
    assert (claimed.price, claimed.fees_held) == (unit.price // 4, 2 * -(-(unit.price // 4) * 6 // 5))
    assert claimed.weight == total_weight(totals_under(short), 32, input_share=0)
    assert claimed.collateral == collateral_of(unit)


@pytest.mark.parametrize(("requests", "rate"), [(2, 100_000), (40, 100_000), (41, 97_560), (64, 62_500)])
def test_a_batch_expects_at_most_four_points(requests: int, rate: int) -> None:
    chain = MarketChain(named_keys(8))
    chain.blocks(3)
    (unit_id,) = chain.post(replace(terms(racers=1), requests=requests))
    _, racers = wait_for_race(chain, unit_id)
    root = root_of(b"batch", requests=requests)
    committed(chain, unit_id, racers, root)
    chain.block()
    revealed(chain, unit_id, racers, root)
    claimed = claim_terms(chain, unit_id)
    assert (claimed.items, claimed.rate_ppm) == (requests, rate)
    assert concluded(chain, unit_id).state is UnitState.SETTLED


def test_a_lone_result_of_two_is_claimed_too_and_the_withholder_pays() -> None:
    chain = MarketChain(named_keys(8))
    unit_id, unit, (honest, silent) = matched(chain)
    committed(chain, unit_id, (honest, silent))
    chain.blocks(1)
    revealed(chain, unit_id, [honest])
    while chain.unit(unit_id).state is UnitState.RACING:
        chain.block()
    (claimed,) = chain.happened(ev.ResultClaimed)
    assert (claimed.winner, claimed.witness) == (honest.stash, None)
    (missed,) = chain.happened(ev.RaceMissed)
    assert (missed.provider, missed.amount) == (silent.stash, unit.price // 4)
    device = chain.device(silent)
    assert (device.secured, device.is_paused, device.bond) == (0, True, DEVICE_BOND - unit.price // 4)
    assert concluded(chain, unit_id).state is UnitState.SETTLED


def test_a_decliner_beside_a_result_is_free_at_the_claim() -> None:
    chain = MarketChain(named_keys(8))
    unit_id, _, (decliner, worker) = matched(chain)
    chain.block(signed(decliner.provider, InferenceMarket.decline(unit=unit_id, attempt=1)))
    committed(chain, unit_id, [worker])
    revealed(chain, unit_id, [worker])
    assert chain.unit(unit_id).state is UnitState.CLAIMED
    assert chain.device(decliner).secured == 0
    assert claim_terms(chain, unit_id).excluded == (decliner.stash,)


# ------------------------------------------------------------------------------------------------------- the outcomes


def test_the_customer_pays_each_check_that_passed() -> None:
    chain = MarketChain(named_keys(9), constants=ALWAYS, epoch_blocks=1_000)
    before = all_owned(chain)
    unit_id, unit, (winner, witness) = raced(chain, {0: RIGHT, 1: RIGHT})
    settled = concluded(chain, unit_id)
    gained = {who: chain.owned(who) - had for who, had in before.items()}
    fee, pay = -(-unit.price * 6 // 5), unit.price * 3 // 10
    assert gained[witness.stash] == pay - fees_of(pay)
    checkers = [who for who, grains in gained.items() if grains == fee]
    assert len(checkers) in (1, 2), "the second check is drawn in one of four cases"
    assert not {winner.stash, witness.stash} & set(checkers)
    assert settled.state is UnitState.SETTLED
    assert settled.paid == unit.price + pay + len(checkers) * fee
    assert gained[CUSTOMER.stash] == -(settled.paid + 8 * chain.now()[InferenceMarket].duty_fee)
    assert gained[winner.stash] == unit.price - fees_of(unit.price)
    (paid,) = chain.happened(ev.UnitSettled)
    assert (paid.winner, paid.witness, paid.paid) == (winner.stash, witness.stash, settled.paid)


def refuted(chain: MarketChain, roots: dict[int, bytes | None]) -> tuple[bytes, list[Keys]]:
    """Return a unit that nine voters refute after a checker."""
    unit_id, _, racers = raced(chain, roots, racers=len(roots))
    vote = vote_for(Verdict.WRONG, RIGHT)
    concluded(chain, unit_id, Verdict.WRONG, vote)
    return unit_id, racers


@pytest.mark.parametrize("racers", [1, 2])
def test_a_refuted_result_costs_its_winner_the_collateral_and_the_customer_nothing(racers: int) -> None:
    chain = MarketChain(named_keys(20), constants=ALWAYS)
    before = all_owned(chain)
    unit_id, (liar, *others) = refuted(chain, dict.fromkeys(range(racers), WRONG))
    record = chain.unit(unit_id)
    lost = collateral_of(record)
    assert (record.state, record.refund, record.paid) == (UnitState.REFUNDED, Refund.REFUTED, 0)
    assert chain.happened(ev.ProviderSlashed) == [ev.ProviderSlashed(unit_id, liar.stash, liar.device, lost)]
    gained = {who: chain.owned(who) - had for who, had in before.items()}
    assert gained[liar.stash] == -lost
    assert [gained[other.stash] for other in others] == [0] * (racers - 1), "a witness has no collateral at stake"
    assert gained[CUSTOMER.stash] == -(2 * racers + 4) * chain.now()[InferenceMarket].duty_fee
    assert max(gained.values()) == lost // 2, "the checker that found it"
    device = chain.device(liar)
    assert (device.is_paused, device.bond, device.secured) == (True, DEVICE_BOND - lost, 0)


def test_a_claim_without_a_decision_costs_nobody_anything() -> None:
    chain = MarketChain(named_keys(8), constants=ALWAYS)
    before = all_owned(chain)
    unit_id, _, (winner, _) = raced(chain, {0: RIGHT, 1: RIGHT})
    record = concluded(chain, unit_id, Verdict.UNAVAILABLE)
    assert (record.state, record.refund) == (UnitState.REFUNDED, Refund.INCONCLUSIVE)
    assert not chain.happened(ev.ProviderSlashed)
    device = chain.device(winner)
    assert (device.is_paused, device.bond, device.secured) == (False, DEVICE_BOND, 0)
    assert chain.owned(winner.stash) == before[winner.stash]


def test_an_honest_provider_pays_half_of_the_voters_if_a_checker_could_not_fetch_and_is_paid() -> None:
    """The unit's record follows the charge while the claim is open."""
    chain = MarketChain(named_keys(20), constants=ALWAYS, epoch_blocks=1_000)
    unit_id, unit, (winner, _) = raced(chain, {0: RIGHT, 1: RIGHT})
    weight = claim_terms(chain, unit_id).weight
    before, vote = chain.owned(winner.stash), vote_for(Verdict.RIGHT, RIGHT, weight=weight)
    while chain.unit(unit_id).racers[0].collateral == collateral_of(unit):
        chain.block(*checker_steps(chain, Verdict.UNAVAILABLE), *voter_steps(chain, vote))
    fee = -(-unit.price * 6 // 5)
    assert chain.unit(unit_id).racers[0].collateral == collateral_of(unit) - -(-9 * fee // 2)
    assert concluded(chain, unit_id, vote=vote).state is UnitState.SETTLED
    assert chain.owned(winner.stash) - before == unit.price - fees_of(unit.price) - -(-9 * fee // 2)


# -------------------------------------------------------------------------------------------------- money and records


def test_the_market_pays_for_a_claim_out_of_the_winners_part_alone() -> None:
    chain = MarketChain(named_keys(8))
    unit_id, unit, (winner, _) = raced(chain, {0: RIGHT, 1: RIGHT})
    bound = chain.now()
    market, held = bound[InferenceMarket], collateral_of(unit)
    market.charge_provider(unit_id, (Share(None, 3), Share(CUSTOMER.stash, 4)))
    market.charge_customer(unit_id, (Share(winner.stash, 5),))
    record = market.units[unit_id]
    assert record is not None
    assert [racer.collateral for racer in record.racers] == [held - 7, 0]
    assert bound[Balances].reserved_balance(CUSTOMER.stash) == unit.escrow + unit.bond + unit.deposit - 5
    bound[ResultClaims].remove(unit_id, bound[ResultClaims].open_claim(unit_id))
    market.conclude(unit_id, ClaimOutcome.RETURNED)
    ended = market.units[unit_id]
    assert ended is not None
    assert (ended.state, ended.paid) == (UnitState.REFUNDED, 5)


@pytest.mark.parametrize("racers", [1, 2, 8])
def test_the_quote_is_what_is_locked(racers: int) -> None:
    chain = MarketChain(named_keys(5))
    chain.blocks(3)
    before = chain.now()[Balances].free_balance(CUSTOMER.stash)
    api = GpuTasksApi(Apis(chain.runtime, (GpuTasksApi,)), chain.state, GENESIS_HASH, verify)
    quote = api.quote(0, OGPU, racers)
    assert quote is not None
    chain.post(terms(racers=racers))
    assert chain.now()[Balances].reserved_balance(CUSTOMER.stash) == quote.locked
    assert before - chain.now()[Balances].free_balance(CUSTOMER.stash) == quote.locked + quote.prepaid


def test_the_api_shows_the_claim_while_it_is_open() -> None:
    chain = MarketChain(named_keys(8))
    unit_id, _, _ = raced(chain, {0: RIGHT, 1: RIGHT})
    api = GpuTasksApi(Apis(chain.runtime, (GpuTasksApi,)), chain.state, GENESIS_HASH, verify)
    status = api.unit(unit_id)
    assert status is not None
    assert status.claim == chain.now()[ResultClaims].open_claim(unit_id)
    assert status.claim.stage is ClaimStage.DRAWING
    assert status.dispute is None
    concluded(chain, unit_id)
    ended = GpuTasksApi(Apis(chain.runtime, (GpuTasksApi,)), chain.state, GENESIS_HASH, verify).unit(unit_id)
    assert ended is not None
    assert ended.claim is None
