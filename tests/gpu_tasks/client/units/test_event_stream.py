"""Events are told once each, in order, whatever becomes of the connection; and whose they are is known."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, Self, cast

import pytest

from gpu_tasks.client.units import events as following
from gpu_tasks.client.units.events import BLOCKS_PROVED, EventFilter, EventStream, ToldEvent, UntoldBlocks
from gpu_tasks.market.inference import events as units
from runtime.pallets.system import EventRecord
from wallet.client import ChainClient
from wallet.rpc import NodeUnreachableError, RpcError

CUSTOMER = b"c" * 32


@dataclass
class EventfulChain:
    """Three events in each block; a node that is lost when told so, and prunes."""

    height: int = 5
    lost_at: list[int] = field(default_factory=list)
    """At which of its questions for events the connection breaks, once each."""
    pruned_below: int = 0
    busy_once: set[int] = field(default_factory=set)
    asked: int = 0
    connections: int = 0

    genesis_hash = b"g" * 32
    runtime = None

    async def finalized(self) -> bytes:
        return self.height.to_bytes(32, "big")

    async def block_id(self, height: int) -> bytes:
        return height.to_bytes(32, "big")

    async def events(self, block: bytes) -> tuple[EventRecord, ...]:
        self.asked += 1
        number = int.from_bytes(block, "big")
        if self.asked in self.lost_at:
            raise NodeUnreachableError("the cable is cut")
        if number < self.pruned_below:
            raise RpcError(4003, "the state is gone")
        if number in self.busy_once:
            self.busy_once.discard(number)
            raise RpcError(-32000, "busy")
        told = [units.ServiceClosed(number * 10 + place) for place in range(3)]
        return tuple(EventRecord(cast("Any", None), cast("Any", event)) for event in told)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "RETRY_SECONDS", (0.0,) * 3)


def stream_of(chain: EventfulChain, first: int | None, *, is_followed: bool, said: list[str]) -> EventStream:
    class Client:
        def __getattr__(self, name: str) -> Any:
            return getattr(chain, name)

        async def height(self, at: bytes) -> int:
            return int.from_bytes(at, "big")

        async def __aenter__(self) -> Self:
            return self

        async def __aexit__(self, *_: object) -> None:
            pass

    async def connect() -> ChainClient:
        chain.connections += 1
        return cast("ChainClient", Client())

    return EventStream(connect, EventFilter(), first, is_followed, said.append)


def told(
    chain: EventfulChain, first: int | None, *, until: int | None = None,
    grow: Callable[[EventfulChain], None] | None = None,
) -> tuple[list[ToldEvent | UntoldBlocks], list[str], EventStream]:  # fmt: skip
    """All that is told; with `until` while it is followed, up to so many."""
    said: list[str] = []
    stream = stream_of(chain, first, is_followed=until is not None, said=said)

    async def heads(_: ChainClient) -> AsyncIterator[None]:
        while True:
            if grow is not None:
                grow(chain)
            await asyncio.sleep(0)
            yield

    async def main() -> list[ToldEvent | UntoldBlocks]:
        found = []
        async with contextlib.aclosing(cast("Any", stream.told())) as each:
            async for one in each:
                found.append(one)
                if until is not None and len(found) == until:
                    break
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(following, "moments", heads)
        return asyncio.run(asyncio.wait_for(main(), 20)), said, stream


def numbers(found: list[ToldEvent | UntoldBlocks]) -> list[int]:
    return [each.event.service for each in found if isinstance(each, ToldEvent)]


def of_blocks(first: int, last: int) -> list[int]:
    return [block * 10 + place for block in range(first, last + 1) for place in range(3)]


def test_events_up_to_now_are_told_in_order() -> None:
    found, said, stream = told(EventfulChain(), 3)
    assert (numbers(found), said, stream.next_block) == (of_blocks(3, 5), [], 6)
    assert numbers(told(EventfulChain(), None)[0]) == of_blocks(1, 5)
    assert numbers(told(EventfulChain(height=100), None)[0]) == of_blocks(100 - BLOCKS_PROVED + 1, 100)
    assert told(EventfulChain(), 9)[0] == []


@pytest.mark.parametrize("lost_at", [[1], [2], [1, 2, 3], [2, 4]])
def test_over_broken_connections_nothing_is_lost_or_told_twice(lost_at: list[int]) -> None:
    chain = EventfulChain(lost_at=lost_at)
    found, said, _ = told(chain, 2)
    assert numbers(found) == of_blocks(2, 5)
    assert chain.connections == 1 + len(lost_at)
    assert len(said) == len(lost_at)
    assert "the cable is cut" in said[0]
    assert "is next" in said[0]


def test_a_connection_that_breaks_within_a_block_goes_on_behind_what_was_told(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = EventfulChain(height=2)
    broke: list[bool] = []

    async def wants(self: EventFilter, client: ChainClient, event: units.ServiceClosed, at: bytes) -> bool:
        if event.service == 11 and not broke:
            broke.append(True)
            raise NodeUnreachableError("the cable is cut")
        return True

    monkeypatch.setattr(EventFilter, "wants", wants)
    assert numbers(told(chain, 1)[0]) == of_blocks(1, 2)
    assert broke


def test_what_comes_is_told_while_it_comes() -> None:
    def grow(chain: EventfulChain) -> None:
        chain.height += 2

    assert numbers(told(EventfulChain(), None, until=12, grow=grow)[0]) == of_blocks(6, 9)


def test_blocks_that_were_missed_meanwhile_are_caught_up() -> None:
    chain = EventfulChain(lost_at=[2])

    def grow(chain: EventfulChain) -> None:
        chain.height += 10

    assert numbers(told(chain, 4, until=30, grow=grow)[0]) == of_blocks(4, 13)


def test_blocks_that_the_node_keeps_no_more_are_named() -> None:
    chain = EventfulChain(height=200, pruned_below=137)
    found, said, _ = told(chain, 10)
    assert [each for each in found if isinstance(each, UntoldBlocks)] == [UntoldBlocks(10, 136)]
    assert (numbers(found), said) == (of_blocks(137, 200), [])
    assert numbers(told(EventfulChain(height=200), 100)[0]) == of_blocks(100, 200), "an archive shows all"


def test_a_block_that_goes_while_it_is_asked_for_is_named_and_no_broken_connection() -> None:
    class Pruning(EventfulChain):
        async def events(self, block: bytes) -> tuple[EventRecord, ...]:
            if self.asked == 0:
                self.height, self.pruned_below = self.height + 2, self.height + 2 - BLOCKS_PROVED + 1
            return await super().events(block)

    found, said, _ = told(Pruning(height=200), None)
    assert found[0] == UntoldBlocks(137, 138)
    assert (numbers(found), said) == (of_blocks(139, 202), [])


def test_a_node_that_is_busy_is_asked_again_and_no_block_left_out() -> None:
    chain = EventfulChain(height=100, busy_once={90})
    found, said, _ = told(chain, 80)
    assert numbers(found) == of_blocks(80, 100)
    assert "busy" in said[0]


def test_a_node_that_never_answers_is_an_error() -> None:
    async def refused() -> ChainClient:
        raise NodeUnreachableError("nobody there")

    async def main() -> None:
        async for _ in EventStream(refused, EventFilter(), 0, True, print).told():
            pass

    with pytest.raises(NodeUnreachableError, match="nobody there"):
        asyncio.run(main())


def test_without_watching_a_node_that_stays_broken_is_an_error() -> None:
    with pytest.raises(NodeUnreachableError, match="cable"):
        told(EventfulChain(lost_at=list(range(1, 50))), 2)
