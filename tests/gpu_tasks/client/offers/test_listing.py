"""Services for sale, the suitable classes of devices, and the numbers that a plan uses."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from error_codes import raises_code
from genesis.chain import runtime_of
from genesis.parameters import CONSENSUS
from genesis.presets import load_spec
from gpu_tasks.client.offers import listing
from gpu_tasks.client.offers.listing import (
    ANY,
    USUAL,
    ClassWish,
    ServiceError,
    Suiting,
    chosen,
    classes_for,
    fitting_classes,
    form_of,
    require_checkers,
    require_owners,
    unit_rules,
    usual_price,
)
from gpu_tasks.client.offers.outlook import auction_numbers, bidding_devices, slot_ms, standby_of
from gpu_tasks.client.units import posting
from gpu_tasks.client.units.file_plan import WISH, wish_of
from gpu_tasks.client.units.posting import AskedUnit, Sealer, Wish
from gpu_tasks.data import market_reads
from gpu_tasks.data.sealing import SealKey
from gpu_tasks.market.capacity.capacity import Capacity
from gpu_tasks.market.capacity.proofs import ProvenRate
from gpu_tasks.market.capacity.roll_call import RollCall
from gpu_tasks.market.capacity.standing import NOT_ASKED, ProvenRates
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import Device, DeviceClass, Provider
from gpu_tasks.market.draws import Spare
from gpu_tasks.market.inference import money
from gpu_tasks.market.inference.checkers_left import CheckersLeft
from gpu_tasks.market.inference.gpu_tasks_api import DeviceStatus, InputReader
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.rules import DEFAULT_RULES
from gpu_tasks.market.inference.services import Offer, Service, ServiceTerms
from gpu_tasks.market.training.rules import DEFAULT_RULES as DEFAULT_TASK_RULES
from gpu_tasks.market.training.rules import TaskRules
from gpu_tasks.market.training.tasks import TaskState
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.provider.commands.auctions import unproven_text
from gpu_tasks.tasks.plan import AuctionNumbers, TaskPlan
from gpu_tasks.workloads.model_forms import PACKAGE_FORMS
from planted_state import chain_with
from planted_tasks import PlantedTask
from runtime.cryptography.signatures import Scheme
from runtime.frame.api import Apis
from runtime.frame.runtime import Bound
from runtime.pallets.balances import Balances
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.pallets.system import System
from simulation.chains.market_chain import GENESIS_HASH, OGPU, MarketChain, named_keys
from state_node import StateNode
from task_chain import TaskChain, an_order, numbers_of
from task_customer import ogpu
from wallet.client import ChainClient
from wallet.keypair import Keypair
from wallet_runner import answer

# What may be bought: only what this program can tell a right answer of.


OWNER = b"o" * 32


@pytest.mark.parametrize("form", PACKAGE_FORMS, ids=lambda form: form.name)
def test_a_service_with_another_model_than_the_published_one_is_not_bought(form: object) -> None:
    known = next(each for each in PACKAGE_FORMS if each is form)
    terms = ServiceTerms(b"cheap", known.workload_id, known.model_id, 1, 2, 1, 30, 64)
    found = form_of(3, Service(OWNER, terms, 0))
    assert (found.name, found.model_id) == (known.name, known.model_id)
    foreign = Service(OWNER, replace(terms, model=b"?" * 32), 0)
    with pytest.raises(ServiceError, match=r"service 3 computes .* with the model 0x3f3f3f3f3f3f3f3f"):
        form_of(3, foreign)


OWNERS = [bytes([letter]) * 32 for letter in b"123456"]


SERVICE_TERMS = ServiceTerms(b"any", b"w" * 32, bytes(32), 1, 2, 1, 30, 64)


def buying(monkeypatch: pytest.MonkeyPatch, offering: int, in_office: int, own: bytes = b"c" * 32) -> Any:
    """Return a client of a chain with `offering` owners of service 0; the first `in_office` of them are validators."""

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

        async def read(self, item: object, at: bytes) -> Any:
            assert at == b"f" * 32
            if item is TrustStake.active_set:
                return [SimpleNamespace(stash=owner, weight=10) for owner in OWNERS[:in_office]]
            if item is Capacity.current:
                return None  # no roll call yet
            parameters = (
                *ResultClaims.parameters.values(),
                *InferenceMarket.parameters.values(),
                *Capacity.parameters.values(),
            )
            return next(each.default for each in parameters if each.item is item)

    monkeypatch.setattr(market_reads, "devices_for", devices)
    monkeypatch.setattr(market_reads, "readers", readers)
    monkeypatch.setattr(market_reads, "stash_of", stash)
    return Client()


@pytest.mark.parametrize(
    ("offering", "in_office", "racers", "why"),
    [
        (4, 4, 2, ""),
        (4, 4, 3, "needs 3 owners, and 2 suitable .* 2 validators"),
        (5, 4, 3, ""),
        (
            5,
            4,
            4,
            "and 3 suitable .* 2 validators .* ask for fewer racers, or post with",
        ),
        (6, 6, 2, ""),
        (6, 6, 3, "and 2 suitable .* 3 validators .* two thirds of the stake:"),
        (3, 3, 3, ""),
        (2, 4, 3, "a unit with --racers 3 needs as many owners"),
    ],
)
def test_more_racers_than_leave_checkers_are_not_asked_for(
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
    asyncio.run(require_owners(client, 0, b"c" * 32, racers=2, rate_max=1, device_class=DeviceClass.CPU))
    with pytest.raises(ServiceError, match=r"2 needs as many owners with a device of class consumer; .* offered by 0,"):
        asyncio.run(require_owners(client, 0, b"c" * 32, racers=2, rate_max=1, device_class=DeviceClass.CONSUMER))


def test_what_the_chain_would_refuse_for_want_of_checkers_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    asyncio.run(require_checkers(buying(monkeypatch, 4, 4, own=OWNERS[0]), 0, b"c" * 32))
    client = buying(monkeypatch, 4, 4, own=OWNERS[0])
    two = [InputReader(owner, bytes(32), 5) for owner in OWNERS[:2]]

    async def readers(*_: object) -> list[InputReader]:
        return two

    monkeypatch.setattr(market_reads, "readers", readers)
    with pytest.raises(ServiceError, match=r": 2 must stay .* and 1 could.*refuses your units"):
        asyncio.run(require_checkers(client, 0, b"c" * 32))


def test_the_usual_price_is_what_half_of_the_others_can_answer_for(monkeypatch: pytest.MonkeyPatch) -> None:
    client, bonds = buying(monkeypatch, 0, 4, own=OWNERS[0]), {1: 10**12, 2: 4 * 10**9, 3: 3 * 10**9, 4: 5 * 10**9}

    def status(owner: int, bond: int, *, is_paused: bool = False) -> DeviceStatus:
        device = Device(OWNERS[owner], DeviceClass.CPU, bytes(32), bond, 5, changed_at=5, is_paused=is_paused)
        return DeviceStatus(OWNERS[owner], device, ((0, Offer(1, 5)),))

    found = [status(0, 1), *(status(owner, bond) for owner, bond in bonds.items()), status(5, 1, is_paused=True)]

    async def devices(*_: object) -> list[DeviceStatus]:
        return found

    monkeypatch.setattr(market_reads, "devices_for", devices)
    terms = replace(SERVICE_TERMS, check_ppm=200_000)
    rules = replace(DEFAULT_RULES, check_ppm=240_000)
    prices = []
    for racers, requests in ((1, 1), (2, 1), (2, 40)):
        prices.append(asyncio.run(usual_price(client, 0, b"c" * 32, racers, terms, requests)))
        at, above = (money.collateral(rules, prices[-1] + more, racers, requests) for more in (0, 1))
        assert at <= bonds[2] < above
    assert prices[1] < prices[0] < prices[2], "a batch that is always checked needs less"
    found.clear()
    with raises_code(ServiceError, "no_offers"):
        asyncio.run(usual_price(client, 0, b"c" * 32, 1, terms, 1))


@pytest.mark.parametrize(("in_office", "rate"), [(3, 0), (4, 100_000)])
def test_the_rules_of_a_unit_are_those_that_its_post_would_have(
    monkeypatch: pytest.MonkeyPatch, in_office: int, rate: int
) -> None:
    client = buying(monkeypatch, 0, in_office)
    rules = asyncio.run(unit_rules(client, 200_000, b"f" * 32))
    assert rules == replace(DEFAULT_RULES, check_ppm=240_000, check_rate_ppm=rate)


# Of which class a unit's racers shall be: who fits, what chance says, and what the customer names.


CPU, CONSUMER, DATACENTER = DeviceClass
NOBODY = Spare(0, 0)


def device(owner: int, kind: DeviceClass, bond: int = 10) -> DeviceStatus:
    return DeviceStatus(bytes(32), Device(bytes([owner]) * 32, kind, bytes(32), bond, 1, 1), ())


def found(*devices: DeviceStatus, in_office: int = 0, spare: Spare = NOBODY) -> Suiting:
    """The first owners are in office, and weigh as much as their number."""
    stakes = {bytes([owner]) * 32: owner for owner in range(1, in_office + 1)}
    return Suiting(list(devices), CheckersLeft(2, {}, stakes), spare)


DEVICES = (
    device(1, CPU), device(2, CPU), device(2, CPU), device(3, CPU), device(4, CPU),
    device(5, CONSUMER), device(6, CONSUMER), device(7, CONSUMER, 50), device(7, CONSUMER),
    device(8, DATACENTER, 500), device(9, DATACENTER),
)  # fmt: skip


@pytest.mark.parametrize(
    ("racers", "classes"),
    [(1, {CPU: 50, CONSUMER: 80, DATACENTER: 510}), (2, {CPU: 50}), (3, {})],
    ids=["one", "two", "three"],
)
def test_a_class_fits_that_has_twice_as_many_owners_as_race(racers: int, classes: dict[DeviceClass, int]) -> None:
    """By owners: two devices of one owner never race for one unit."""
    assert fitting_classes(found(*DEVICES), racers) == classes


@pytest.mark.parametrize(
    ("in_office", "spare", "classes"),
    [
        (4, Spare(2, 9), {CPU: 50}),
        (4, Spare(1, 9), {}),
        (4, Spare(2, 1), {}),
        (4, Spare(-1, 9), {}),
        (2, Spare(-1, 0), {CPU: 50}),
    ],
    ids=["enough may race", "too few", "too heavy", "nobody", "none is in office"],
)
def test_a_class_does_not_fit_whose_owners_must_stay_to_check(
    in_office: int, spare: Spare, classes: dict[DeviceClass, int]
) -> None:
    assert fitting_classes(found(*DEVICES, in_office=in_office, spare=spare), 2) == classes


def test_many_tiny_devices_of_a_class_send_no_customers_there() -> None:
    """512 devices of a grain each, of eight accounts of one owner, beside four of others."""
    tiny = [device(10 + place % 8, DATACENTER, 1) for place in range(512)]
    others = [device(owner, CPU, 10_000) for owner in range(1, 5)]
    assert fitting_classes(found(*tiny, *others), 2) == {CPU: 40_000, DATACENTER: 512}


def test_each_class_is_chosen_as_often_as_it_has_bond() -> None:
    fitting = {CPU: 3, CONSUMER: 2, DATACENTER: 1}
    numbers, ends = iter(range(6)), []

    def below(end: int) -> int:
        ends.append(end)
        return next(numbers)

    assert [chosen(fitting, below) for _ in range(6)] == [CPU, CPU, CPU, CONSUMER, CONSUMER, DATACENTER]
    assert ends == [6] * 6


def test_where_no_class_has_enough_any_device_may_race() -> None:
    assert chosen({}, lambda _: 0) is None


@pytest.mark.parametrize(
    ("racers", "named", "kind"),
    [(2, USUAL, CPU), (1, USUAL, None), (2, ANY, None), (2, "datacenter", DATACENTER), (1, "consumer", CONSUMER)],
)
def test_what_is_named_counts_and_else_several_race_in_one_class(
    monkeypatch: pytest.MonkeyPatch, racers: int, named: str, kind: DeviceClass | None
) -> None:
    async def suiting(*_: Any, racers: int, rate_max: int, block_hash: bytes) -> Suiting:
        assert (racers, rate_max, block_hash) == (2, 70, b"block")
        return found(*DEVICES)

    monkeypatch.setattr(listing, "suiting", suiting)
    wish = ClassWish(named, 70)
    class_of = asyncio.run(classes_for(cast("Any", None), 0, bytes(32), racers, wish, b"block"))
    assert {class_of() for _ in range(9)} == {kind}


def test_a_class_is_not_in_what_names_a_posting_and_runs_of_before_had_none() -> None:
    """These words name the files of postings and runs: another one, and what broke off would be posted twice."""
    wish = Wish(0, 8, {}, 2, 70, device_class="datacenter")
    assert repr(wish) == "Wish(service=0, cost_max=8, options={}, racers=2, rate_max=70, batch=1)"
    before = {"service": 0, "cost_max": 8, "options": {}, "racers": 2, "rate_max": 70, "batch": 1}
    assert wish_of({WISH: json.dumps(before)}) == replace(wish, device_class=USUAL)
    assert wish_of({WISH: json.dumps(asdict(wish))}) == wish


def test_who_sells_is_told_the_class_that_is_wished_for_and_what_is_paid() -> None:
    assert Wish(4, 8, {}, 2, 70, device_class="cpu").classes == ClassWish("cpu", 70)


def test_each_unit_has_a_class_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a file of many, all would go to one class, and the others would stand still."""
    key, wish, at = Keypair.from_seed(Scheme.ED25519, b"k" * 32), ClassWish(USUAL, 70), b"f" * 32

    class Chain:
        async def finalized(self) -> bytes:
            return at

        async def height(self, _: bytes) -> int:
            return 7

    class Stores:
        async def put(self, *_: object) -> None:
            pass

    async def readers(*_: object) -> list[InputReader]:
        return [InputReader(bytes(32), SealKey.of(key).public, 1)]

    async def providers(*_: object) -> dict[bytes, Provider]:
        return {}

    async def classes(*asked: object) -> Callable[[], DeviceClass]:
        assert asked[1:] == (0, key.account, 2, wish, at)
        return iter(DeviceClass).__next__

    monkeypatch.setattr(market_reads, "readers", readers)
    monkeypatch.setattr(market_reads, "providers", providers)
    monkeypatch.setattr(posting, "classes_for", classes)
    who: Any = (Chain(), Stores(), key, 0, 2, wish)
    terms = asyncio.run(Sealer(*who).terms([AskedUnit.of(b"r", 1, 0, 8, 70)] * 3, lambda: None))
    assert sorted(unit.device_class for unit in terms if unit.device_class is not None) == list(DeviceClass)


# Who has proven too little at roll calls is told where offers, tasks and auctions are shown, and is no racer.


LEAST = 10
CALLED = RollCall(1, 1, 1, bytes(32))
"""The roll call in progress. The rates proven in the roll call before it count."""


class PlantedRates:
    """Roll calls are in force, and Alice's device has proven so much."""

    def __init__(self, rate: int, task: PlantedTask | None = None) -> None:
        self.rate = rate
        self.task = task

    def __call__(self, bound: Bound) -> None:
        """Put it there."""
        if self.task is not None:
            self.task(bound)
        bound.parameters.change(Capacity.roll_calls_enabled, 1)
        capacity = bound[Capacity]
        capacity.is_enforced.set(True)
        capacity.current.set(CALLED)
        (device,) = (name for name, record in bound[Devices].devices.items() if record is not None)
        capacity.proofs[device] = ProvenRate(CALLED.number - 1, self.rate)


@pytest.mark.parametrize(("rate", "state"), [(LEAST - 1, "unproven"), (LEAST, "free")])
def test_an_offer_says_what_its_device_has_proven(tmp_path: Path, rate: int, state: str) -> None:
    with chain_with(tmp_path, PlantedRates(rate)) as url:
        (row,) = answer(ogpu(tmp_path, url, "offer", "search"))
        assert (row["state"], row["proven"]) == (state, rate)
        assert len(answer(ogpu(tmp_path, url, "offer", "search", "state=free"))) == (state == "free")
        assert len(answer(ogpu(tmp_path, url, "offer", "search", "state=unproven"))) == (state == "unproven")
        table = ogpu(tmp_path, url, "offer", "search", as_json=False).stdout
        assert ("unproven" in table) == (state == "unproven")
        (price,) = answer(ogpu(tmp_path, url, "offer", "price"))
        assert (price["offers"], price["free"]) == ((1, 1) if state == "free" else (0, 0))


@pytest.mark.parametrize("rate", [LEAST - 1, LEAST])
def test_who_has_proven_too_little_is_no_racer_of_a_unit(tmp_path: Path, rate: int) -> None:
    async def ask(url: str) -> None:
        async with await ChainClient.connect(url) as client:
            await require_owners(client, 0, bytes(32), racers=2, rate_max=10**8)

    with chain_with(tmp_path, PlantedRates(rate)) as url, pytest.raises(ServiceError) as raised:
        asyncio.run(ask(url))
    says = "(1 more device has not proven enough capacity at a roll call)"
    assert (says in str(raised.value)) == (rate < LEAST)


@pytest.mark.parametrize("rate", [LEAST - 1, LEAST])
def test_a_task_says_which_of_its_devices_get_no_other_work(tmp_path: Path, rate: int) -> None:
    planted = PlantedTask(TaskState.RUNNING)
    with chain_with(tmp_path, PlantedRates(rate, planted)) as url:
        (slot,) = answer(ogpu(tmp_path, url, "task", "show", planted.name))["slots"]
        table = ogpu(tmp_path, url, "task", "show", planted.name, as_json=False).stdout
    assert (slot["why_no_work"] is None) == (rate >= LEAST)
    assert rate >= LEAST or f"has proven {rate} of the {LEAST} thousand million" in slot["why_no_work"]
    assert ("why no work" in table) == (rate < LEAST)


def test_a_task_is_let_pass_where_no_device_of_the_provider_may_bid() -> None:
    one, other = (SimpleNamespace(id=bytes([n]) * 32, device=SimpleNamespace(kind=DeviceClass.CPU)) for n in (1, 2))
    rates = ProvenRates(True, (LEAST, 1, 1), {one.id: LEAST - 1})
    own: list[Any] = [one, other]
    said = unproven_text(own, rates)
    assert "0x01010101..: it has proven 9 of the 10" in said
    assert "0x02020202..: it has proven 0 of the 10" in said
    assert unproven_text(own, ProvenRates(True, (LEAST, 1, 1), {other.id: LEAST})) == "", "one of them may"
    assert unproven_text(own, NOT_ASKED) == unproven_text([], rates) == ""


# The numbers that a plan goes by: the chain's where it sells tasks, else those that its market begins with.


SEATS = range(4)
"""An active set that is large enough for checks."""


def numbers(pallets: tuple[Any, ...], values: dict[Any, int]) -> AuctionNumbers:
    """Return the numbers that a client reads from a chain with these pallets and parameters."""

    async def read(item: Any, *, at: bytes) -> Any:
        assert at == bytes(32)
        return SEATS if item is TrustStake.active_set else values[item]

    client = SimpleNamespace(runtime=SimpleNamespace(pallets=pallets), read=read)
    return asyncio.run(auction_numbers(cast("ChainClient", client), bytes(32)))


def test_a_chain_that_sells_tasks_says_them() -> None:
    market = TaskChain(constants={"ResultClaims.check_fee_min": 5_000}).market
    values = {parameter.item: getattr(market, name) for name, parameter in TrainingMarket.parameters.items()}
    values[ResultClaims.check_fee_min.item] = 5_000
    assert numbers((System, TrainingMarket), values) == numbers_of(market)
    assert market.rules(an_order(segments=8)) != DEFAULT_TASK_RULES


def test_each_window_and_fee_is_its_own_number() -> None:
    values = {parameter.item: place for place, parameter in enumerate(TrainingMarket.parameters.values(), 1)}
    values |= {TrainingMarket.check_rate.item: 100_000, ResultClaims.check_fee_min.item: 77}
    places = {name: place for place, name in enumerate(TrainingMarket.parameters, 1)}
    found = numbers((System, TrainingMarket), values)
    names = ("commit_blocks", "reveal_blocks", "start_blocks", "task_deposit", "step_fee", "interval_blocks_max")
    read = (found.commit, found.reveal, found.start, found.deposit, found.step_fee, found.interval_max)
    assert read == tuple(places[name] for name in names)


def test_of_a_chain_that_sells_none_they_are_the_defaults() -> None:
    found = numbers((System,), {})
    assert (found.commit, found.reveal, found.start) == (12, 12, 10)
    assert isinstance(found.rules, TaskRules)
    assert found.rules.check_rate_ppm == TrainingMarket.check_rate.default
    assert found.rules.check_fee_min == ResultClaims.check_fee_min.default


def test_devices_are_as_the_chain_counts_them() -> None:
    """One state gives the devices' validity, the bond that each class needs, and the spendable money of each owner."""
    least = {"Devices.consumer_bond_min": 2 * OGPU, "Devices.datacenter_bond_min": 3 * OGPU}
    chain = MarketChain(named_keys(4), constants=least)
    first, second, banned = chain.validators[:3]
    devices = chain.now()[Devices]
    bonds = {DeviceClass.CPU: devices.cpu_bond_min, DeviceClass.CONSUMER: devices.consumer_bond_min}
    bonds[DeviceClass.DATACENTER] = devices.datacenter_bond_min
    assert len(set(bonds.values())) == 3

    def changed(bound: Bound) -> None:
        for keys, kind in ((first, DeviceClass.CONSUMER), (second, DeviceClass.DATACENTER)):
            known = bound[Devices].devices[keys.device]
            assert known is not None
            bound[Devices].devices[keys.device] = replace(known, kind=kind)
        bound[TrustStake].tombstones[banned.stash] = 1

    chain.block(changed)
    node = StateNode({chain.height: chain.state})
    client = ChainClient(node, Apis(chain.runtime, ()), GENESIS_HASH, "Development")
    found = {each.owner: each for each in asyncio.run(bidding_devices(client, chain.height.to_bytes(32, "big")))}
    assert len(found) == 4
    assert {each.bond_min for each in found.values()} == set(bonds.values())
    assert all(each.bond_min == bonds[each.kind] for each in found.values())
    assert [owner for owner, each in found.items() if not each.is_candidate] == [banned.stash]
    balances = chain.now()[Balances]
    assert all(each.spendable == balances.spendable_balance(owner) for owner, each in found.items())


def test_a_slot_is_as_long_as_the_chain_s_rules_say() -> None:
    spec = load_spec("dev")
    client = SimpleNamespace(runtime=runtime_of(spec))
    assert slot_ms(cast("ChainClient", client)) == CONSENSUS[spec.parameters].slot_ms


@pytest.mark.parametrize(
    ("is_of_replicas", "has_standby", "says"),
    [(True, False, "none: of copies most decide"), (False, True, "yes"), (False, False, "perhaps none")],
)
def test_nobody_is_said_to_stand_by_for_copies(is_of_replicas: bool, has_standby: bool, says: str) -> None:
    plan = SimpleNamespace(is_of_replicas=is_of_replicas, has_standby=has_standby)
    assert standby_of(cast(TaskPlan, plan)) == says
