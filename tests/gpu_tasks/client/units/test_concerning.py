"""Whose events are: of an account, of the stash that a key works for, of what one has posted."""

import asyncio
from typing import Any, cast

import pytest

from gpu_tasks.client.units import events
from gpu_tasks.client.units.events import EventFilter
from gpu_tasks.data import market_reads, training_reads
from gpu_tasks.market.training.events import StandbyReleased, TaskRunning
from gpu_tasks.market.training.tasks import Task
from priced_tasks import a_task
from wallet.client import ChainClient

KEY, STASH, OTHER, TASK = b"k" * 32, b"s" * 32, b"o" * 32, b"t" * 32
CLIENT = cast("ChainClient", None)


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> dict[bytes, Task]:
    """The tasks that the chain knows; the key is that of the stash."""
    found: dict[bytes, Task] = {}

    async def stash_of(_client: Any, account: bytes, _at: bytes) -> bytes | None:
        return STASH if account == KEY else None

    async def units(*_: Any) -> list[None]:
        return [None]

    async def task(_client: Any, name: bytes, _at: bytes) -> Task | None:
        return found.get(name)

    monkeypatch.setattr(market_reads, "stash_of", stash_of)
    monkeypatch.setattr(market_reads, "units", units)
    monkeypatch.setattr(training_reads, "task", task)
    monkeypatch.setattr(events, "sells_tasks", lambda _: True)
    return found


def wants(wanted: EventFilter, event: Any) -> bool:
    return asyncio.run(wanted.wants(CLIENT, event, bytes(32)))


@pytest.mark.usefixtures("known")
def test_what_names_the_stash_is_its_key_s_too() -> None:
    released = StandbyReleased(TASK, STASH)
    for account, is_wanted in ((KEY, True), (STASH, True), (OTHER, False)):
        assert wants(EventFilter(account), released) is is_wanted


def test_a_task_that_was_not_known_is_looked_up_again(known: dict[bytes, Task]) -> None:
    mine = EventFilter(OTHER)
    assert not wants(mine, TaskRunning(TASK))
    known[TASK] = a_task(customer=OTHER)
    assert wants(mine, TaskRunning(TASK))
    assert not wants(EventFilter(STASH), TaskRunning(TASK))
