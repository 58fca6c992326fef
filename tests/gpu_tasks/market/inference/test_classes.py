"""The classes of devices that may race: as functions, and on a chain with devices of several classes."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.market.claims.disputes_pallet import Disputes
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.inference.classes import ALL_CLASSES, age_of_widening, classes_at
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.rules import DEFAULT_RULES
from gpu_tasks.market.inference.services import Offer, ServiceTerms, commit_window_of, is_sound, pace_of
from gpu_tasks.market.inference.units import UnitState, UnitTerms
from runtime.frame.runtime import Bound
from simulation.chains.market_chain import (
    OGPU,
    MarketChain,
    attach,
    attestation,
    commit,
    named_keys,
    per_thousand,
    root_of,
    signed,
    terms,
)

CPU, CONSUMER, DATACENTER = DeviceClass
TERMS = ServiceTerms(b"x", bytes(32), bytes(32), 1, 10, 10, 30, 256, pace=10)
RAMP = 10
"""The ramp of the service on these chains."""
BEACON_AND_FINALITY = 3


@pytest.mark.parametrize(
    ("named", "age", "classes"),
    [
        (None, 0, ALL_CLASSES),
        (CPU, 0, (CPU,)),
        (CPU, 4, (CPU,)),
        (CPU, 5, (CPU, CONSUMER)),
        (CPU, 9, (CPU, CONSUMER)),
        (CPU, 10, ALL_CLASSES),
        (CONSUMER, 4, (CONSUMER,)),
        (CONSUMER, 5, ALL_CLASSES),
        (DATACENTER, 0, (DATACENTER,)),
        (DATACENTER, 5, (CONSUMER, DATACENTER)),
        (DATACENTER, 10, ALL_CLASSES),
    ],
)
def test_neighbours_may_race_as_the_price_rises(
    named: DeviceClass | None, age: int, classes: tuple[DeviceClass, ...]
) -> None:
    assert classes_at(named, age, RAMP) == classes


@given(st.sampled_from((None, *DeviceClass)), st.integers(0, 10_001), st.integers(0, 10_000))
def test_classes_only_become_more_and_who_waits_for_that_is_called_just_then(
    named: DeviceClass | None, age: int, ramp: int
) -> None:
    found = classes_at(named, age, ramp)
    assert found
    assert named is None or named in found
    wider = age_of_widening(named, age, ramp)
    if wider is None:
        assert found == ALL_CLASSES
    else:
        assert set(classes_at(named, wider, ramp)) > set(found)
        assert classes_at(named, wider - 1, ramp) == found


@pytest.mark.parametrize(
    ("paces", "found"),
    [
        ((10, 0, 0), [10, 10, 10]),
        ((10, 40, 0), [10, 40, 40]),
        ((10, 0, 90), [10, 10, 90]),
        ((10, 40, 90), [10, 40, 90]),
        ((0, 0, 0), [0, 0, 0]),
    ],
)
def test_a_class_without_a_pace_has_that_of_the_one_below(paces: tuple[int, int, int], found: list[int]) -> None:
    sold = replace(TERMS, pace=paces[0], consumer_pace=paces[1], datacenter_pace=paces[2])
    assert is_sound(sold)
    assert [pace_of(sold, kind) for kind in DeviceClass] == found
    work = 7 * 10**6
    assert [commit_window_of(sold, work, kind) for kind in DeviceClass] == [
        30 + (-(-3 * 7 // pace) if pace else 0) for pace in found
    ]


@pytest.mark.parametrize(
    "paces", [(10, 9, 0), (10, 0, 9), (10, 40, 39), (0, 40, 0), (0, 0, 40), (10, 10**9 + 1, 0), (10, 0, 10**9 + 1)]
)
def test_no_class_is_slower_than_the_one_below(paces: tuple[int, int, int]) -> None:
    assert not is_sound(replace(TERMS, pace=paces[0], consumer_pace=paces[1], datacenter_pace=paces[2]))


def mixed(count: int, faster: dict[int, DeviceClass], paces: tuple[int, int, int] = (10, 40, 90)) -> MarketChain:
    """Return a chain of cpu devices, except for some."""
    chain = MarketChain(named_keys(count))

    def set_classes(bound: Bound) -> None:
        devices, market = bound[Devices], bound[InferenceMarket]
        for place, kind in faster.items():
            device = chain.validators[place].device
            record = devices.devices[device]
            assert record is not None
            devices.devices[device] = replace(record, kind=kind)
        service = market.services[0]
        assert service is not None
        sold = replace(service.terms, pace=paces[0], consumer_pace=paces[1], datacenter_pace=paces[2])
        market.services[0] = replace(service, terms=sold)

    chain.block(set_classes)
    return chain


def of_class(kind: DeviceClass | None, racers: int = 2) -> UnitTerms:
    return replace(terms(OGPU, racers), device_class=kind)


def racers_of(chain: MarketChain, unit_id: bytes) -> set[bytes]:
    return {racer.owner for racer in chain.unit(unit_id).racers}


def stashes(chain: MarketChain, *places: int) -> set[bytes]:
    return {chain.validators[place].stash for place in places}


def test_a_unit_whose_class_has_too_few_owners_is_drawn_when_the_next_class_may_race() -> None:
    chain = mixed(9, {1: CONSUMER, 4: DATACENTER, 5: DATACENTER})
    (unit_id,) = chain.post(of_class(CONSUMER, 3))
    posted_at = chain.height
    while chain.unit(unit_id).state is UnitState.QUEUED and chain.height < posted_at + 50:
        chain.block()
    unit = chain.unit(unit_id)
    assert unit.state is UnitState.RACING
    assert unit.recorded_at == posted_at + RAMP // 2, "in the first block in which it was open to all"
    assert chain.height == unit.recorded_at + BEACON_AND_FINALITY


def test_whoever_leaves_once_the_beacon_is_known_changes_nobody_elses_class() -> None:
    """The unit sleeps instead of a draw from another class, and is recorded again for an unknown beacon."""
    chain = mixed(9, {1: CONSUMER, 2: CONSUMER})
    (unit_id,) = chain.post(of_class(CONSUMER, 2))
    chain.block()
    chain.block(signed(chain.validators[1].stash, Devices.pause(device=chain.validators[1].device)))
    chain.block()
    assert chain.unit(unit_id).asleep_since
    assert not chain.unit(unit_id).racers


@pytest.mark.parametrize(
    ("kind", "pace"), [(CPU, 10), (CONSUMER, 40), (DATACENTER, 90), (None, 10)], ids=["cpu", "consumer", "dc", "any"]
)
def test_a_lease_is_as_long_as_the_slowest_class_that_may_race_needs(kind: DeviceClass | None, pace: int) -> None:
    chain = mixed(9, dict.fromkeys(range(3), CONSUMER) | dict.fromkeys(range(3, 6), DATACENTER))
    (unit_id,) = chain.post(of_class(kind, 1))
    chain.blocks(BEACON_AND_FINALITY)
    unit = chain.unit(unit_id)
    assert unit.state is UnitState.RACING
    market = chain.now()[InferenceMarket]
    assert market.commit_window_of(unit) == 30 + -(-3 * 64 // pace)
    assert market.run_blocks_of(unit) == -(-64 // 10), "a checker may be of any class"


def test_a_place_is_filled_from_the_classes_of_its_race_whatever_the_price_has_become() -> None:
    """A racer with a short deadline has no rival of a class that needs a longer one."""
    chain = mixed(9, {1: CONSUMER, 2: CONSUMER, 3: CONSUMER})
    (unit_id,) = chain.post(of_class(CONSUMER, 2))
    chain.blocks(BEACON_AND_FINALITY)
    before = chain.unit(unit_id)
    lease = chain.now()[InferenceMarket].commit_window_of(before)
    chain.blocks(2 * RAMP)
    keys = chain.keys_of(before.racers[0].owner)
    chain.block(signed(keys.provider, InferenceMarket.decline(unit=unit_id, attempt=1)))
    chain.blocks(BEACON_AND_FINALITY + 1)
    unit = chain.unit(unit_id)
    assert racers_of(chain, unit_id) == stashes(chain, 1, 2, 3) - {keys.stash}
    assert chain.now()[InferenceMarket].commit_window_of(unit) == lease


def test_voters_of_any_class_have_time_enough_for_what_fast_devices_raced_for() -> None:
    chain = mixed(9, dict.fromkeys(range(3), DATACENTER))
    (unit_id,) = chain.post(of_class(DATACENTER))
    chain.blocks(BEACON_AND_FINALITY)
    racers = [chain.keys_of(racer.owner) for racer in chain.unit(unit_id).racers]
    roots = (root_of(b"right"), root_of(b"wrong"))
    pairs = list(zip(racers, roots, strict=True))
    chain.block(*(commit(keys, unit_id, chain.unit(unit_id), root) for keys, root in pairs))
    chain.blocks(2)
    chain.block(*(attach(attestation(keys, unit_id, chain.unit(unit_id), root)) for keys, root in pairs))
    ((_, dispute),) = chain.now()[Disputes].disputes.items()
    assert dispute is not None
    run_blocks = chain.now()[InferenceMarket].run_blocks_of(chain.unit(unit_id))
    assert (run_blocks, dispute.terms.run_blocks) == (-(-64 // 10), 2 * -(-64 // 10))


@pytest.mark.parametrize("lag", [4, RAMP + 2])
def test_finality_that_comes_late_makes_no_slower_class_race_nor_a_lease_longer(lag: int) -> None:
    """A proposer chooses the block that refers to a final one, and thus the block of a unit's draw."""
    chain = mixed(9, {1: CONSUMER, 2: CONSUMER, 3: CONSUMER})
    chain.final_lag = lag
    chain.blocks(lag)
    (unit_id,) = chain.post(of_class(CONSUMER, 2))
    chain.blocks(2 + lag)
    unit = chain.unit(unit_id)
    assert racers_of(chain, unit_id) < stashes(chain, 1, 2, 3)
    market = chain.now()[InferenceMarket]
    assert market.classes_of(unit) == (CONSUMER,)
    assert market.commit_window_of(unit) == 30 + -(-3 * 64 // 40)
    keys = chain.keys_of(unit.racers[0].owner)
    chain.block(signed(keys.provider, InferenceMarket.decline(unit=unit_id, attempt=1)))
    chain.blocks(2 + lag)
    assert racers_of(chain, unit_id) == stashes(chain, 1, 2, 3) - {keys.stash}


def test_however_slowly_a_price_rises_any_class_may_race_after_half_the_time_that_a_unit_waits() -> None:
    """Otherwise a unit for a class whose owners left would expire beside idle devices."""
    chain = mixed(9, {})
    chain.block(lambda bound: with_ramp(bound, 10_000))
    queue_blocks = DEFAULT_RULES.queue_blocks
    (unit_id,) = chain.post(of_class(DATACENTER, 2))
    posted_at = chain.height
    chain.blocks(queue_blocks // 2 - 1)
    assert chain.unit(unit_id).asleep_since
    chain.blocks(1 + BEACON_AND_FINALITY)
    assert chain.unit(unit_id).state is UnitState.RACING
    assert chain.unit(unit_id).recorded_at == posted_at + queue_blocks // 2


@pytest.mark.parametrize(("ask_at", "recorded", "places"), [(4, 3, (1, 2)), (9, RAMP // 2, range(9))])
def test_a_unit_wakes_for_what_comes_first_its_price_or_more_classes(
    ask_at: int, recorded: int, places: Sequence[int]
) -> None:
    chain = mixed(9, {1: CONSUMER, 2: CONSUMER})
    asked = per_thousand(OGPU // 100 + OGPU * 99 // 100 * ask_at // RAMP)

    def ask(bound: Bound) -> None:
        for place in (1, 2):
            bound[InferenceMarket].offers[0, chain.validators[place].device] = Offer(asked, 0)

    chain.block(ask)
    (unit_id,) = chain.post(of_class(CONSUMER, 2))
    posted_at = chain.height
    while chain.unit(unit_id).state is UnitState.QUEUED and chain.height < posted_at + 30:
        chain.block()
    assert chain.unit(unit_id).state is UnitState.RACING
    assert chain.unit(unit_id).recorded_at - posted_at == recorded
    assert racers_of(chain, unit_id) <= stashes(chain, *places)


def with_ramp(bound: Bound, ramp: int) -> None:
    service = bound[InferenceMarket].services[0]
    assert service is not None
    bound[InferenceMarket].services[0] = replace(service, terms=replace(service.terms, ramp=ramp))
