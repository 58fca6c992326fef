"""A place that was declined is drawn again, once, while nobody has committed: when, and by whom."""

import pytest

from gpu_tasks.market.courts.cases import ClaimKind
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import DeviceClass, device_id
from gpu_tasks.market.draws import BEACON_DELAY, DrawOrder, FreeSlot, Given, Wanted
from gpu_tasks.market.inference import events as ev
from gpu_tasks.market.inference import inference
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.money import collateral
from gpu_tasks.market.inference.slots import DRAW_WEIGHT, RACER_WEIGHT
from gpu_tasks.market.inference.units import UnitState
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.types import Weight
from runtime.pallets.beacon import Beacon
from simulation.chains.market_chain import (
    DEVICE_BOND,
    OGPU,
    MarketChain,
    attach,
    attestation,
    named_keys,
    per_thousand,
    signed,
    terms,
)
from unit_cases import (
    RIGHT,
    TO_THE_DRAW,
    closes_at,
    commits,
    declines,
    is_awaited,
    racers_of,
    racing,
    refilled,
    secured,
)

# ------------------------------------------------------------------------------------------------------------ the draw


@pytest.mark.parametrize("place", [0, 1])
def test_a_declined_place_is_filled_and_two_that_agree_are_paid(place: int) -> None:
    chain = MarketChain(named_keys(5))
    unit_id, declined, substitute, racers = refilled(chain, place=place)
    unit, duties = chain.unit(unit_id), chain.now()[InferenceMarket].duties
    assert (unit.state, unit.attempt, unit.is_refilling) == (UnitState.RACING, 1, False)
    assert [decliner.owner for decliner in unit.decliners] == [declined.stash]
    assert [(who.stash, unit_id) in duties for who in (declined, *racers)] == [False, True, True]
    assert secured(chain, declined) == secured(chain, substitute) == collateral(unit.rules, unit.price)
    device = chain.now()[Devices].devices[substitute.device]
    assert device is not None
    assert device.assignment == unit_id
    chain.block(*(commits(chain, who, unit_id) for who in racers))
    chain.block(attach(*(attestation(who, unit_id, unit, RIGHT) for who in racers)))
    (settled,) = chain.happened(ev.UnitSettled)
    assert (settled.winner, settled.witness) == (racers[0].stash, racers[1].stash), "the place in the race is the same"
    chain.blocks(7)
    assert not any(secured(chain, who) for who in (declined, *racers)), "until no audit can come any more"


def test_the_place_is_drawn_with_the_beacon_of_two_blocks_after_the_decline_and_when_that_is_final() -> None:
    for seed in range(6):  # one beacon may draw whom another would have drawn
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
        order = DrawOrder(slots, seed=beacon, label=bytes(4), recorded_at=0, given=Given())
        (expected,) = order.draw(Wanted(1, 1, 0, 0, ()), 1)
        chain.block()
        assert chain.unit(unit_id).racers[0].owner == expected.owner


def test_neither_the_customer_nor_who_races_or_declined_fills_the_place() -> None:
    """Nor with another device of theirs."""
    chain = MarketChain(named_keys(3))
    customer, *racers = chain.validators
    second = {who: device_id(who.stash, blake2_256(who.stash)) for who in racers}
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


def test_where_all_others_race_decline_or_ask_too_much_the_race_goes_on_as_it_is() -> None:
    chain = MarketChain(named_keys(3))
    unit_id, (declined, other) = racing(chain)
    (last,) = [keys for keys in chain.validators if keys not in (declined, other)]
    chain.block(
        declines(declined, unit_id),
        signed(last.provider, InferenceMarket.offer(device=last.device, service=0, ask=per_thousand(2 * OGPU))),
    )
    chain.blocks(TO_THE_DRAW)
    unit = chain.unit(unit_id)
    assert (racers_of(chain, unit_id), unit.decliners, unit.is_refilling) == ([declined, other], (), False)
    assert unit.round is not None
    assert unit.round.refilled_at == 0, "the lease is the one that it was"
    # nobody sleeps, and nothing is tried again when a slot comes that could take it
    chain.block(
        signed(last.provider, InferenceMarket.offer(device=last.device, service=0, ask=per_thousand(OGPU // 100)))
    )
    chain.blocks(8)
    assert not chain.happened(ev.PlaceRefilled)
    chain.block(commits(chain, other, unit_id))
    chain.block(attach(attestation(other, unit_id, unit, RIGHT)))
    assert chain.unit(unit_id).state is UnitState.JUDGING


def test_a_slot_that_changed_after_the_decline_is_no_candidate() -> None:
    """Who waits for a beacon with a paused slot could choose the units that it joins."""
    for is_later in (False, True):
        chain = MarketChain(named_keys(3))
        unit_id, (declined, other) = racing(chain)
        (last,) = [keys for keys in chain.validators if keys not in (declined, other)]
        chain.block(signed(last.provider, Devices.pause(device=last.device)))
        resume = signed(last.provider, Devices.resume(device=last.device))
        if not is_later:
            chain.block(declines(declined, unit_id), resume)
            chain.block()
        else:
            chain.block(declines(declined, unit_id))
            chain.block(resume)
        chain.blocks(TO_THE_DRAW)
        assert bool(chain.happened(ev.PlaceRefilled)) is not is_later


def test_the_place_is_filled_at_the_price_of_the_race() -> None:
    chain = MarketChain(named_keys(5))
    unit_id, (declined, _) = racing(chain)
    before = chain.unit(unit_id)
    assert before.price < before.terms.price_max, "it would be higher by now"
    chain.block(declines(declined, unit_id))
    chain.blocks(TO_THE_DRAW)
    unit = chain.unit(unit_id)
    assert chain.happened(ev.PlaceRefilled)
    assert unit.price == before.price
    assert {racer.collateral for racer in unit.racers} == {collateral(unit.rules, before.price)}


def test_a_place_is_not_filled_with_a_beacon_that_was_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Finality stood still for longer than the beacon remembers."""
    chain = MarketChain(named_keys(4))
    unit_id, (declined, other) = racing(chain)
    chain.block(declines(declined, unit_id))
    with monkeypatch.context() as dropped:
        dropped.setattr(Beacon, "value_at", lambda *_: None)
        chain.blocks(TO_THE_DRAW)
    chain.blocks(TO_THE_DRAW)
    assert (racers_of(chain, unit_id), chain.unit(unit_id).is_refilling) == ([declined, other], False)
    assert not chain.happened(ev.PlaceRefilled)


def test_the_draw_of_a_place_is_paid_for_by_the_budget_of_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    spent: list[Weight] = []
    hook = InferenceMarket.on_initialize

    def noted(market: InferenceMarket) -> Weight:
        spent.append(hook(market))
        return spent[-1]

    monkeypatch.setattr(InferenceMarket, "on_initialize", noted)
    chain = MarketChain(named_keys(5))
    unit_id, (declined, _) = racing(chain)
    chain.block(declines(declined, unit_id))
    chain.blocks(TO_THE_DRAW - 1)
    with monkeypatch.context() as busy:
        busy.setattr(inference, "DRAW_BUDGET", Weight(0, 0))
        chain.block()
        assert chain.unit(unit_id).is_refilling, "it waits until there is room"
        idle = spent[-1]
    chain.block()
    assert chain.happened(ev.PlaceRefilled)
    assert spent[-1].ref_time - idle.ref_time >= DRAW_WEIGHT.ref_time + RACER_WEIGHT.ref_time


# ----------------------------------------------------------------------------------------------- when nothing is drawn


def test_once_somebody_has_committed_no_place_is_filled() -> None:
    chain = MarketChain(named_keys(5))
    unit_id, (first, second, third) = racing(chain, racers=3)
    chain.block(commits(chain, first, unit_id))
    chain.block(declines(second, unit_id))
    assert not is_awaited(chain, unit_id)
    chain.blocks(TO_THE_DRAW)
    assert racers_of(chain, unit_id) == [first, second, third]


@pytest.mark.parametrize("blocks", range(TO_THE_DRAW))
def test_a_commit_before_the_draw_calls_it_off(blocks: int) -> None:
    """Also one in the block of the decline."""
    chain = MarketChain(named_keys(5))
    unit_id, (first, second, third) = racing(chain, racers=3)
    if blocks:
        chain.block(declines(second, unit_id))
        assert is_awaited(chain, unit_id)
        for _ in range(blocks - 1):
            chain.block()
        chain.block(commits(chain, first, unit_id))
    else:
        chain.block(declines(second, unit_id), commits(chain, first, unit_id))
    assert not is_awaited(chain, unit_id)
    assert not chain.unit(unit_id).is_refilling
    chain.blocks(TO_THE_DRAW)
    assert racers_of(chain, unit_id) == [first, second, third]


def test_a_second_decline_calls_it_off_and_brings_a_committee() -> None:
    chain = MarketChain(named_keys(9))
    unit_id, (first, second, third) = racing(chain, racers=3)
    chain.block(declines(first, unit_id))
    chain.block(declines(second, unit_id))
    assert not is_awaited(chain, unit_id)
    chain.blocks(TO_THE_DRAW)
    assert racers_of(chain, unit_id) == [first, second, third]
    chain.block(declines(third, unit_id))
    chain.block()
    assert chain.unit(unit_id).state is UnitState.JUDGING


def test_only_one_place_of_a_race_is_filled() -> None:
    chain = MarketChain(named_keys(9))
    unit_id, first, substitute, (_, other) = refilled(chain)
    chain.block(declines(substitute, unit_id))
    assert not is_awaited(chain, unit_id)
    chain.block(declines(other, unit_id))
    chain.block()
    assert chain.unit(unit_id).state is UnitState.JUDGING
    claims = chain.case(unit_id).terms.claims
    assert {(claim.account, claim.kind) for claim in claims} == {
        (who.stash, ClaimKind.DECLINED) for who in (first, substitute, other)
    }


def test_where_an_earlier_race_was_declined_no_place_is_filled() -> None:
    chain = MarketChain(named_keys(9))
    unit_id, first, substitute, _ = refilled(chain)
    while chain.unit(unit_id).state is UnitState.RACING:
        chain.block()
    assert chain.unit(unit_id).state is UnitState.QUEUED, "nobody answered"
    while chain.unit(unit_id).state is UnitState.QUEUED:
        chain.block()
    again = racers_of(chain, unit_id)
    assert first not in again
    chain.block(declines(again[0], unit_id, attempt=2))
    assert not is_awaited(chain, unit_id)
    chain.blocks(TO_THE_DRAW)
    assert racers_of(chain, unit_id) == again
    assert substitute not in again, "its device pauses: it missed"


def test_a_lone_racer_that_declines_is_replaced_by_a_race_anew() -> None:
    chain = MarketChain(named_keys(4))
    unit_id, (racer,) = racing(chain, racers=1)
    chain.block(declines(racer, unit_id))
    assert not is_awaited(chain, unit_id)
    chain.block()
    unit = chain.unit(unit_id)
    assert (unit.state, unit.recorded_at, is_awaited(chain, unit_id)) == (UnitState.QUEUED, chain.height, True)


def test_a_lease_that_ends_before_the_draw_calls_it_off_and_the_unit_is_drawn_once() -> None:
    chain = MarketChain(named_keys(9))
    unit_id, (first, second) = racing(chain)
    chain.block()  # the draw is final: the lease runs
    while closes_at(chain, unit_id) > chain.height + 2:
        chain.block()
    chain.block(declines(first, unit_id))
    assert is_awaited(chain, unit_id)
    chain.blocks(2)
    unit = chain.unit(unit_id)
    assert (unit.state, unit.recorded_at, unit.is_refilling) == (UnitState.QUEUED, chain.height, False)
    assert [missed.provider for missed in chain.happened(ev.RaceMissed)] == [second.stash]
    chain.blocks(BEACON_DELAY + 1)
    unit = chain.unit(unit_id)
    assert (unit.state, unit.attempt) == (UnitState.RACING, 2)
    assert not chain.happened(ev.PlaceRefilled)


def test_a_race_whose_lease_is_over_gets_nobody_however_late_the_block_that_ends_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A block that has too much to do ends it later: until then nobody may begin it anew."""
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
