"""What may be bought: only what this program can tell a right answer of."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from gpu_tasks.client.offers.listing import ServiceError, form_of, require_judges, require_owners, usual_price
from gpu_tasks.data import market_reads
from gpu_tasks.market.capacity.capacity import Capacity
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.devices.records import Device, DeviceClass
from gpu_tasks.market.inference import money
from gpu_tasks.market.inference.gpu_tasks_api import DeviceStatus, InputReader
from gpu_tasks.market.inference.rules import DEFAULT_RULES
from gpu_tasks.market.inference.services import Offer, Service, ServiceTerms
from gpu_tasks.workloads.registry import FORMS
from runtime.encoding.types import GRAINS_PER_OGPU
from runtime.frame.runtime import Runtime
from runtime.pallets.balances import Balances
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.pallets.system import AccountData, AccountInfo, System
from simulation.chains.market_chain import VERSION

OWNER = b"o" * 32


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_a_service_with_another_model_than_the_published_one_is_not_bought(form: object) -> None:
    known = next(each for each in FORMS if each is form)
    terms = ServiceTerms(b"cheap", known.workload_id, known.model_id, 1, 2, 1, 30, 64)
    assert form_of(3, Service(OWNER, terms, 0)) is known
    foreign = Service(OWNER, replace(terms, model=b"?" * 32), 0)
    with pytest.raises(ServiceError, match=r"service 3 computes .* with the model 0x3f3f3f3f3f3f3f3f"):
        form_of(3, foreign)


OWNERS = [bytes([letter]) * 32 for letter in b"123456"]


FREE = 100 * GRAINS_PER_OGPU
POOR = money.judge_seat(DEFAULT_RULES, GRAINS_PER_OGPU) + Balances.existential_deposit.default - 1


def buying(
    monkeypatch: pytest.MonkeyPatch, offering: int, in_office: int, own: bytes = b"c" * 32, poor: tuple[bytes, ...] = ()
) -> Any:
    """A client of a chain where so many owners offer service 0, the first of whom are in office.

    The poor lack a grain of what a seat at a price of 1 oGPU takes.
    """

    async def devices(*_: object) -> list[DeviceStatus]:
        return [
            DeviceStatus(owner, Device(owner, DeviceClass.CPU, bytes(32), 1, 5, changed_at=5), ((0, Offer(1, 5)),))
            for owner in OWNERS[:offering]
        ]

    async def readers(*_: object) -> list[InputReader]:
        return [InputReader(owner, bytes(32), 5) for owner in OWNERS]

    async def stash(*_: object) -> bytes:
        return own

    class Client:
        async def finalized(self) -> bytes:
            return b"f" * 32

        async def height(self, _block: bytes) -> int:
            return 10

        runtime = Runtime((System, Balances), VERSION, {})

        async def read(self, item: object, at: bytes) -> Any:
            assert at == b"f" * 32
            if item is TrustStake.seats:
                return [SimpleNamespace(stash=owner, weight=10) for owner in OWNERS[:in_office]]
            if item is Capacity.current:
                return None  # no roll call yet
            parameters = (*Courts.parameters.values(), *Capacity.parameters.values())
            return next(each.default for each in parameters if each.item is item)

        async def read_many(self, item: object, keys: list[bytes], at: bytes) -> list[AccountInfo]:
            assert (item, at) == (System.account, b"f" * 32)
            return [AccountInfo(data=AccountData(free=POOR if key in poor else FREE)) for key in keys]

    monkeypatch.setattr(market_reads, "devices_for", devices)
    monkeypatch.setattr(market_reads, "readers", readers)
    monkeypatch.setattr(market_reads, "stash_of", stash)
    return Client()


@pytest.mark.parametrize(
    ("offering", "in_office", "racers", "why"),
    [
        (4, 4, 2, ""),
        (4, 4, 3, "needs 3 owners, and 2 of those that suit may race, for 2 validators in office must stay"),
        (5, 4, 3, ""),
        (
            5,
            4,
            4,
            "and 3 of those that suit may race, for 2 validators in office .* ask for fewer racers, or post with",
        ),
        (6, 6, 2, ""),
        (6, 6, 3, "and 2 .* may race, for 3 validators in office must stay to judge it, with two thirds of the stake:"),
        (3, 3, 3, ""),
        (2, 4, 3, "a unit with --racers 3 needs as many owners"),
    ],
)
def test_more_racers_than_leave_judges_are_not_asked_for(
    monkeypatch: pytest.MonkeyPatch, offering: int, in_office: int, racers: int, why: str
) -> None:
    client = buying(monkeypatch, offering, in_office)
    asked = require_owners(client, 0, b"c" * 32, racers=racers, rate_max=1)
    if not why:
        asyncio.run(asked)
        return
    with pytest.raises(ServiceError, match=why):
        asyncio.run(asked)


def test_a_class_that_too_few_have_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would wait until its price has risen half of its way."""
    client = buying(monkeypatch, 5, 4)
    asyncio.run(require_owners(client, 0, b"c" * 32, racers=2, rate_max=1, kind=DeviceClass.CPU))
    with pytest.raises(ServiceError, match=r"2 needs as many owners with a device of class consumer; .* offered by 0,"):
        asyncio.run(require_owners(client, 0, b"c" * 32, racers=2, rate_max=1, kind=DeviceClass.CONSUMER))


def test_what_the_chain_would_refuse_for_want_of_judges_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    asyncio.run(require_judges(buying(monkeypatch, 4, 4, own=OWNERS[0]), 0, b"c" * 32, GRAINS_PER_OGPU))
    client = buying(monkeypatch, 4, 4, own=OWNERS[0])
    two = [InputReader(owner, bytes(32), 5) for owner in OWNERS[:2]]

    async def readers(*_: object) -> list[InputReader]:
        return two

    monkeypatch.setattr(market_reads, "readers", readers)
    with pytest.raises(
        ServiceError, match=r"2 validators in office must stay to judge it, and 1 could, .*takes no unit"
    ):
        asyncio.run(require_judges(client, 0, b"c" * 32, GRAINS_PER_OGPU))


@pytest.mark.parametrize(
    ("in_office", "poor", "is_taken"),
    [(6, 0, True), (6, 2, True), (6, 3, False), (4, 1, True), (4, 2, False), (3, 3, True)],
)
def test_a_price_at_which_too_few_can_pay_for_their_seats_is_not_sent(
    monkeypatch: pytest.MonkeyPatch, in_office: int, poor: int, is_taken: bool
) -> None:
    """As the chain says at `post`: the poor lack one grain at this price, and have enough at a lower one."""
    client = buying(monkeypatch, 4, in_office, poor=tuple(OWNERS[:poor]))
    asyncio.run(require_judges(client, 0, b"c" * 32, GRAINS_PER_OGPU - 1))
    asked = require_judges(client, 0, b"c" * 32, GRAINS_PER_OGPU)
    if is_taken:
        asyncio.run(asked)
        return
    with pytest.raises(
        ServiceError, match=r"at 1 oGPU must hold 20\.37\d+ oGPU, .* takes --price 0\.99999999 or less now"
    ):
        asyncio.run(asked)


def test_where_a_price_is_too_high_for_all_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    client = buying(monkeypatch, 4, 4)
    with pytest.raises(ServiceError, match=r"too few judges could pay .* takes --price 4\.\d+ or less now"):
        asyncio.run(require_judges(client, 0, b"c" * 32, 1_000 * GRAINS_PER_OGPU))


def test_the_usual_price_is_what_half_of_the_others_can_answer_for(monkeypatch: pytest.MonkeyPatch) -> None:
    client, bonds = buying(monkeypatch, 0, 4, own=OWNERS[0]), {1: 10**12, 2: 4 * 10**9, 3: 3 * 10**9, 4: 5 * 10**9}

    def status(owner: int, bond: int, *, is_paused: bool = False) -> DeviceStatus:
        device = Device(OWNERS[owner], DeviceClass.CPU, bytes(32), bond, 5, changed_at=5, is_paused=is_paused)
        return DeviceStatus(OWNERS[owner], device, ((0, Offer(1, 5)),))

    found = [status(0, 1), *(status(owner, bond) for owner, bond in bonds.items()), status(5, 1, is_paused=True)]

    async def devices(*_: object) -> list[DeviceStatus]:
        return found

    monkeypatch.setattr(market_reads, "devices_for", devices)
    price = asyncio.run(usual_price(client, 0, b"c" * 32))
    assert money.collateral(DEFAULT_RULES, price) <= bonds[2] < money.collateral(DEFAULT_RULES, price + 1)
    found.clear()
    with pytest.raises(ServiceError, match="nobody else offers service 0 now"):
        asyncio.run(usual_price(client, 0, b"c" * 32))
