"""Calls of a batch that follow each other and can be answered together: one question to the node instead of hundreds.

What always holds: the calls of a batch are answered in their order, and each gets the answer that it would get alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from node.rpc.jsonrpc import Json, JsonRpcError, RpcRequest
from node.rpc.registry import Registry, RpcMethod

PIECE = 64
"""Calls between two pauses: 500 in one step took 30 ms on a busy machine, and everybody else waited."""


def runs(batch: Sequence[RpcRequest | JsonRpcError], registry: Registry) -> Iterator[list[RpcRequest | JsonRpcError]]:
    """The batch in pieces; one of more than one item holds calls of one method that answers several at once."""

    def together(item: RpcRequest | JsonRpcError) -> str | None:
        method = registry.methods.get(item.method) if isinstance(item, RpcRequest) else None
        return method.name if method is not None and method.batch is not None else None

    for name, group in groupby(batch, together):
        if name is None:
            yield from ([item] for item in group)
        else:
            yield list(group)


async def answers(
    method: RpcMethod, calls: Sequence[RpcRequest], before_each: Callable[[], None]
) -> list[Json | JsonRpcError]:
    """What the calls of one run come to; `before_each` may refuse one (raise `JsonRpcError`), as may its parameters."""
    assert method.batch is not None
    outcomes: list[Json | JsonRpcError] = []
    asked: list[int] = []
    arguments: list[list[object]] = []
    for number, call in enumerate(calls):
        outcomes.append(None)
        if number % PIECE == PIECE - 1:
            await asyncio.sleep(0)  # and another turn
        try:
            before_each()
            arguments.append(method.arguments(call.params))
            asked.append(number)
        except JsonRpcError as error:
            # Without its frames, which hold all outcomes, this one too: such circles of 15,000 refusals waited for the
            # collector, which then took 140 ms.
            outcomes[number] = error.with_traceback(None)
    if asked:
        for number, outcome in zip(asked, await method.batch(arguments), strict=True):
            outcomes[number] = outcome
    return outcomes
