"""Who has proven too little at roll calls is told where offers, tasks and auctions are shown, and is no racer."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpu_tasks.client.offers.listing import ServiceError, require_owners
from gpu_tasks.market.capacity.capacity import Capacity
from gpu_tasks.market.capacity.proofs import CapacityProof, WorkShape
from gpu_tasks.market.capacity.roll_call import RollCall
from gpu_tasks.market.capacity.standing import NOT_ASKED, ProvenRates
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.training.tasks import TaskState
from gpu_tasks.provider.commands.auctions import unproven_text
from planted_state import chain_with
from planted_tasks import PlantedTask
from runtime.frame.runtime import Bound
from task_customer import ogpu
from wallet.client import ChainClient
from wallet_runner import answer

LEAST = 10
CALLED = RollCall(1, 1, 1, bytes(32))
"""It goes on: what was proven at the one before stands."""


class PlantedRates:
    """Roll calls are in force, and Alice's device has proven so much."""

    def __init__(self, rate: int, task: PlantedTask | None = None) -> None:
        self.rate = rate
        self.task = task

    def __call__(self, bound: Bound) -> None:
        """Put it there."""
        if self.task is not None:
            self.task(bound)
        bound.parameters.change(Capacity.roll_calls, 1)
        capacity = bound[Capacity]
        capacity.in_force.set(True)
        capacity.current.set(CALLED)
        (device,) = (name for name, record in bound[Devices].devices.items() if record is not None)
        proof = CapacityProof(bytes(32), WorkShape(256, 4096, 1), 1, self.rate, is_open=True)
        capacity.proofs[device, CALLED.number - 1] = proof


@pytest.mark.parametrize(("rate", "state"), [(LEAST - 1, "unproven"), (LEAST, "free")])
def test_an_offer_says_what_its_device_has_proven(tmp_path: Path, rate: int, state: str) -> None:
    with chain_with(tmp_path, PlantedRates(rate)) as url:
        (row,) = answer(ogpu(tmp_path, url, "search", "offers"))
        assert (row["state"], row["proven"]) == (state, rate)
        assert len(answer(ogpu(tmp_path, url, "search", "offers", "state=free"))) == (state == "free")
        assert len(answer(ogpu(tmp_path, url, "search", "offers", "state=unproven"))) == (state == "unproven")
        table = ogpu(tmp_path, url, "search", "offers", as_json=False).stdout
        assert ("unproven" in table) == (state == "unproven")
        (price,) = answer(ogpu(tmp_path, url, "price"))
        assert (price["offers"], price["free"]) == ((1, 1) if state == "free" else (0, 0))


@pytest.mark.parametrize("rate", [LEAST - 1, LEAST])
def test_who_has_proven_too_little_is_no_racer_of_a_unit(tmp_path: Path, rate: int) -> None:
    async def ask(url: str) -> None:
        async with await ChainClient.connect(url) as client:
            await require_owners(client, 0, bytes(32), racers=2, rate_max=10**8)

    with chain_with(tmp_path, PlantedRates(rate)) as url, pytest.raises(ServiceError) as raised:
        asyncio.run(ask(url))
    says = "by 0, and by 0 of them for 1 oGPU per thousand or less (1 more device has proven too little at a roll call)"
    assert (says in str(raised.value)) == (rate < LEAST)


@pytest.mark.parametrize("rate", [LEAST - 1, LEAST])
def test_a_task_says_which_of_its_devices_get_no_other_work(tmp_path: Path, rate: int) -> None:
    planted = PlantedTask(TaskState.RUNNING)
    with chain_with(tmp_path, PlantedRates(rate, planted)) as url:
        (slot,) = answer(ogpu(tmp_path, url, "describe", planted.name))["slots"]
        table = ogpu(tmp_path, url, "describe", planted.name, as_json=False).stdout
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
