"""Calls whose arguments are long: they are worked out beside the loop that answers everybody.

To decode calls inside calls of 117 kB takes 130 ms without a pause. What always holds: one such call is worked out at a
time, in turn by caller. Only what `LONG_CALLS` names is: it reads single keys, since the state may move on meanwhile,
and writes nothing that the loop reads. Nothing else takes long arguments: there they end after the first few bytes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from node.rpc.questions import Questions

T = TypeVar("T")

LONG_BYTES = 4_096
LONG_CALLS = frozenset(
    {
        "TransactionPaymentApi_query_info",
        "TransactionPaymentApi_query_fee_details",
        "TaggedTransactionQueue_validate_transaction",
    }
)
"""The runtime APIs whose arguments may be long: those that take an extrinsic."""
SWITCH_SECONDS = 0.0005
"""Python's own is ten times that, and an answer waits for it at each look at a socket."""


class LongCalls:
    """The line of those who ask for them."""

    def __init__(self) -> None:
        """Nobody waits."""
        self._line = Questions(1)
        self._worker = ThreadPoolExecutor(1, "long calls")

    async def run(self, function: str, size: int, call: Callable[[], T]) -> T:
        """What `call` gives, which is the runtime API `function` with arguments of `size` bytes; others at once."""
        if size < LONG_BYTES or function not in LONG_CALLS:
            return call()
        async with self._line.turn():
            under_way = asyncio.get_running_loop().run_in_executor(self._worker, call)
            try:
                return await asyncio.shield(under_way)
            finally:  # who leaves keeps its turn until the work is done: else it could begin the next one meanwhile
                await asyncio.wait([under_way])
