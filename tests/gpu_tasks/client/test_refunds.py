"""Why a unit was refunded: out of the events of the block in which it ended, where the node still has them."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from gpu_tasks.client.refunds import REASONS, why_refunded
from gpu_tasks.market.inference.events import UnitRefunded, UnitRequeued
from gpu_tasks.market.inference.units import Refund, Unit, UnitState, UnitTerms
from runtime.encoding.types import Finalization
from runtime.pallets.system import EventRecord
from wallet.rpc import OddAnswerError, RpcError

UNIT, OTHER, BLOCK = b"u" * 32, b"o" * 32, b"b" * 32
REFUNDED = Unit(
    0, b"c" * 32, UnitTerms(5, 2, b"i" * 32, b"h" * 32, 1, 8), 0, 0, 0, 9, 9, UnitState.REFUNDED, ended_at=30
)


class Node:
    """A client of a node whose block 30 has these events, or that has forgotten that block's state."""

    def __init__(self, events: Sequence[Any], *, is_forgotten: bool = False) -> None:
        self._events = tuple(EventRecord(Finalization(), event) for event in events)
        self._is_forgotten = is_forgotten

    async def block_id(self, height: int) -> bytes:
        if height != 30:
            raise OddAnswerError("no such block")
        return BLOCK

    async def events(self, block: bytes) -> tuple[EventRecord, ...]:
        assert block == BLOCK
        if self._is_forgotten:
            raise RpcError(4003, "State already discarded")
        return self._events


def why(node: Node, unit: Unit = REFUNDED) -> str:
    return asyncio.run(why_refunded(cast("Any", node), UNIT, unit))


@pytest.mark.parametrize("refund", Refund)
def test_the_event_of_the_end_says_why(refund: Refund) -> None:
    events = [UnitRequeued(UNIT, 30), UnitRefunded(OTHER, Refund.CANCELLED, 1), UnitRefunded(UNIT, refund, 0)]
    assert why(Node(events)) == f"refunded in block 30: {REASONS[refund]}"


def test_without_the_event_the_block_alone_is_said() -> None:
    assert why(Node([])) == "refunded in block 30"
    assert why(Node([UnitRefunded(UNIT, Refund.EXPIRED, 0)], is_forgotten=True)) == "refunded in block 30"
    assert why(Node([]), replace(REFUNDED, ended_at=31)) == "refunded in block 31"
