"""Whose events they are: those that name an account, and those about its units, tasks, cases and devices.

Always: what an event is about is read in the state of its own block, so it does not matter what has come since.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from gpu_tasks.client.events.telling import accounts_of
from gpu_tasks.client.planning import sells_tasks
from gpu_tasks.data import market_reads, training_reads
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.training.tasks import slot_case
from gpu_tasks.market.training.terms import SLOTS_MAX
from wallet.client import ChainClient

KNOWN_MAX = 4_096
"""Ids whose owners are remembered: a unit's customer never changes."""


@dataclass
class EventFilter:
    """Which events are wanted: of an account, about units and tasks, or all."""

    account: bytes | None = None
    about: Sequence[bytes] = ()
    """Units and tasks; their cases count."""
    _owners: dict[bytes, bytes | None] = field(default_factory=dict)

    async def wants(self, client: ChainClient, event: Any, at: bytes) -> bool:
        """Whether an event of the block `at` is one."""
        if self.about and not self._is_about(event):
            return False
        if self.account is None:
            return True
        own = await self._own(client, at)
        if accounts_of(event) & own:
            return True
        for kind in ("unit", "task", "case", "device"):
            name = getattr(event, kind, None)
            if isinstance(name, bytes) and await self._owner(client, kind, name, at) in own:
                return True
        return False

    def _is_about(self, event: Any) -> bool:
        names = {getattr(event, kind, None) for kind in ("unit", "task", "case")}
        return any(each in names or names & set(_cases(each)) for each in self.about)

    async def _own(self, client: ChainClient, at: bytes) -> set[bytes]:
        """The account, and the stash that it works for if it is a provider's key."""
        assert self.account is not None, "asked for one account"
        key = b"own" + self.account
        if key not in self._owners:
            self._owners[key] = await market_reads.stash_of(client, self.account, at)
        stash = self._owners[key]
        return {self.account} if stash is None else {self.account, stash}

    async def _owner(self, client: ChainClient, kind: str, name: bytes, at: bytes) -> bytes | None:
        """Who posted a unit or a task, or owns a device; None where the chain does not know it any more."""
        if name not in self._owners:
            found = await self._read_owner(client, kind, name, at)
            if found is None:
                return None
            while len(self._owners) >= KNOWN_MAX:
                del self._owners[next(iter(self._owners))]
            self._owners[name] = found
        return self._owners[name]

    async def _read_owner(self, client: ChainClient, kind: str, name: bytes, at: bytes) -> bytes | None:
        if kind == "device":
            device = await client.read(Devices.devices, name, at=at)
            return None if device is None else bytes(device.owner)
        (unit,) = await market_reads.units(client, [name], at)  # a case of a unit has its name
        if unit is not None:
            return unit.customer
        if not sells_tasks(client):
            return None
        task = await training_reads.task(client, name, at)
        if task is not None:
            return task.customer
        assert self.account is not None, "asked for one account"
        return self.account if kind == "case" and await self._has_case(client, name, at) else None

    async def _has_case(self, client: ChainClient, case: bytes, at: bytes) -> bool:
        """Whether it is about a slot of one of the account's tasks."""
        assert self.account is not None, "asked for one account"
        tasks = await training_reads.tasks_of(client, self.account, at)
        return any(case in _cases(name) for name, _ in tasks)


def _cases(task_id: bytes) -> list[bytes]:
    return [slot_case(task_id, place) for place in range(SLOTS_MAX)]
