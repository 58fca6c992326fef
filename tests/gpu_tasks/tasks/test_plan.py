"""Plans: obstacles of devices, needs of a task. An auction among the possible bidders ends as planned."""

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auction_bids import SEED, terms
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.draws import BEACON_DELAY
from gpu_tasks.market.training.life.submitting import looks
from gpu_tasks.market.training.money import customer_bond, escrow
from gpu_tasks.market.training.orders import CheckedBy
from gpu_tasks.market.training.reputation import TrackRecord
from gpu_tasks.market.training.rules import DEFAULT_RULES
from gpu_tasks.market.training.selection import select
from gpu_tasks.market.training.terms import Bid, TaskTerms
from gpu_tasks.tasks.order import AUCTIONS
from gpu_tasks.tasks.plan import AuctionNumbers, BiddingDevice, Hindrance, TaskPlan, plan_of
from offered import name

ALL = tuple(DeviceClass)
TASK = terms(collateral_min=100)
NUMBERS = AuctionNumbers(DEFAULT_RULES, commit=4, reveal=5, start=6, deposit=70, step_fee=3, interval_max=150)


def device(number: int, owner: int | None = None, **changes: Any) -> BiddingDevice:
    """Return a device that could bid. Its owner can cover ten bids."""
    plain = BiddingDevice(
        name(number), name(number if owner is None else owner), DeviceClass.CPU, 10, 10,
        is_provider=True, is_candidate=True, is_paused=False, is_busy=False, spendable=1_000,
    )  # fmt: skip
    return replace(plain, **changes)


def planned(task: TaskTerms, *devices: BiddingDevice, classes: tuple[DeviceClass, ...] = ALL) -> TaskPlan:
    return plan_of(task, classes, NUMBERS, devices, frozenset({name(99)}))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, None),
        ({"owner": name(99)}, Hindrance.OWN),
        ({"kind": DeviceClass.DATACENTER}, Hindrance.CLASS),
        ({"is_provider": False}, Hindrance.NO_PROVIDER),
        ({"is_candidate": False}, Hindrance.NO_CANDIDATE),
        ({"bond": 9}, Hindrance.BOND),
        ({"is_paused": True, "is_busy": True}, Hindrance.PAUSED),
        ({"is_busy": True}, Hindrance.BUSY),
        ({"has_proven": False}, Hindrance.UNPROVEN),
        ({"spendable": 99}, Hindrance.FUNDS),
        ({"spendable": 100}, None),
        ({"owner": name(99), "kind": DeviceClass.DATACENTER, "is_paused": True}, Hindrance.OWN),
        ({"has_proven": False, "is_busy": True, "spendable": 99}, Hindrance.UNPROVEN),
    ],
)
def test_why_a_device_could_not_bid(changes: dict[str, Any], why: Hindrance | None) -> None:
    plan = planned(TASK, replace(device(1), **changes), classes=(DeviceClass.CPU, DeviceClass.CONSUMER))
    assert [each.hindrance for each in plan.devices] == [why]
    assert plan.is_served == (why is None)


def test_of_copies_one_place_is_sold_and_the_others_are_drawn_among_owners() -> None:
    def plan(*devices: BiddingDevice) -> TaskPlan:
        task = replace(TASK, slots=3)
        return plan_of(task, ALL, NUMBERS, devices, frozenset(), checked_by=CheckedBy.REPLICATED)

    assert not plan(*(device(number, owner=1) for number in range(3))).is_served
    found = plan(*(device(number) for number in range(3)))
    assert (found.is_served, found.has_rival, found.has_standby) == (True, True, False)
    assert found.prepaid == NUMBERS.step_fee * looks(AUCTIONS, 3)
    assert found.starts_from == 2 * (NUMBERS.commit + BEACON_DELAY) + NUMBERS.reveal + NUMBERS.start


def test_what_is_locked_has_names() -> None:
    plan = planned(replace(TASK, slots=2), *(device(number) for number in range(3)))
    locks = dict(plan.locks)
    assert sum(locks.values()) == plan.locked
    assert (locks["price"], locks["deposit"]) == (2 * TASK.price_max, NUMBERS.deposit)
    assert plan.most == plan.locked - locks["bond"] - locks["deposit"] + plan.prepaid


def test_an_owner_counts_for_as_many_devices_as_it_can_cover() -> None:
    devices = [device(number, owner=1, spendable=250) for number in range(3)]
    busy = device(9, owner=1, spendable=250, is_busy=True)
    plan = planned(TASK, busy, *devices, device(5))
    assert [each.hindrance for each in plan.devices] == [Hindrance.BUSY, None, None, Hindrance.FUNDS, None]


@pytest.mark.parametrize(
    ("slots", "devices", "expected"),
    [
        (1, 0, (0, False, False, False)),
        (1, 1, (1, True, False, False)),
        (1, 2, (2, True, True, True)),
        (2, 2, (2, True, False, False)),
        (2, 3, (3, True, True, True)),
        (3, 2, (2, False, False, False)),
    ],
)
def test_gangs(slots: int, devices: int, expected: tuple[int, bool, bool, bool]) -> None:
    kinds = (DeviceClass.CPU, DeviceClass.DATACENTER)
    plan = planned(replace(TASK, slots=slots), *(device(number, kind=kinds[number % 2]) for number in range(devices)))
    assert (plan.able, plan.is_served, plan.has_rival, plan.has_standby) == expected


def test_a_second_device_of_a_winner_stands_by_for_nobody() -> None:
    plan = planned(TASK, device(1, owner=1), device(2, owner=1))
    assert (plan.has_rival, plan.has_standby) == (True, False)


def test_cost_and_start() -> None:
    plan = planned(replace(TASK, slots=3, price_max=1_000_000), device(1))
    assert plan.prepaid == 3 * looks(AUCTIONS, 3)
    assert plan.most == 3 * escrow(DEFAULT_RULES, 1_000_000, items=1) + plan.prepaid
    assert plan.locked == 3 * (escrow(DEFAULT_RULES, 1_000_000, items=1) + customer_bond(DEFAULT_RULES, 1_000_000)) + 70
    award = 4 + 5 + BEACON_DELAY
    assert (plan.starts_from, plan.starts_by, plan.ends_by) == (award, award + 6, award + 6 + TASK.blocks_max)


def test_the_reason_counts_who_stands_where() -> None:
    devices = (device(1), device(2, is_busy=True), device(3, is_busy=True), device(4, kind=DeviceClass.DATACENTER))
    plan = planned(replace(TASK, slots=2), *devices, classes=(DeviceClass.CPU,))
    # Wanted, able and known devices, then the obstacles in their order
    assert re.findall("[0-9]+", plan.why_not) == ["2", "1", "4", "1", "2"]
    assert plan.why_not.endswith(f"1 {Hindrance.CLASS.value}, 2 {Hindrance.BUSY.value}")
    assert re.findall("[0-9]+", planned(TASK).why_not) == ["1", "0", "0"]


TASKS = st.builds(lambda slots: replace(TASK, slots=slots), st.integers(1, 4))
DEVICES = st.lists(
    st.tuples(
        st.integers(0, 5), st.sampled_from(DeviceClass), st.integers(0, 350), st.sampled_from(["", "busy", "paused"])
    ),
    max_size=9,
)


@given(TASKS, DEVICES, st.sets(st.sampled_from(DeviceClass), min_size=1), st.integers(1, 1_000))
def test_an_auction_among_those_who_could_bid_comes_out_as_planned(
    task: TaskTerms, drawn: list[tuple[int, DeviceClass, int, str]], classes: set[DeviceClass], price: int
) -> None:
    funds = {owner: spendable for owner, _, spendable, _ in drawn}
    devices = [
        device(
            number, owner=owner, kind=kind, spendable=funds[owner], is_busy=state == "busy", is_paused=state == "paused"
        )
        for number, (owner, kind, _, state) in enumerate(drawn)
    ]
    plan = planned(task, *devices, classes=tuple(sorted(classes)))
    able = [each.device for each in plan.devices if each.hindrance is None]
    bids = [
        Bid(found.owner, found.device, found.kind, 1 + number * price % 1_000, 1, task.collateral_min, TrackRecord())
        for number, found in enumerate(able)
    ]
    award = select(task, bids, SEED)
    assert bool(award.winners) == plan.is_served
    assert (award.clearing is not None) == plan.has_rival
    assert not plan.has_standby or award.standby is not None
    for owner, spendable in funds.items():
        assert sum(found.owner == name(owner) for found in able) * task.collateral_min <= spendable
    if not plan.is_served:  # nor with fewer of them
        assert not any(select(task, bids[:count], SEED).winners for count in range(len(bids)))
