"""Units that racers decline: the cost of a decline, the new draw of a place, and the rest of the race."""

from dataclasses import replace

import pytest

from gpu_tasks.market.claims.disputes import BARRED_MAX, EXCLUDED_MAX, PARTIES_MAX, DisputeQuestion
from gpu_tasks.market.claims.disputes_pallet import Disputes
from gpu_tasks.market.claims.findings import Verdict
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import DeviceClass, device_id_of
from gpu_tasks.market.draws import BEACON_DELAY, DrawOrder, FreeSlot, Given, Wanted
from gpu_tasks.market.inference import events as ev
from gpu_tasks.market.inference import inference
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.money import collateral_of
from gpu_tasks.market.inference.units import (
    DECLINERS_MAX,
    DECLINES_MAX,
    RACE_DECLINES_MAX,
    RACERS_MAX,
    Refund,
    Unit,
    UnitState,
)
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.types import Weight
from runtime.pallets.beacon import Beacon
from simulation.chains.market_chain import (
    CUSTOMER,
    DEVICE_BOND,
    OGPU,
    MarketChain,
    attach,
    attestation,
    commit,
    named_keys,
    per_thousand,
    refused,
    root_of,
    signed,
    terms,
)
from unit_cases import (
    LEASE,
    RIGHT,
    TO_THE_DRAW,
    WRONG,
    closes_at,
    commits,
    committed,
    concluded,
    decided,
    declines,
    is_awaited,
    matched,
    racers_of,
    racing,
    refilled,
    revealed,
    vote_for,
    wait_for_race,
)

# --------------------------------------------------------------------------------------------------------- who declines


def test_one_decline_of_a_lone_racer_draws_again_without_it_and_it_stands_for_that() -> None:
    chain = MarketChain(named_keys(9))
    unit_id, unit, (racer,) = matched(chain, racers=1)
    chain.block(signed(racer.provider, InferenceMarket.decline(unit=unit_id, attempt=1)))
    device = chain.device(racer)
    assert (device.assignment, device.secured) == (None, collateral_of(unit)), "free for other work"
    chain.block()
    assert chain.unit(unit_id).state is UnitState.QUEUED
    again, (other,) = wait_for_race(chain, unit_id, 1)
    assert other != racer
    assert again.attempt == 2
    assert not chain.happened(ev.RaceMissed)
    chain.block(commit(other, unit_id, again, RIGHT))
    chain.block(attach(attestation(other, unit_id, again, RIGHT)))
    assert chain.unit(unit_id).state is UnitState.CLAIMED
    device = chain.device(racer)
    assert device.secured == 0


def test_who_declined_and_raced_fit_into_a_claim_and_a_dispute() -> None:
    """A hook opens both: a list that did not fit would stop the chain."""
    assert DECLINES_MAX + RACERS_MAX <= EXCLUDED_MAX <= BARRED_MAX
    assert DECLINERS_MAX + 1 <= PARTIES_MAX
    assert RACERS_MAX + 1 <= PARTIES_MAX


# ------------------------------------------------------------------------------------------------------------ the draw


@pytest.mark.parametrize("place", [0, 1])
def test_a_declined_place_is_filled_and_two_that_agree_are_paid(place: int) -> None:
    chain = MarketChain(named_keys(9))
    unit_id, declined, substitute, racers = refilled(chain, place=place)
    unit, duties = chain.unit(unit_id), chain.now()[InferenceMarket].duties
    assert (unit.state, unit.attempt, unit.is_refilling) == (UnitState.RACING, 1, False)
    assert [decliner.owner for decliner in unit.decliners] == [declined.stash]
    (drawn,) = [event for event in chain.all_events if isinstance(event, ev.UnitMatched)]
    assert unit.price == drawn.price < unit.terms.price_max, "the price of the race, not that of the block"
    assert [(who.stash, unit_id) in duties for who in (declined, *racers)] == [False, True, True]
    assert chain.device(declined).secured == chain.device(substitute).secured == collateral_of(unit)
    device = chain.device(substitute)
    assert device.assignment == unit_id
    committed(chain, unit_id, racers)
    revealed(chain, unit_id, racers)
    concluded(chain, unit_id)
    (settled,) = chain.happened(ev.UnitSettled)
    assert (settled.winner, settled.witness) == (racers[0].stash, racers[1].stash), "the place in the race is the same"
    assert not any(chain.device(who).secured for who in (declined, *racers)), "until the claim is over"


def test_the_place_is_drawn_with_the_beacon_of_two_blocks_after_the_decline_and_when_that_is_final() -> None:
    for seed in range(6):  # beacons may draw different racers
        chain = MarketChain(named_keys(9), final_lag=3)
        chain.chance.seed(seed)
        unit_id, (declined, other) = racing(chain)
        chain.blocks(2)
        chain.block(declines(declined, unit_id))
        height, unit = chain.height, chain.unit(unit_id)
        assert (unit.recorded_at, unit.is_refilling) == (height, True)
        chain.blocks(BEACON_DELAY + 2)
        assert not chain.happened(ev.PlaceRefilled)
        beacon = chain.now()[Beacon].value_at(height + BEACON_DELAY)
        assert beacon is not None
        slots = [
            FreeSlot(keys.device, keys.stash, DEVICE_BOND, DEVICE_BOND, 0, 0, 0)
            for keys in chain.validators
            if keys not in (declined, other)
        ]
        order = DrawOrder(slots, seed=beacon, label=bytes(4), recorded_at=0, given_units=Given())
        (expected,) = order.draw(Wanted(1, 1, 0, 0, ()), 1)
        chain.block()
        assert chain.unit(unit_id).racers[0].owner == expected.owner


def test_a_filled_place_has_a_whole_commit_window_from_the_finality_of_its_draw() -> None:
    chain = MarketChain(named_keys(9), final_lag=2)
    unit_id, (declined, _) = racing(chain)
    chain.block(declines(declined, unit_id))
    chain.blocks(BEACON_DELAY + 2)
    drawn_at = chain.height
    assert chain.happened(ev.PlaceRefilled)
    assert closes_at(chain, unit_id) == 0, "the draw is not final, so no clock runs"
    chain.blocks(2)
    assert closes_at(chain, unit_id) == drawn_at + 2 + LEASE


def test_neither_the_customer_nor_who_races_or_declined_fills_the_place() -> None:
    """Nor with another device of theirs."""
    chain = MarketChain(named_keys(3))
    customer, *racers = chain.validators
    second = {who: device_id_of(who.stash, blake2_256(who.stash)) for who in racers}
    for who in racers:
        bring = Devices.register_device(kind=DeviceClass.CPU, uuid_hash=blake2_256(who.stash), bond=DEVICE_BOND)
        offer = InferenceMarket.offer(device=second[who], service=0, ask=per_thousand(OGPU // 100))
        chain.block(signed(who.stash, bring), signed(who.stash, offer))
    chain.blocks(2)
    asked = terms(sealed_at=chain.height - 1)
    chain.block(signed(customer.stash, InferenceMarket.post(service=0, units=(asked,))))
    chain.blocks(TO_THE_DRAW)
    ((unit_id, _),) = chain.now()[InferenceMarket].units.items()
    declined, other = racers_of(chain, unit_id)
    assert {declined, other} == set(racers)
    chain.block(declines(declined, unit_id))
    chain.blocks(TO_THE_DRAW)
    assert racers_of(chain, unit_id) == [declined, other]
    assert not is_awaited(chain, unit_id)


def test_a_place_is_not_filled_with_a_beacon_that_was_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Finality stood still for longer than the beacon remembers."""
    chain = MarketChain(named_keys(9))
    unit_id, (declined, other) = racing(chain)
    chain.block(declines(declined, unit_id))
    with monkeypatch.context() as dropped:
        dropped.setattr(Beacon, "value_at", lambda *_: None)
        chain.blocks(TO_THE_DRAW)
    chain.blocks(TO_THE_DRAW)
    assert (racers_of(chain, unit_id), chain.unit(unit_id).is_refilling) == ([declined, other], False)
    assert not chain.happened(ev.PlaceRefilled)


# ----------------------------------------------------------------------------------------------- when nothing is drawn


def test_only_one_place_of_a_race_is_filled() -> None:
    chain = MarketChain(named_keys(9))
    unit_id, first, substitute, (_, other) = refilled(chain)
    chain.block(declines(substitute, unit_id))
    assert not is_awaited(chain, unit_id)
    chain.block(declines(other, unit_id))
    chain.block()
    assert chain.unit(unit_id).state is UnitState.DISPUTED
    ((_, dispute),) = chain.now()[Disputes].disputes.items()
    assert dispute is not None
    assert dispute.terms.question is DisputeQuestion.INPUT
    assert set(dispute.terms.parties) == {CUSTOMER.stash, *(who.stash for who in (first, substitute, other))}


def test_a_race_whose_lease_is_over_gets_nobody_however_late_the_block_that_ends_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A block with too much work ends the race later. Until then no racer may begin it again."""
    chain = MarketChain(named_keys(9))
    unit_id, (first, second) = racing(chain)
    chain.block()  # the draw is final: the lease runs
    while closes_at(chain, unit_id) > chain.height + BEACON_DELAY + 1:
        chain.block()
    chain.block(declines(first, unit_id))
    with monkeypatch.context() as busy:
        busy.setattr(inference, "HEIGHT_BUDGET", Weight(0, 0))
        busy.setattr(inference, "DRAW_BUDGET", Weight(0, 0))
        chain.blocks(BEACON_DELAY + 1)
        busy.setattr(inference, "DRAW_BUDGET", inference.WAKE_BUDGET)
        chain.block()
        assert chain.unit(unit_id).state is UnitState.RACING
        assert not is_awaited(chain, unit_id)
    assert racers_of(chain, unit_id) == [first, second]
    chain.block()
    assert chain.unit(unit_id).state is UnitState.QUEUED


# ----------------------------------------------------------------------------------------------------------- the lease


# ------------------------------------------------------------------------------------------------ what is at stake then


def test_who_declined_is_free_once_another_racer_claims_a_result() -> None:
    chain = MarketChain(named_keys(9))
    unit_id, declined, _, (first, second) = refilled(chain)
    chain.block(commits(chain, first, unit_id, RIGHT), commits(chain, second, unit_id, WRONG))
    unit = chain.unit(unit_id)
    chain.block(attach(attestation(first, unit_id, unit, RIGHT), attestation(second, unit_id, unit, WRONG)))
    assert chain.device(declined).secured > 0
    ((_, dispute),) = chain.now()[Disputes].disputes.items()
    assert dispute is not None
    assert declined.stash in dispute.terms.excluded
    assert decided(chain, unit_id, vote_for(Verdict.RIGHT)).state is UnitState.CLAIMED
    assert [slash.provider for slash in chain.happened(ev.ProviderSlashed)] == [second.stash]
    assert not any(chain.device(who).secured for who in (declined, second))
    assert not chain.device(declined).is_paused
    assert chain.device(first).secured > 0


def test_who_declined_is_free_once_a_race_without_a_right_answer_is_drawn_again() -> None:
    chain = MarketChain(named_keys(12))
    unit_id, declined, _, (first, second) = refilled(chain)
    third = root_of(b"T" * 32)
    chain.block(commits(chain, first, unit_id, third), commits(chain, second, unit_id, WRONG))
    unit = chain.unit(unit_id)
    chain.block(attach(attestation(first, unit_id, unit, third), attestation(second, unit_id, unit, WRONG)))
    assert chain.device(declined).secured > 0
    assert decided(chain, unit_id, vote_for(Verdict.RIGHT)).state is UnitState.QUEUED, "it is drawn again"
    assert not chain.unit(unit_id).decliners
    assert not chain.device(declined).secured


def test_who_declined_and_was_replaced_is_out_of_the_race() -> None:
    chain = MarketChain(named_keys(9))
    unit_id, declined, _, _ = refilled(chain)
    late = InferenceMarket.commit_result(unit=unit_id, attempt=1, commitment=RIGHT)
    again = InferenceMarket.decline(unit=unit_id, attempt=1)
    chain.block(refused(declined.provider, late, ev.NotAssigned), refused(declined.provider, again, ev.NotAssigned))


@pytest.mark.parametrize("too_many", [0, 1])
def test_so_many_may_decline_that_a_filled_place_still_has_room(too_many: int) -> None:
    """A list that did not fit would make the hook fail, and stop the chain."""
    chain = MarketChain(named_keys(27))
    chain.blocks(3)
    (unit_id,) = chain.post(terms(racers=8))
    bound, strangers = chain.now(), DECLINES_MAX - RACE_DECLINES_MAX + too_many
    unit = bound[InferenceMarket].units[unit_id]
    assert unit is not None
    bound[InferenceMarket].units[unit_id] = with_decliners(unit, strangers)
    chain.state = chain.state.updated(bound.overlay.changes())
    chain.blocks(3)
    if too_many:
        assert [refund.refund for refund in chain.happened(ev.UnitRefunded)] == [Refund.EXPIRED]
        return
    first, *others = racers_of(chain, unit_id)
    chain.block(declines(first, unit_id))
    chain.blocks(TO_THE_DRAW)
    assert chain.happened(ev.PlaceRefilled)
    chain.block(*(declines(who, unit_id) for who in racers_of(chain, unit_id)))
    assert len(chain.unit(unit_id).declined_by) == DECLINES_MAX
    chain.block()
    assert chain.unit(unit_id).state is UnitState.DISPUTED
    ((_, dispute),) = chain.now()[Disputes].disputes.items()
    assert dispute is not None
    assert len(dispute.terms.parties) == 1 + 1 + len(others) + 1


def with_decliners(unit: Unit, count: int) -> Unit:
    """Write `count` declines of earlier races into the unit."""
    return replace(unit, declined_by=tuple(bytes([number]) * 32 for number in range(count)))
