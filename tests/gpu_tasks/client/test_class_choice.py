"""Of which class a unit's racers shall be: who fits, what chance says, and what the customer names."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any, cast

import pytest

from gpu_tasks.client.offers import listing
from gpu_tasks.client.offers.listing import ANY, USUAL, ClassWish, Suiting, chosen, classes_for, fitting_classes
from gpu_tasks.client.units import posting
from gpu_tasks.client.units.file_plan import WISH, wish_of
from gpu_tasks.client.units.posting import AskedUnit, Sealer, Wish
from gpu_tasks.data import market_reads
from gpu_tasks.data.sealing import SealKey
from gpu_tasks.market.devices.records import Device, DeviceClass, Provider
from gpu_tasks.market.draws import Spare
from gpu_tasks.market.inference.gpu_tasks_api import DeviceStatus, InputReader
from gpu_tasks.market.inference.judges_left import JudgesLeft
from runtime.cryptography.signatures import Scheme
from wallet.keypair import Keypair

CPU, CONSUMER, DATACENTER = DeviceClass
NOBODY = Spare(0, 0)


def device(owner: int, kind: DeviceClass, bond: int = 10) -> DeviceStatus:
    return DeviceStatus(bytes(32), Device(bytes([owner]) * 32, kind, bytes(32), bond, 1, 1), ())


def found(*devices: DeviceStatus, in_office: int = 0, spare: Spare = NOBODY) -> Suiting:
    """The first owners are in office, and weigh as much as their number."""
    stakes = {bytes([owner]) * 32: owner for owner in range(1, in_office + 1)}
    return Suiting(list(devices), JudgesLeft(2, {}, stakes), spare)


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
def test_a_class_does_not_fit_whose_owners_must_stay_to_judge(
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
    async def suiting(*_: Any, racers: int, rate_max: int, at: bytes) -> Suiting:
        assert (racers, rate_max, at) == (2, 70, b"block")
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
