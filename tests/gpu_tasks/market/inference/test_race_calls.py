"""The life of a unit on a chain of the real pallets: posted, drawn, committed, revealed, paid or refunded."""

import random
from dataclasses import replace

import pytest

from gpu_tasks.market.attestations.attestations import Attestations, NotAdmissible
from gpu_tasks.market.attestations.statement import SignedAttestation, signing_payload
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.events import NotOwner
from gpu_tasks.market.inference import events as ev
from gpu_tasks.market.inference.attested_units import NOT_RACER
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.numbers import DUTY_FEE
from gpu_tasks.market.inference.units import Refund, UnitState, unit_id_of
from runtime.encoding.types import Signed
from runtime.frame.call import Call
from runtime.frame.errors import InvalidBlock
from runtime.pallets.balances import Balances
from runtime.pallets.pots import PROVIDER_REWARDS, TREASURY
from runtime.pallets.system import System
from simulation.chains.market_chain import (
    CUSTOMER,
    GENESIS_HASH,
    OGPU,
    Keys,
    MarketChain,
    attach,
    attestation,
    commit,
    named_keys,
    per_thousand,
    refused,
    signed,
    terms,
)
from unit_cases import RIGHT, committed, concluded, matched, revealed, wait_for_race

MALLORY = Keys("mallory")


def free(chain: MarketChain, account: bytes) -> int:
    return chain.now()[Balances].free_balance(account)


def test_two_agree_and_are_paid() -> None:
    chain = MarketChain(named_keys(5))
    chain.blocks(3)
    before = free(chain, CUSTOMER.stash)
    (unit_id,) = chain.post(terms())
    unit, racers = wait_for_race(chain, unit_id)
    assert chain.height == 4 + 3, "recorded at 4, drawn with the beacon of 6 in the first block that knows it is final"
    committed(chain, unit_id, racers)
    earned = [free(chain, one.stash) for one in racers]
    revealed(chain, unit_id, racers)
    concluded(chain, unit_id)
    (settled,) = chain.happened(ev.UnitSettled)
    assert (settled.winner, settled.witness) == (racers[0].stash, racers[1].stash)
    price = OGPU // 100 + (OGPU - OGPU // 100) * 3 // 10
    assert settled.price == price
    assert free(chain, racers[0].stash) - earned[0] == price - price * 2 // 100
    witness = price * 30 // 100
    assert free(chain, racers[1].stash) - earned[1] == witness - witness * 2 // 100
    assert before - free(chain, CUSTOMER.stash) == settled.paid + 8 * DUTY_FEE + unit.deposit
    assert settled.paid == price + witness, "no request of this unit was drawn for a check"
    assert free(chain, TREASURY) == price // 100 + witness * 2 // 100 // 2
    assert chain.unit(unit_id).state is UnitState.SETTLED
    assert chain.unit(unit_id).output_root == RIGHT


def test_a_lone_racer_is_believed() -> None:
    chain = MarketChain(named_keys(1))
    unit_id, unit, (racer,) = matched(chain, racers=1)
    committed(chain, unit_id, [racer])
    chain.block(signed(racer.provider, Attestations.reveal(attestation=attestation(racer, unit_id, unit, RIGHT))))
    concluded(chain, unit_id)
    (settled,) = chain.happened(ev.UnitSettled)
    assert settled.witness is None
    assert settled.paid == settled.price


def test_what_a_racer_owes_is_free_where_it_succeeds() -> None:
    chain = MarketChain(named_keys(1))
    unit_id, _, (racer,) = matched(chain, racers=1)

    def pays_fee(call: Call) -> bool:
        """Return whether the call pays a fee in the next block, whose hooks have nothing to do."""
        bound = chain.now()
        bound[System].number.set(chain.height + 1)
        return bound.dispatch(call, Signed(racer.provider)).pays_fee

    assert not pays_fee(InferenceMarket.commit_result(unit=unit_id, attempt=1, commitment=b"c" * 32))
    assert not pays_fee(InferenceMarket.decline(unit=unit_id, attempt=1))
    assert not pays_fee(InferenceMarket.pass_unit(unit=unit_id, attempt=1))
    committed(chain, unit_id, [racer])
    chain.block()
    assert not pays_fee(Attestations.reveal(attestation=attestation(racer, unit_id, chain.unit(unit_id), RIGHT)))


def test_a_device_is_free_again_once_its_result_is_committed() -> None:
    chain = MarketChain(named_keys(2))
    unit_id, _, racers = matched(chain)
    devices = chain.now()[Devices].devices
    assert all(devices[one.device].assignment == unit_id for one in racers)  # type: ignore[union-attr]
    (second,) = chain.post(terms(sealed_at=3))
    chain.blocks(6)
    assert chain.unit(second).state is UnitState.QUEUED, "both devices work"
    committed(chain, unit_id, racers)
    chain.blocks(4)
    assert chain.unit(second).state is UnitState.RACING
    assert chain.unit(unit_id).state is UnitState.RACING, "its reveals are still out"


def test_commits_close_as_long_again_as_the_first_took_and_ten_blocks_after_it_and_shut_out_is_no_miss() -> None:
    chain = MarketChain(named_keys(2))
    unit_id, unit, (fast, slow) = matched(chain)
    chain.blocks(3)
    committed(chain, unit_id, [fast])
    assert unit.round is not None
    chain.blocks(chain.height - unit.round.drawn_at + 10)
    call = InferenceMarket.commit_result(unit=unit_id, attempt=1, commitment=b"c" * 32)
    chain.block(refused(slow.provider, call, ev.WindowClosed))
    revealed(chain, unit_id, [fast])
    (claimed,) = chain.happened(ev.ResultClaimed)
    assert (claimed.winner, claimed.witness) == (fast.stash, None)
    assert not chain.happened(ev.RaceMissed)
    assert not chain.device(slow).is_paused


def test_nobody_commits() -> None:
    chain = MarketChain(named_keys(2))
    unit_id, unit, racers = matched(chain)
    while not chain.happened(ev.UnitRequeued):
        chain.block()
    leased = unit.round.drawn_at + 1 if unit.round else 0
    assert chain.height == leased + 30 + 1
    assert {one.provider for one in chain.happened(ev.RaceMissed)} == {one.stash for one in racers}
    chain.blocks(5)
    assert chain.unit(unit_id).state is UnitState.QUEUED
    chain.block(*(signed(one.provider, Devices.resume(device=one.device)) for one in racers))
    resumed_at = chain.height
    again, _ = wait_for_race(chain, unit_id)
    assert again.attempt == 2
    assert again.recorded_at >= resumed_at, "who resumed after the recording was no candidate"


@pytest.mark.parametrize("kind", ["session", "vrf", "stash"])
def test_d9_an_attestation_names_the_provider_key_and_no_other_key_of_its_racer(kind: str) -> None:
    chain = MarketChain(named_keys(2))
    unit_id, unit, racers = matched(chain)
    committed(chain, unit_id, racers)
    chain.blocks(2)
    racer, unit = racers[0], chain.unit(unit_id)
    statement = attestation(racer, unit_id, unit, RIGHT, provider_key=racer.public(kind)).statement
    other = SignedAttestation(statement, racer.sign(kind, signing_payload(GENESIS_HASH, statement)))
    assert chain.now()[Attestations].problem(other) == NOT_RACER
    chain.block(refused(racer.provider, Attestations.reveal(attestation=other), NotAdmissible))
    with pytest.raises(InvalidBlock):
        attach(other)(chain.now())
    assert chain.now()[Attestations].problem(attestation(racer, unit_id, unit, RIGHT)) == ""


def test_a_late_reveal_makes_the_block_invalid_and_the_call_fail() -> None:
    chain = MarketChain(named_keys(2))
    unit_id, unit, racers = matched(chain)
    chain.block(commit(racers[0], unit_id, unit, RIGHT), commit(racers[1], unit_id, unit, RIGHT))
    chain.blocks(13)
    late = attestation(racers[0], unit_id, unit, RIGHT)
    chain.block(refused(racers[0].provider, Attestations.reveal(attestation=late), NotAdmissible))


def test_cancelled_while_queued_and_not_later() -> None:
    chain = MarketChain(named_keys(2))
    chain.blocks(3)
    first, second = chain.post(terms(), terms())
    chain.block(signed(CUSTOMER.stash, InferenceMarket.cancel(unit=first)))
    wait_for_race(chain, second)
    chain.block(refused(CUSTOMER.stash, InferenceMarket.cancel(unit=second), ev.NotQueued))
    (refunded,) = chain.happened(ev.UnitRefunded)
    assert (refunded.unit, refunded.refund, refunded.lost) == (first, Refund.CANCELLED, OGPU // 200)
    assert (chain.unit(first).refund, chain.unit(first).paid) == (Refund.CANCELLED, OGPU // 200)
    assert chain.unit(second).refund is None


def test_an_unmatched_unit_expires() -> None:
    chain = MarketChain(named_keys(1), constants={"InferenceMarket.queue_blocks": 20})
    chain.blocks(3)
    (unit_id,) = chain.post(terms(racers=2))
    chain.blocks(20)
    assert chain.unit(unit_id).state is UnitState.REFUNDED
    assert chain.height == 24


def test_a_provider_with_a_young_key_does_not_race() -> None:
    chain = MarketChain(named_keys(2))
    chain.blocks(5)
    alice = chain.validators[0]
    call = Devices.register_provider(seal_key=b"n" * 32, endpoint=b"http://new")
    chain.block(signed(alice.stash, call))
    (old,) = chain.post(terms(sealed_at=4))
    (new,) = chain.post(terms(sealed_at=6))
    chain.blocks(8)
    assert chain.unit(old).state is UnitState.QUEUED, "alice cannot open what was sealed before her key"
    assert chain.unit(new).state is UnitState.RACING


def test_finality_that_lags_delays_draws_and_leases_and_nothing_else() -> None:
    chain = MarketChain(named_keys(2), final_lag=9, chance=random.Random(5))
    chain.blocks(12)
    (unit_id,) = chain.post(terms(sealed_at=1))
    posted = chain.height
    unit, racers = wait_for_race(chain, unit_id)
    assert chain.height == posted + 2 + 9
    committed(chain, unit_id, racers)
    early = attestation(racers[0], unit_id, unit, RIGHT)
    chain.blocks(7)
    chain.block(refused(racers[0].provider, Attestations.reveal(attestation=early), NotAdmissible))
    revealed(chain, unit_id, racers)
    assert chain.happened(ev.ResultClaimed)
    assert replace(chain.unit(unit_id), escrow=0) != unit


def test_who_offers_anew_waits_for_a_beacon_that_it_does_not_know() -> None:
    chain = MarketChain(named_keys(2))
    chain.blocks(3)
    (unit_id,) = chain.post(terms())
    alice = chain.validators[0]
    chain.block(
        signed(alice.provider, InferenceMarket.offer(device=alice.device, service=0, ask=per_thousand(OGPU // 100)))
    )
    offered_at = chain.height
    unit, _ = wait_for_race(chain, unit_id)
    assert unit.recorded_at >= offered_at


def test_nobody_races_for_its_own_unit() -> None:
    chain = MarketChain(named_keys(2))
    alice = chain.validators[0]
    post = InferenceMarket.post(service=0, units=(terms(),))
    chain.block(signed(CUSTOMER.stash, Balances.transfer_keep_alive(dest=alice.provider, value=100 * OGPU)))
    chain.block(signed(alice.stash, post), signed(alice.provider, post))
    chain.blocks(12)
    for customer in (alice.stash, alice.provider):
        assert chain.unit(unit_id_of(GENESIS_HASH, customer, 0)).state is UnitState.QUEUED


def test_a_winner_gets_most_of_its_fee_back_from_the_emission() -> None:
    chain = MarketChain(named_keys(1), epoch_blocks=6)
    chain.blocks(6)
    unit_id, unit, (racer,) = matched(chain, racers=1)
    before, pot = free(chain, racer.stash), free(chain, PROVIDER_REWARDS)
    committed(chain, unit_id, [racer])
    revealed(chain, unit_id, [racer])
    while chain.unit(unit_id).state is UnitState.CLAIMED:
        pot = free(chain, PROVIDER_REWARDS)
        chain.block()
    (rebated,) = chain.happened(ev.ProviderRebated)
    fee = unit.price * 2 // 100
    assert (rebated.provider, rebated.amount) == (racer.stash, fee * 9 // 10)
    assert free(chain, racer.stash) - before == unit.price - fee + rebated.amount
    assert pot - free(chain, PROVIDER_REWARDS) == rebated.amount


# ------------------------------------------------------------------------------------------------- wrong signers


@pytest.mark.parametrize("key", ["stash", "provider", "session"])
def test_a_queued_unit_is_cancelled_by_its_customer_alone(key: str) -> None:
    chain = MarketChain(named_keys(2), [MALLORY])
    chain.blocks(3)
    (unit_id,) = chain.post(terms())
    cancel = InferenceMarket.cancel(unit=unit_id)
    others = [other.public(key) for other in (*chain.validators, MALLORY)]
    chain.block(*(refused(other, cancel, ev.NotCustomer) for other in others), signed(CUSTOMER.stash, cancel))
    assert chain.unit(unit_id).refund is Refund.CANCELLED


def test_a_device_is_offered_and_withdrawn_by_its_owner_alone() -> None:
    chain = MarketChain(named_keys(2), [MALLORY])
    owner, rival = chain.validators
    withdraw = InferenceMarket.withdraw_offer(device=owner.device, service=0)
    offer = InferenceMarket.offer(device=owner.device, service=0, ask=OGPU)
    others = (rival.stash, rival.provider, MALLORY.stash, CUSTOMER.stash, owner.public("session"))
    chain.block(*(refused(other, withdraw, NotOwner) for other in others))
    chain.block(signed(owner.provider, withdraw))
    chain.block(*(refused(other, offer, NotOwner) for other in others))
    chain.block(signed(owner.stash, offer))


def test_only_a_racer_commits_and_declines_once_in_its_attempt() -> None:
    chain = MarketChain(named_keys(3), [MALLORY])
    unit_id, _, racers = matched(chain)
    (outsider,) = [each for each in chain.validators if each not in racers]
    commit_call = InferenceMarket.commit_result(unit=unit_id, attempt=1, commitment=b"c" * 32)
    decline = InferenceMarket.decline(unit=unit_id, attempt=1)
    for other in (outsider.stash, outsider.provider, CUSTOMER.stash, MALLORY.provider, racers[0].public("session")):
        chain.block(refused(other, commit_call, ev.NotAssigned), refused(other, decline, ev.NotAssigned))
    early = InferenceMarket.commit_result(unit=unit_id, attempt=2, commitment=b"c" * 32)
    chain.block(
        refused(racers[0].provider, early, ev.NotAssigned),
        signed(racers[0].provider, commit_call),
        refused(racers[0].provider, commit_call, ev.AlreadyDone),
    )
