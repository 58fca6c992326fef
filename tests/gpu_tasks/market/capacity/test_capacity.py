"""Capacity: proofs of devices at roll calls, the money and the ends of their claims, and the devices that may work."""

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from gpu_tasks.market.capacity import events as ev
from gpu_tasks.market.capacity import roll_call as times
from gpu_tasks.market.capacity.capacity import Capacity
from gpu_tasks.market.capacity.proofs import (
    CHECK_RUN_BLOCKS,
    ROLL_CALL_BOND,
    ROUNDS_MAX,
    ROW_DOMAIN,
    ROWS_MAX,
    ROWS_MIN,
    SIZE_MAX,
    SIZE_MIN,
    ProvenRate,
    WorkShape,
    claim_of,
    device_seed,
    is_sound,
    operations,
    proof_hold,
)
from gpu_tasks.market.capacity.roll_call import RollCall
from gpu_tasks.market.claims import claim_closing as closing
from gpu_tasks.market.claims.claim_events import CheckEnded, ClaimEnded, PointsDrawn
from gpu_tasks.market.claims.claims import CheckEnd, ClaimOutcome, ClaimTerms
from gpu_tasks.market.claims.disputes import Dispute
from gpu_tasks.market.claims.draws import ITEM_WEIGHT, item_at
from gpu_tasks.market.claims.findings import ItemVote, Verdict
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.devices.events import NotOwner, UnknownDevice
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.inference.units import UnitState
from gpu_tasks.market.training.events import NotEligible
from gpu_tasks.market.training.tasks import task_id_of
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.workloads.matmul_chain.challenge import ChainShape
from gpu_tasks.workloads.matmul_chain.challenge import operations as chain_operations
from gpu_tasks.workloads.matmul_chain.prover import ROW_DOMAIN as PROVER_DOMAIN
from nightly_but import nightly_but
from runtime.encoding.types import Root
from runtime.frame.errors import FundsUnavailable
from runtime.frame.parameter import ParameterChange
from runtime.frame.runtime import Bound
from runtime.pallets.balances import Balances
from runtime.pallets.chain_parameters import ChainParameters
from runtime.pallets.staking.trust_lock import Paid
from simulation.chains.dispute_chain import VoteOf, voter_steps
from simulation.chains.market_chain import (
    CUSTOMER,
    GENESIS_HASH,
    OGPU,
    PALLETS,
    Keys,
    MarketChain,
    Step,
    named_keys,
    refused,
    signed,
    terms,
    tolerant,
)
from task_chain import an_order
from unit_cases import checker_steps, vote_for

SHAPE = WorkShape(SIZE_MIN, 2 * ROWS_MIN, 500)
SMALL = WorkShape(SIZE_MIN, ROWS_MIN, 100)
"""A work that proves half of the least rate of a CPU."""
ROOT = b"r" * 32
PERIOD = 100
FEE, STAKE = OGPU // 1_000, OGPU // 25
COLLATERAL = STAKE * 259 // 100
DRAW_BLOCKS = 4
EPOCH = 20 * PERIOD


def a_chain(size: int = 6, **numbers: int) -> MarketChain:
    constants = {"Capacity.roll_calls_enabled": 1, "Capacity.period": PERIOD}
    named = {f"Capacity.{name}": value for name, value in numbers.items()}
    numbered, pallets = {**constants, **named}, (*PALLETS, ChainParameters)
    return MarketChain(named_keys(size), constants=numbered, pallets=pallets, epoch_blocks=EPOCH)


def hold_claims(chain: MarketChain) -> None:
    """Let no beacon become final, so that no claim takes a step."""
    chain.final_lag = EPOCH


@pytest.fixture
def chain() -> MarketChain:
    return a_chain()


def newest(chain: MarketChain) -> RollCall:
    called = chain.now()[Capacity].current.get()
    assert called is not None
    return called


def called(chain: MarketChain) -> RollCall:
    """Make blocks until the next roll call begins."""
    before = len(chain.happened(ev.RollCalled))
    while len(chain.happened(ev.RollCalled)) == before:
        chain.block()
    return newest(chain)


def until(chain: MarketChain, height: int) -> None:
    """Make empty blocks, so that the next one is `height`."""
    chain.blocks_to(height - 1)


def planned(chain: MarketChain) -> int:
    """Make blocks until a roll call is planned. Return its block."""
    while not chain.now()[Capacity].next_roll_call.get():
        chain.block()
    return chain.now()[Capacity].next_roll_call.get()


def prove(one: Keys, shape: WorkShape = SHAPE) -> Step:
    return signed(one.provider, Capacity.prove(device=one.device, shape=shape, root=ROOT))


def proved(chain: MarketChain, *owners: Keys, shape: WorkShape = SHAPE, delay: int = times.PROOFS_FROM) -> RollCall:
    """Let these devices prove at the next roll call."""
    found = called(chain)
    until(chain, found.at + delay)
    chain.block(*(prove(one, shape) for one in owners))
    return found


def over(chain: MarketChain) -> None:
    """Make blocks, with right checks, until the proofs of the newest roll call count."""
    while not times.is_over(newest(chain), chain.height):
        chain.block(*checker_steps(chain))


def held(chain: MarketChain, one: Keys, number: int = 1) -> int:
    return chain.now()[Balances].held(one.stash, proof_hold(claim_of(one.device, number)))


def proven(chain: MarketChain, one: Keys) -> int:
    return chain.now()[Capacity].proven(one.device)


def rate(delay: int = times.PROOFS_FROM, shape: WorkShape = SHAPE) -> int:
    return times.rate(operations(shape), 0, delay)


def ends(one: Keys, outcome: ClaimOutcome, number: int = 1) -> Step:
    """Return a step that ends the claim of a proof, without payments."""

    def step(bound: Bound) -> None:
        room, claim_id = bound[ResultClaims], claim_of(one.device, number)
        closing.conclude(room, claim_id, room.open_claim(claim_id), outcome)

    return step


def concluded(chain: MarketChain, verdict: Verdict, vote: VoteOf) -> ClaimOutcome:
    """Let checkers with this verdict and voters act until a claim ends. Return its outcome."""
    before = len(chain.happened(ClaimEnded))
    while len(chain.happened(ClaimEnded)) == before:
        chain.block(*checker_steps(chain, verdict), *voter_steps(chain, vote))
    outcome: ClaimOutcome = chain.happened(ClaimEnded)[-1].outcome
    return outcome


# ------------------------------------------------------------------------------------------------------------ one proof


@pytest.mark.parametrize("delay", [times.PROOFS_FROM, times.PROOFS_TO])
def test_a_proof_counts_once_its_roll_call_is_over(chain: MarketChain, delay: int) -> None:
    alice = chain.validators[0]
    found = proved(chain, alice, delay=delay)
    claim_id = claim_of(alice.device, 1)
    assert chain.happened(ev.CapacityStated) == [ev.CapacityStated(alice.device, 1, rate(delay), claim_id)]
    until(chain, times.over_at(found))
    assert proven(chain, alice) == 0
    chain.block()
    assert proven(chain, alice) == rate(delay) > 0


def test_the_claim_has_the_terms_of_the_proof(chain: MarketChain) -> None:
    alice = chain.validators[0]
    found = proved(chain, alice)
    claim = chain.now()[ResultClaims].open_claim(claim_of(alice.device, 1))
    assert claim.terms == ClaimTerms(
        handler=Capacity.index, provider=alice.stash, customer=alice.stash, root=ROOT, items=SHAPE.rows,
        weight=SHAPE.rows * ITEM_WEIGHT, item_weight_max=ITEM_WEIGHT, price=0, collateral=COLLATERAL,
        rate_ppm=4_000_000 // SHAPE.rows, check_ppm=0, fee_min=FEE, fees_held=2 * FEE, sealed_at=found.at,
        run_blocks=CHECK_RUN_BLOCKS, excluded=(),
    )  # fmt: skip
    proof = chain.now()[Capacity].open_proofs[claim_of(alice.device, 1)]
    assert proof is not None
    assert (proof.device, proof.owner, proof.number) == (alice.device, alice.stash, 1)
    assert (proof.seed, proof.shape) == (device_seed(found.seed, alice.device), SHAPE)
    assert proof.held == held(chain, alice) == COLLATERAL + 2 * FEE


@pytest.mark.parametrize("rows", [ROWS_MIN, 12_345, 999_999, 1_000_001, ROWS_MAX])
def test_every_proof_is_checked_at_three_to_five_rows(rows: int) -> None:
    chain = a_chain(4)
    proved(chain, chain.validators[0], shape=WorkShape(SIZE_MIN, rows, 1))
    while not chain.happened(PointsDrawn):
        chain.block()
    (drawn,) = chain.happened(PointsDrawn)
    assert 3 <= len(drawn.points) <= 5
    assert all(item_at(point) < rows for point in drawn.points)


def test_nothing_but_a_sound_proof_of_the_owner_in_its_blocks_is_accepted(chain: MarketChain) -> None:
    alice, bob = chain.validators[:2]
    good = Capacity.prove(device=alice.device, shape=SHAPE, root=ROOT)
    chain.block(refused(alice.stash, good, ev.NotCalled))
    found = called(chain)
    until(chain, found.at + times.PROOFS_FROM - 1)
    unsound = (
        replace(SHAPE, size=SIZE_MIN - 1), replace(SHAPE, size=SIZE_MAX + 1), replace(SHAPE, rows=ROWS_MIN - 1),
        replace(SHAPE, rows=ROWS_MAX + 1), replace(SHAPE, rounds=0), replace(SHAPE, rounds=ROUNDS_MAX + 1),
    )  # fmt: skip
    chain.block(refused(alice.stash, good, ev.NotCalled))
    chain.block(
        *(
            refused(alice.stash, Capacity.prove(device=alice.device, shape=bad, root=ROOT), ev.UnsoundWork)
            for bad in unsound
        ),
        refused(alice.stash, Capacity.prove(device=bytes(32), shape=SHAPE, root=ROOT), UnknownDevice),
        *(refused(who, good, NotOwner) for who in (bob.stash, bob.provider, CUSTOMER.stash)),
        signed(alice.stash, good),
        refused(alice.stash, good, ev.ProvenAlready),
        refused(alice.provider, good, ev.ProvenAlready),
    )
    until(chain, found.at + times.PROOFS_TO + 1)
    chain.block(refused(bob.stash, Capacity.prove(device=bob.device, shape=SHAPE, root=ROOT), ev.NotCalled))
    assert len(chain.happened(ev.CapacityStated)) == 1


def test_an_owner_without_free_collateral_cannot_prove() -> None:
    chain = a_chain(proof_stake=100 * OGPU)
    alice = chain.validators[0]
    found = called(chain)
    until(chain, found.at + times.PROOFS_FROM)
    free = chain.now()[Balances].spendable_balance(alice.stash)
    leave = Balances.transfer_keep_alive(dest=CUSTOMER.stash, value=free - 100 * OGPU)
    call = Capacity.prove(device=alice.device, shape=SHAPE, root=ROOT)
    chain.block(signed(alice.stash, leave), refused(alice.stash, call, FundsUnavailable))
    assert chain.now()[Capacity].proofs[alice.device] is None


def test_chain_and_workload_agree() -> None:
    assert ROW_DOMAIN == PROVER_DOMAIN
    assert operations(SHAPE) == chain_operations(ChainShape(SHAPE.size, SHAPE.rows, SHAPE.rounds))
    assert is_sound(SHAPE)
    assert device_seed(bytes(32), b"a" * 32) != device_seed(bytes(32), b"b" * 32)
    assert claim_of(b"a" * 32, 1) != claim_of(b"a" * 32, 2)
    assert ROLL_CALL_BOND.name == "RollCallBond"


# -------------------------------------------------------------------------------------------------- the ends of claims


def right_row(dispute: Dispute) -> ItemVote:
    """Return the vote of a voter that computes the right row of a dispute, with the sample that the provider shows."""
    assert dispute.terms.point is not None
    samples = vote_for(Verdict.RIGHT, ROOT, weight=ITEM_WEIGHT)(dispute)
    assert samples is not None
    at_row = tuple(replace(each, index=item_at(dispute.terms.point)) for each in samples.samples)
    return replace(samples, samples=at_row)


def test_a_passed_proof_costs_its_checks_and_the_rest_returns() -> None:
    chain = a_chain(8)
    alice = chain.validators[0]
    before = {one.stash: chain.owned(one.stash) for one in chain.validators}
    proved(chain, alice)
    assert concluded(chain, Verdict.RIGHT, lambda _: None) is ClaimOutcome.PASSED
    checks = len(chain.happened(CheckEnded))
    assert held(chain, alice) == 0
    assert chain.owned(alice.stash) == before[alice.stash] - checks * FEE
    assert sum(chain.owned(who) for who in before) == sum(before.values())
    assert not list(chain.now()[Capacity].open_proofs.keys())
    over(chain)
    assert proven(chain, alice) == rate()


def test_a_false_proof_costs_its_collateral_and_counts_no_more() -> None:
    chain = a_chain(14)
    alice = chain.validators[0]
    before = {one.stash: chain.owned(one.stash) for one in chain.validators}
    proved(chain, alice)
    assert concluded(chain, Verdict.WRONG, vote_for(Verdict.WRONG)) is ClaimOutcome.REFUTED
    assert chain.happened(ev.CapacityRefuted) == [ev.CapacityRefuted(alice.device, 1)]
    assert [one.end for one in chain.happened(CheckEnded)] == [CheckEnd.UPHELD]
    assert held(chain, alice) == 0
    assert chain.owned(alice.stash) == before[alice.stash] - COLLATERAL
    gains = sorted(chain.owned(who) - grains for who, grains in before.items() if who != alice.stash)
    assert gains[-1] == COLLATERAL // 2, "the checker's reward"
    assert set(gains[:-1]) <= {0, FEE}, "the voters' fees"
    assert sum(one.amount for one in chain.happened(Paid)) <= COLLATERAL
    over(chain)
    assert proven(chain, alice) == 0


def test_a_right_proof_stands_if_voters_find_the_checker_false() -> None:
    chain = a_chain(14)
    alice = chain.validators[0]
    proved(chain, alice)

    while not chain.happened(CheckEnded):
        chain.block(*checker_steps(chain, Verdict.WRONG), *voter_steps(chain, right_row))
    assert [one.end for one in chain.happened(CheckEnded)] == [CheckEnd.REFUTED]
    over(chain)
    assert proven(chain, alice) == rate()
    assert not chain.happened(ev.CapacityRefuted)


def test_a_proof_without_a_decision_counts_no_more_and_costs_nothing() -> None:
    chain = a_chain(4)
    alice = chain.validators[0]
    before = chain.owned(alice.stash)
    proved(chain, alice)
    assert concluded(chain, Verdict.WRONG, lambda _: None) is ClaimOutcome.RETURNED
    assert chain.owned(alice.stash) == before
    assert chain.happened(ev.CapacityRefuted) == [ev.CapacityRefuted(alice.device, 1)]
    over(chain)
    assert proven(chain, alice) == 0


def test_a_silent_provider_loses_its_collateral() -> None:
    chain = a_chain(8)
    alice = chain.validators[0]
    before = chain.owned(alice.stash)
    proved(chain, alice)
    while not chain.happened(ClaimEnded):
        steps = checker_steps(chain)
        is_showing = chain.now()[ResultClaims].duties[alice.stash, claim_of(alice.device, 1)]
        chain.block(*(() if is_showing else steps))
    assert chain.owned(alice.stash) == before - COLLATERAL
    assert chain.happened(ev.CapacityRefuted) == [ev.CapacityRefuted(alice.device, 1)]


@pytest.mark.parametrize("outcome", list(ClaimOutcome))
@pytest.mark.parametrize("proofs", [1, 2, 3])
def test_a_conviction_ends_its_own_proof_at_any_later_time(proofs: int, outcome: ClaimOutcome) -> None:
    chain = a_chain(4)
    hold_claims(chain)
    alice = chain.validators[0]
    for _ in range(proofs):
        proved(chain, alice)
    chain.block(ends(alice, outcome))
    is_bad = outcome is not ClaimOutcome.PASSED
    own = 0 if is_bad else rate()
    assert (
        chain.now()[Capacity].proofs[alice.device]
        == {
            1: ProvenRate(1, own, 0),
            2: ProvenRate(2, rate(), own),
            3: ProvenRate(3, rate(), rate()),
        }[proofs]
    )
    assert chain.happened(ev.CapacityRefuted) == ([ev.CapacityRefuted(alice.device, 1)] if is_bad else [])
    assert held(chain, alice) == 0
    assert all(held(chain, alice, number) == COLLATERAL + 2 * FEE for number in range(2, proofs + 1))
    assert proven(chain, alice) == {1: 0, 2: own, 3: rate()}[proofs]
    until(chain, times.over_at(newest(chain)) + 1)
    assert proven(chain, alice) == {1: own, 2: rate(), 3: rate()}[proofs]


def test_a_proof_ends_with_the_next_roll_call_that_its_device_does_not_answer(chain: MarketChain) -> None:
    alice = chain.validators[0]
    proved(chain, alice)
    over(chain)
    before = chain.owned(alice.stash)
    called(chain)
    assert proven(chain, alice) == rate()
    over(chain)
    assert proven(chain, alice) == 0
    assert chain.owned(alice.stash) >= before - FEE, "silence costs nothing, and a second check its fee"
    assert not chain.happened(ev.CapacityRefuted)
    proved(chain, alice)
    assert chain.now()[Capacity].proofs[alice.device] == ProvenRate(3, rate(), 0)
    assert proven(chain, alice) == 0


VERDICTS = (*[Verdict.RIGHT] * 6, Verdict.WRONG, Verdict.UNAVAILABLE)


@pytest.mark.parametrize(("seed", "size"), nightly_but(2, ((1, 6), (2, 14), (3, 4), (4, 9))))
def test_in_any_sequence_every_claim_ends_and_money_is_conserved(seed: int, size: int) -> None:
    """The books count every grain and every hold after each block."""
    chance, chain = random.Random(seed), a_chain(size)
    chain.chance.seed(seed)
    total = sum(chain.owned(one.stash) for one in chain.validators)
    for _ in range(4 * PERIOD):
        proofs = [prove(one) for one in chain.validators if chance.random() < 0.2]
        steps = checker_steps(chain, chance.choice(VERDICTS), chance.choice((b"", b"", b"guess")))
        acting = [step for step in steps if chance.random() < 0.7]
        votes = voter_steps(chain, chance.choice((right_row, vote_for(Verdict.WRONG))))
        chain.block(*(tolerant(step) for step in (*proofs, *acting, *votes)))
    while list(chain.now()[Capacity].open_proofs.keys()):
        chain.block()
    stated, ended = chain.happened(ev.CapacityStated), chain.happened(ClaimEnded)
    assert len(stated) == len(ended) > size
    assert {one.claim for one in stated} == {one.claim for one in ended}
    bad = [one for one in ended if one.outcome is not ClaimOutcome.PASSED]
    assert len(chain.happened(ev.CapacityRefuted)) == len(bad)
    burned = chain.issued - chain.now()[Balances].total_issuance.get()
    assert sum(chain.owned(one.stash) for one in chain.validators) <= total - max(0, burned)
    holds = chain.now()[Balances].holds
    assert not [hold for one in chain.validators for hold in holds[one.stash] if hold.id == ROLL_CALL_BOND]


# --------------------------------------------------------------------------------------------------------- the schedule


def test_each_period_has_one_roll_call(chain: MarketChain) -> None:
    chain.blocks(8 * PERIOD)
    assert newest(chain).number in (7, 8)


def test_an_empty_slot_before_a_roll_call_is_time_too(chain: MarketChain) -> None:
    until(chain, planned(chain))
    chain.empty_slots = 3
    chain.block()
    assert newest(chain).from_slot == newest(chain).at == chain.height


def test_a_period_that_governance_shortens_begins_no_roll_call_before_the_newest_one_is_over() -> None:
    chain = a_chain(4, period=300)
    found = called(chain)
    last = times.over_at(found)

    def begins_within(period: int) -> bool:
        start = -(-(found.at + 2) // period) * period
        return start + period - times.CALL_BLOCKS < last

    chain.block(changed(Capacity.period, next(filter(begins_within, range(times.CALL_BLOCKS + 20, 300)))))
    until(chain, last)
    assert newest(chain) == found
    chain.blocks(2 * PERIOD)
    assert newest(chain).number > found.number


def changed(parameter: object, value: int) -> Callable[[Bound], None]:
    def step(bound: Bound) -> None:
        bound.dispatch(ChainParameters.set_parameter(change=ParameterChange(parameter, value)), Root())  # type: ignore[arg-type]

    return step


# -------------------------------------------------------------------------------------------- the devices that may work


def racer_of_a_unit(chain: MarketChain) -> bytes | None:
    """Return the racer of a unit for one, or None while it waits."""
    (unit,) = chain.post(terms(racers=1, sealed_at=chain.height - 1))
    chain.blocks(DRAW_BLOCKS)
    found = chain.unit(unit)
    return found.racers[0].owner if found.state is UnitState.RACING else None


def sleeper(chain: MarketChain) -> bytes:
    """Return a unit that waits for a device."""
    (unit,) = chain.post(terms(racers=1, sealed_at=chain.height - 1))
    chain.blocks(DRAW_BLOCKS)
    assert chain.unit(unit).asleep_since
    return unit


def test_all_devices_work_until_the_first_roll_call_is_over_and_then_those_that_have_proven_enough(
    chain: MarketChain,
) -> None:
    alice, bob = chain.validators[:2]
    found = proved(chain, alice)
    chain.block(prove(bob, SMALL))
    assert proven(chain, alice) == 0
    until(chain, times.over_at(found))
    capacity = chain.now()[Capacity]
    assert all(capacity.has_proven(one.device, DeviceClass.DATACENTER) for one in chain.validators)
    over(chain)
    while chain.now()[Capacity].open_proofs[claim_of(alice.device, 1)]:
        chain.block(*checker_steps(chain))
    capacity = chain.now()[Capacity]
    assert proven(chain, alice) == rate() >= capacity.rate_min(DeviceClass.CPU)
    assert capacity.proofs[alice.device] == ProvenRate(1, rate())
    assert [capacity.has_proven(one.device, DeviceClass.CPU) for one in chain.validators] == [True] + 5 * [False]
    assert capacity.proven(bob.device) < capacity.rate_min(DeviceClass.CPU)
    assert not capacity.has_proven(alice.device, DeviceClass.DATACENTER)
    assert racer_of_a_unit(chain) == alice.stash
    assert racer_of_a_unit(chain) is None, "the only device that has proven enough is at work"


def test_a_sleeping_unit_wakes_when_a_device_has_proven_enough(chain: MarketChain) -> None:
    third = chain.validators[2]
    called(chain)
    over(chain)
    unit = sleeper(chain)
    proved(chain, third)
    over(chain)
    chain.blocks(2 + DRAW_BLOCKS)
    assert [racer.owner for racer in chain.unit(unit).racers] == [third.stash]
    assert not list(chain.now()[Capacity].returning.waiting.items())


def test_a_device_that_proved_too_little_before_wakes_sleeping_units_when_it_proves_enough(chain: MarketChain) -> None:
    third = chain.validators[2]
    proved(chain, third, shape=SMALL)
    over(chain)
    assert 0 < proven(chain, third) < chain.now()[Capacity].rate_min(DeviceClass.CPU)
    unit = sleeper(chain)
    proved(chain, third)
    over(chain)
    chain.blocks(2 + DRAW_BLOCKS)
    assert [racer.owner for racer in chain.unit(unit).racers] == [third.stash]


def test_a_device_whose_earlier_proof_is_refuted_returns_with_its_newest_one(chain: MarketChain) -> None:
    third = chain.validators[2]
    hold_claims(chain)
    proved(chain, third)
    until(chain, times.over_at(newest(chain)) + 1)
    proved(chain, third)
    assert not list(chain.now()[Capacity].returning.waiting.items())
    chain.block(ends(third, ClaimOutcome.REFUTED))
    assert not chain.now()[Capacity].has_proven(third.device, DeviceClass.CPU)
    waits_at = times.over_at(newest(chain))
    assert list(chain.now()[Capacity].returning.waiting.under(waits_at)) == [(third.device, True)]
    until(chain, waits_at)
    bound = chain.block()
    assert bound[Capacity].devices.woken_devices.places[third.device] == waits_at + 1


def test_before_roll_calls_are_in_force_no_device_returns(chain: MarketChain) -> None:
    """Every device may work then, so no sleeping unit waits for one. A return would only spend the block's budget."""
    proved(chain, chain.validators[0])
    assert not chain.now()[Capacity].is_enforced.get()
    assert not list(chain.now()[Capacity].returning.waiting.items())


def test_a_device_that_has_proven_too_little_cannot_bid(chain: MarketChain) -> None:
    alice, bob = chain.validators[:2]
    proved(chain, alice)
    over(chain)
    chain.block(signed(CUSTOMER.stash, TrainingMarket.submit(order=an_order())))
    task = task_id_of(GENESIS_HASH, CUSTOMER.stash, 0)
    bids = [TrainingMarket.commit_bid(task=task, device=one.device, commitment=bytes(32)) for one in (alice, bob)]
    chain.block(refused(bob.provider, bids[1], NotEligible), signed(alice.provider, bids[0]))


def test_without_roll_calls_every_device_works_at_once(chain: MarketChain) -> None:
    bob = chain.validators[1]
    called(chain)
    over(chain)
    assert not chain.now()[Capacity].has_proven(bob.device, DeviceClass.CPU)
    planned(chain)
    chain.block(changed(Capacity.roll_calls_enabled, 0))
    chain.block()
    assert chain.now()[Capacity].has_proven(bob.device, DeviceClass.CPU)
    count = len(chain.happened(ev.RollCalled))
    chain.blocks(2 * PERIOD)
    assert len(chain.happened(ev.RollCalled)) == count
    chain.block(changed(Capacity.roll_calls_enabled, 1))
    assert chain.now()[Capacity].has_proven(bob.device, DeviceClass.CPU)
    called(chain)
    over(chain)
    assert not chain.now()[Capacity].has_proven(bob.device, DeviceClass.CPU)


def test_by_default_there_are_no_roll_calls() -> None:
    chain = MarketChain(named_keys(4), constants={"Capacity.period": PERIOD})
    chain.blocks(2 * PERIOD)
    assert not chain.happened(ev.RollCalled)
    assert chain.now()[Capacity].has_proven(chain.validators[0].device, DeviceClass.DATACENTER)
