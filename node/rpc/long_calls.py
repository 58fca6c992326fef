"""Calls with long arguments, computed beside the loop that answers all clients.

Decoding nested calls of 117 kB takes 130 ms without a pause. Invariant: one such call is computed at a time, in turn by
caller, and only those in `LONG_CALLS`. They read single keys, since the state may change meanwhile, and write nothing
that the loop reads. Other runtime APIs take no long arguments: decoding ends after the first few bytes.
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
"""Python's own interval is ten times as long, and an answer waits for it at each check of a socket."""


class LongCalls:
    """The queue of callers with long calls."""

    def __init__(self) -> None:
        """Create it empty."""
        self._caller_queue = Questions(1)
        self._executor = ThreadPoolExecutor(1, "long calls")

    async def run(self, function_name: str, argument_bytes: int, compute: Callable[[], T]) -> T:
        """Return the result of `compute`, the runtime API `function_name` with arguments of `argument_bytes` bytes.

        Short and other calls run at once.
        """
        if argument_bytes < LONG_BYTES or function_name not in LONG_CALLS:
            return compute()
        async with self._caller_queue.turn():
            running_call = asyncio.get_running_loop().run_in_executor(self._executor, compute)
            try:
                return await asyncio.shield(running_call)
            finally:  # a caller that leaves keeps its turn until the work is done, or it could start another meanwhile
                await asyncio.wait([running_call])
