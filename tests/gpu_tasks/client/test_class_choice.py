"""Of which class a unit's racers shall be: who fits, what chance says, and what the customer names."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest

from gpu_tasks.client import class_choice
from gpu_tasks.client.class_choice import ANY, USUAL, ClassWish, chosen, classes_for, fitting_classes
from gpu_tasks.market.api import DeviceStatus
from gpu_tasks.market.devices.records import Device, DeviceClass

CPU, CONSUMER, DATACENTER = DeviceClass


def device(owner: int, kind: DeviceClass, *, is_paused: bool = False) -> Device:
    return Device(bytes([owner]) * 32, kind, bytes(32), 10, 1, 1, is_paused=is_paused)


DEVICES = (
    device(1, CPU), device(2, CPU), device(2, CPU), device(3, CONSUMER), device(3, CONSUMER),
    device(4, DATACENTER), device(5, DATACENTER, is_paused=True),
)  # fmt: skip


@pytest.mark.parametrize(
    ("racers", "found"),
    [(1, {CPU: 3, CONSUMER: 2, DATACENTER: 1}), (2, {CPU: 3}), (3, {})],
    ids=["one", "two", "three"],
)
def test_a_class_fits_that_has_owners_enough(racers: int, found: dict[DeviceClass, int]) -> None:
    """By owners: two devices of one owner never race for one unit. Paused ones do not count."""
    assert fitting_classes(DEVICES, racers) == found


def test_each_class_is_chosen_as_often_as_it_has_devices() -> None:
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
    ("racers", "named", "found"),
    [(2, USUAL, CPU), (1, USUAL, None), (2, ANY, None), (2, "datacenter", DATACENTER), (1, "consumer", CONSUMER)],
)
def test_what_is_named_counts_and_else_several_race_in_one_class(
    monkeypatch: pytest.MonkeyPatch, racers: int, named: str, found: DeviceClass | None
) -> None:
    async def drawable(*_: Any, racers: int, rate_max: int, at: bytes) -> Sequence[DeviceStatus]:
        assert (racers, rate_max, at) == (2, 70, b"block")
        return [DeviceStatus(bytes(32), each, ()) for each in DEVICES]

    monkeypatch.setattr(class_choice, "drawable", drawable)
    wish = ClassWish(named, 70)
    class_of = asyncio.run(classes_for(cast("Any", None), 0, bytes(32), racers, wish, b"block"))
    assert {class_of() for _ in range(9)} == {found}
