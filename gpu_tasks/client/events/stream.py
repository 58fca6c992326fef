"""The market's events block after block, over connections that break: none is left out, and none told twice.

Always: blocks are final ones, in order; a block is told whole or, where the connection broke within it, begun anew
from the first event that was not told; blocks that the node cannot show any more are named.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpu_tasks.client.events.rows import ToldEvent, UntoldBlocks, accounts_of, is_of_market
from gpu_tasks.client.outlook import sells_tasks
from gpu_tasks.client.watch import moments
from gpu_tasks.data import market_reads, training_reads
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.training.tasks import slot_case
from gpu_tasks.market.training.terms import SLOTS_MAX
from wallet.client import ChainClient
from wallet.rpc import NodeUnreachableError, OddAnswerError, RpcError

BLOCKS_PROVED = 64
"""A node shows the states of so many final blocks."""
FIRST_WITH_EVENTS = 1
"""Nothing happens in block 0."""
RETRY_SECONDS = (0.5, 1.0, 2.0, 5.0, 10.0)

Connect = Callable[[], Awaitable[ChainClient]]


@dataclass
class EventStream:
    """Events from a block on; use once."""

    connect: Connect
    wanted: EventFilter
    first: int | None
    """Block; None: the newest `BLOCKS_PROVED`, or with `is_followed` what comes from now on."""
    is_followed: bool
    say: Callable[[str], None]
    _next: int = -1
    _told: int = 0
    """How many events of the block `_next` were told."""
    _failures: int = 0

    async def told(self) -> AsyncIterator[ToldEvent | UntoldBlocks]:
        """Up to the newest final block, or for ever. NodeUnreachableError if there never was a connection."""
        is_begun = False
        while True:
            try:
                async with await self.connect() as client:
                    is_begun = True
                    async for each in self._up_to_now(client):
                        yield each
                    if not self.is_followed:
                        return
                    async for _ in moments(client):
                        async for each in self._up_to_now(client):
                            yield each
            except (NodeUnreachableError, RpcError) as error:
                if not is_begun or (not self.is_followed and self._failures >= len(RETRY_SECONDS)):
                    raise
                await self._wait(error)

    @property
    def next_block(self) -> int:
        """Where to go on later: every block before it was told."""
        return self._next

    async def _wait(self, error: Exception) -> None:
        """Before the next connection: longer after each failure."""
        seconds = RETRY_SECONDS[min(self._failures, len(RETRY_SECONDS) - 1)]
        self._failures += 1
        where = f"; block {self._next} is next" if self._next >= 0 else ""
        self.say(f"the connection broke ({error}): trying again{where}")
        await asyncio.sleep(seconds)

    async def _up_to_now(self, client: ChainClient) -> AsyncIterator[ToldEvent | UntoldBlocks]:
        """What has become final since."""
        height = await client.height(await client.finalized())
        if self._next < 0:
            self._next = self._begin(height)
        while self._next <= height:
            oldest = max(0, height - BLOCKS_PROVED + 1)
            try:
                async for each in self._block(client, self._next):
                    yield each
            except (RpcError, OddAnswerError):
                height = await client.height(await client.finalized())  # more of them, while it was asked
                oldest = max(0, height - BLOCKS_PROVED + 1)
                if self._next >= oldest:
                    raise  # it has to be there: another try
                yield UntoldBlocks(self._next, oldest - 1)
                self._next = oldest - 1
            self._next, self._told, self._failures = self._next + 1, 0, 0

    def _begin(self, height: int) -> int:
        if self.first is not None:
            return max(FIRST_WITH_EVENTS, self.first)
        return height + 1 if self.is_followed else max(FIRST_WITH_EVENTS, height - BLOCKS_PROVED + 1)

    async def _block(self, client: ChainClient, number: int) -> AsyncIterator[ToldEvent]:
        """Those of a block that were not told; the others of them are counted."""
        block_id = await client.block_id(number)
        records = await client.events(block_id)
        for index, record in enumerate(records):
            if index < self._told:
                continue
            if is_of_market(record.event) and await self.wanted.wants(client, record.event, block_id):
                self._told = index + 1  # before it is handed over: it is never told again
                yield ToldEvent(number, block_id, index, record.event)


# The subject of an event is read in the state of its own block, so later blocks change nothing.
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
