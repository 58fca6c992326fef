"""The memory of an auditor of hundreds of batches: few inputs, for any wait."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gpu_tasks.provider.duties import checks
from gpu_tasks.provider.duties.checks import FETCHED_AT_ONCE, OPENED_AT_ONCE, CheckDuty
from gpu_tasks.provider.duties.parts import Parts

AUDITS = 60


class Desk:
    """An auditor's environment: stores that answer on command, and a device that never becomes free."""

    def __init__(self) -> None:
        self.fetching = self.computing = 0
        self.stores, self.device = asyncio.Event(), asyncio.Event()
        self.fetched: set[bytes] = set()

    async def open(self, unit: bytes, _posted: Any, _use: Any) -> Any:
        if unit not in self.fetched:
            self.fetching += 1
            await self.stores.wait()
            self.fetching -= 1
            self.fetched.add(unit)
        return SimpleNamespace(salt=bytes(32))

    async def computed(self, *_: Any) -> list[Any]:
        self.computing += 1
        await self.device.wait()
        return []

    def parts(self) -> Parts[Any]:
        async def found(_: Any) -> Any:
            return SimpleNamespace(unit=None)

        identity = SimpleNamespace(genesis=bytes(32), stash=bytes(32))
        chain, inputs = SimpleNamespace(final_unit=found), SimpleNamespace(open=self.open)
        return cast("Parts[Any]", SimpleNamespace(identity=identity, chain=chain, inputs=inputs, form_of=found))


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_few_inputs_are_in_memory_and_stores_that_are_silent_hold_few_up(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk()
    monkeypatch.setattr(checks, "computed_leaves", desk.computed)
    monkeypatch.setattr(checks, "proof_by", lambda *_: bytes(32))
    duty = CheckDuty(desk.parts())
    check = SimpleNamespace(shown=(), drawn=())
    statuses = [SimpleNamespace(unit=bytes([number]) * 32, check=check) for number in range(AUDITS)]
    tasks = [asyncio.create_task(duty._looked_at(cast("Any", status))) for status in statuses]
    await settle()
    assert (desk.fetching, desk.computing) == (FETCHED_AT_ONCE, 0)
    desk.stores.set()
    await settle()
    assert (len(desk.fetched), desk.computing) == (AUDITS, OPENED_AT_ONCE), "all are on the disk, few in memory"
    desk.device.set()
    assert len(await asyncio.gather(*tasks)) == AUDITS
