"""Reasons why a unit waits."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.client.offers.listing import asks_of
from gpu_tasks.client.units.wait_reasons import (
    AWAITS_DRAW,
    MarketView,
    why_queued,
)
from gpu_tasks.market.devices.records import Device, DeviceClass
from gpu_tasks.market.inference import money
from gpu_tasks.market.inference.checkers_left import CheckersLeft
from gpu_tasks.market.inference.gpu_tasks_api import DeviceStatus
from gpu_tasks.market.inference.rules import DEFAULT_RULES
from gpu_tasks.market.inference.services import Offer, Service, ServiceTerms
from gpu_tasks.market.inference.units import Unit, UnitTerms

# Why a unit is not taken: each test of the draw, in the order of what a customer can act on.


OGPU = 10**8
CUSTOMER = b"c" * 32
OWNERS = [bytes([letter]) * 32 for letter in b"1234"]
FLOOR, MAXIMUM, RAMP = OGPU // 100, OGPU // 10, 100
SERVICE = Service(bytes(32), ServiceTerms(b"any", b"w" * 32, bytes(32), FLOOR, 10 * OGPU, RAMP, 30, 64), 0)
UNIT = Unit(
    0, CUSTOMER, UnitTerms(MAXIMUM, 2, bytes(32), bytes(32), 90, 1_000), MAXIMUM, MAXIMUM // 20, 0, posted_at=100,
    recorded_at=100,
)  # fmt: skip

COLLATERAL = money.collateral(DEFAULT_RULES, money.ramped_price(FLOOR, MAXIMUM, 10, RAMP), 2, 1)


def offered(owner: bytes, ask: int = FLOOR, **changed: Any) -> DeviceStatus:
    device = Device(owner, DeviceClass.CPU, bytes(32), 10 * OGPU, registered_at=5, changed_at=5)
    return DeviceStatus(owner, replace(device, **changed), ((0, Offer(ask, 5)),))


def view(*devices: DeviceStatus, **changed: Any) -> MarketView:
    known = MarketView(
        height=110,
        services={0: SERVICE},
        devices=devices,
        readers={0: dict.fromkeys(OWNERS, 5)},
        own={CUSTOMER: {CUSTOMER}},
        checkers=CheckersLeft(0, {}, {}),
    )
    return replace(known, **changed)


def checking(count: int, since: int = 5) -> CheckersLeft:
    """The first owners are in office, and two must stay; the last of them can read since a block."""
    return CheckersLeft(
        2, dict.fromkeys(OWNERS[:count], 5) | {OWNERS[count - 1]: since}, dict.fromkeys(OWNERS[:count], 1)
    )


def of_class(kind: DeviceClass, **changed: Any) -> Unit:
    return replace(UNIT, terms=replace(UNIT.terms, device_class=kind), **changed)


OUTSIDER = {0: dict.fromkeys([*OWNERS, b"outside" * 4], 5)}
TWO = (offered(OWNERS[0]), offered(OWNERS[1]))


@pytest.mark.parametrize(
    ("unit", "seen", "why"),
    [
        (UNIT, view(), "needs 2 owners, 0 offer the service"),
        (UNIT, view(offered(OWNERS[0]), offered(OWNERS[0])), "needs 2 owners, 1 offer"),
        (UNIT, view(*TWO[:1], offered(OWNERS[1], is_paused=True)), "needs 2 owners, 1 offer"),
        (UNIT, view(*TWO[:1], offered(CUSTOMER)), "needs 2 owners, 1 offer"),
        (UNIT, view(*TWO, own={CUSTOMER: {CUSTOMER, OWNERS[0]}}), "needs 2 owners, 1 offer"),
        (UNIT, view(*TWO[:1], replace(TWO[1], offers=((1, Offer(FLOOR, 5)),))), "needs 2 owners, 1 offer"),
        (
            replace(UNIT, declined_by=(OWNERS[1],)),
            view(*TWO),
            "needs 2 owners, 1 offers the service, 1 declined it as too large or unreadable",
        ),
        (
            UNIT,
            view(TWO[0], offered(OWNERS[1], ask=OGPU)),
            "the 2 lowest asks go up to 1 oGPU, and its maximum price is 0.1",
        ),
        (
            replace(UNIT, terms=replace(UNIT.terms, racers=1)),
            view(offered(OWNERS[0], ask=OGPU)),
            "the lowest ask is 1 oGPU, and its maximum price is 0.1",
        ),
        (replace(UNIT, terms=replace(UNIT.terms, racers=1)), view(), "needs 1 owner, 0 offer the service"),
        (
            UNIT,
            view(TWO[0], offered(OWNERS[1], ask=FLOOR * 5)),
            "the 2 lowest asks go up to 0.05 oGPU, and its rising price reaches that at block 145",
        ),
        (
            replace(UNIT, rules=replace(DEFAULT_RULES, queue_blocks=40)),
            view(TWO[0], offered(OWNERS[1], ask=FLOOR * 5)),
            "0.05 oGPU, and its price does not reach that in time. Refunded at block 140",
        ),
        (
            UNIT,
            view(TWO[0], offered(OWNERS[1], secured=10 * OGPU - 1)),
            "needs 2 owners with 0.91884 oGPU of a device's bond free, 1 has it",
        ),
        (UNIT, view(TWO[0], offered(OWNERS[1], secured=10 * OGPU - COLLATERAL)), AWAITS_DRAW),
        (
            UNIT,
            view(TWO[0], offered(OWNERS[1], secured=10 * OGPU - COLLATERAL + 1)),
            "oGPU of a device's bond free, 1 has it",
        ),
        (
            replace(UNIT, rules=replace(DEFAULT_RULES, queue_blocks=45)),
            view(TWO[0], offered(OWNERS[1], ask=FLOOR * 5)),
            "0.05 oGPU, and its price does not reach that in time. Refunded at block 145",
        ),
        (
            UNIT,
            view(*TWO, readers={0: {OWNERS[0]: 5, OWNERS[1]: 91}}),
            "needs 2 owners who can open its input, 1 can. Cancel the unit",
        ),
        (UNIT, view(*TWO, readers={0: {OWNERS[0]: 5}}), "who can open its input, 1 can"),
        (UNIT, view(TWO[0], offered(OWNERS[1], registered_at=91)), "who can open its input, 1 can"),
        (
            UNIT,
            view(*TWO, offered(OWNERS[2], assignment=b"u" * 32), offered(OWNERS[3]), TWO[0]),
            AWAITS_DRAW,
        ),
        (
            UNIT,
            view(TWO[0], offered(OWNERS[1], assignment=b"u" * 32), offered(OWNERS[2], assignment=b"u" * 32)),
            "busy: needs 2 free owners, 1 of 3 suitable ",
        ),
        (UNIT, view(*TWO, offered(OWNERS[2]), checkers=checking(4)), AWAITS_DRAW),
        (
            replace(UNIT, terms=replace(UNIT.terms, racers=3)),
            view(*TWO, offered(OWNERS[2]), checkers=checking(4)),
            (
                "too few validators would be left: needs 3 owners, and 2 suitable may race, because 2 validators must "
                "stay out of the race to check its result. Refunded at block 700"
            ),
        ),
        (
            replace(UNIT, terms=replace(UNIT.terms, racers=1)),
            view(TWO[0], checkers=checking(2)),
            "too few validators would be left: needs 1 owner, and 0 suitable may race",
        ),
        (
            replace(UNIT, terms=replace(UNIT.terms, racers=1)),
            view(TWO[0], checkers=checking(2, 91)),
            (
                "too few validators would be left: 2 must stay out of the race to check its result, and 1 could. The "
                "customer, decliners and later keys do not count. Cancel the unit"
            ),
        ),
        (
            replace(UNIT, declined_by=(OWNERS[3],)),
            view(*TWO, checkers=checking(4)),
            "too few validators would be left: needs 2 owners, and 1 suitable",
        ),
        (
            UNIT,
            view(*TWO, own={CUSTOMER: {CUSTOMER, OWNERS[3]}}, checkers=checking(4)),
            "too few validators would be left: needs 2 owners, and 1 suitable",
        ),
        (UNIT, view(TWO[0], offered(b"outside" * 4, 1), checkers=checking(3), readers=OUTSIDER), AWAITS_DRAW),
        (
            UNIT,
            view(*TWO, offered(OWNERS[2], assignment=b"u" * 32), checkers=checking(3), readers=OUTSIDER),
            "too few validators would be left: needs 2 owners, and 1 suitable",
        ),
        (
            UNIT,
            view(*TWO, offered(b"outside" * 4, assignment=b"u" * 32), checkers=checking(3), readers=OUTSIDER),
            "busy: needs 2 free owners, 1 of 2 suitable ",
        ),
        (
            of_class(DeviceClass.CONSUMER),
            view(*TWO, offered(OWNERS[2], kind=DeviceClass.CONSUMER)),
            (
                "needs 2 owners with a consumer device, 1 offers the service; from block 150 on, cpu or consumer or "
                "datacenter suffices. Refunded at block 700"
            ),
        ),
        (
            of_class(DeviceClass.DATACENTER, recorded_at=150),
            view(*TWO),
            "needs 2 owners with a consumer or datacenter device, 0 offer the service; from block 200 on, cpu or",
        ),
        (
            of_class(DeviceClass.CONSUMER, rules=replace(DEFAULT_RULES, queue_blocks=60)),
            view(*TWO),
            "0 offer the service; from block 115 on, cpu or consumer or datacenter suffices. Refunded at block 160",
        ),
        (
            of_class(DeviceClass.CONSUMER),
            view(*TWO, *(offered(owner, MAXIMUM, kind=DeviceClass.CONSUMER) for owner in OWNERS[2:])),
            "the 2 lowest asks go up to 0.1 oGPU",
        ),
        (of_class(DeviceClass.CPU), view(*TWO), AWAITS_DRAW),
        (of_class(DeviceClass.CONSUMER, recorded_at=200), view(*TWO), AWAITS_DRAW),
        (of_class(DeviceClass.CONSUMER), view(*TWO, services={}), AWAITS_DRAW),
        (UNIT, view(*TWO), f"{AWAITS_DRAW}. Refunded at block 700 "),
        (UNIT, view(*TWO, services={}), AWAITS_DRAW),
    ],
)
def test_what_keeps_a_unit_waiting(unit: Unit, seen: MarketView, why: str) -> None:
    assert why in why_queued(unit, seen)


@given(ask=st.integers(FLOOR + 1, MAXIMUM), age=st.integers(0, 99))
def test_the_block_that_is_named_is_the_first_whose_price_is_enough(ask: int, age: int) -> None:
    text = why_queued(UNIT, view(TWO[0], offered(OWNERS[1], ask=ask), height=UNIT.posted_at + age))
    if "rising price" not in text:
        assert money.ramped_price(FLOOR, MAXIMUM, age, RAMP) >= ask
        return
    reached = int(text.split("at block ")[1].split(".")[0]) - UNIT.posted_at
    assert (
        money.ramped_price(FLOOR, MAXIMUM, reached, RAMP) >= ask > money.ramped_price(FLOOR, MAXIMUM, reached - 1, RAMP)
    )


def test_an_owner_asks_what_its_cheapest_working_device_asks() -> None:
    devices = [
        offered(OWNERS[0], 7),
        offered(OWNERS[0], 5),
        offered(OWNERS[0], 3, is_paused=True),
        offered(OWNERS[1], 9),
    ]
    assert asks_of(devices, 0) == {OWNERS[0]: 5, OWNERS[1]: 9}
    assert asks_of(devices, 1) == {}
