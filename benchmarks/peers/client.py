"""The client of every measured node: JSON-RPC over HTTP, one connection for each sequence of batches.

Invariant: a connection has one batch in flight. The client sends refused transfers again before the next batch, so no
sender's nonces ever have a gap. A transfer that stays refused ends the run.
"""

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import aiohttp

from benchmarks.peers.workload import request

SECONDS_MAX = 300.0
AGAIN_SECONDS = 0.05
AGAIN_MAX = 400
JSON = {"content-type": "application/json"}


class RefusedError(Exception):
    """A node keeps refusing valid transfers."""


@dataclass(slots=True)
class Posted:
    """The time and the refusals of sending everything."""

    seconds: float
    again: int  # transfers refused and sent again
    refusal: str  # the node's reason for the last refusal


class Client:
    """Calls of one node. Use it with `async with`."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def __aenter__(self) -> Self:
        """Open the client. It connects when needed."""
        timeout = aiohttp.ClientTimeout(total=SECONDS_MAX)
        # The default limit of aiohttp, 100 connections, must not slow a node.
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=timeout, headers=JSON)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the client."""
        await self._session.close()

    async def call(self, method: str, *parameters: object) -> Any:
        """Return the result of one call."""
        return (await self.calls([request(method, parameters, 0)]))[0]

    async def calls(self, requests: Sequence[dict[str, object]]) -> list[Any]:
        """Return the results of a batch of calls, in their order. Raise RefusedError if one failed."""
        answers = await self._post(json.dumps(requests).encode())
        for answer in answers:
            if "error" in answer:
                raise RefusedError(f"{requests[0]['method']}: {answer['error']}")
        # A server may answer the calls of a batch in any order (JSON-RPC 2.0, section 6).
        return [answer["result"] for answer in sorted(answers, key=lambda answer: int(answer["id"]))]

    async def hand_in(self, hands: Sequence[Sequence[bytes]]) -> Posted:
        """Send every batch, over all connections at once."""
        posted = Posted(0.0, 0, "")
        started = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for hand in hands:
                group.create_task(self._hand_in(hand, posted))
        posted.seconds = time.perf_counter() - started
        return posted

    async def _hand_in(self, hand: Sequence[bytes], posted: Posted) -> None:
        for body in hand:
            refused = _refused(await self._post(body))
            tries = 0
            while refused:
                posted.again += len(refused)
                posted.refusal = next(iter(refused.values()))
                tries += 1
                if tries > AGAIN_MAX:
                    raise RefusedError(posted.refusal)
                await asyncio.sleep(AGAIN_SECONDS)
                left = [item for item in json.loads(body) if item["id"] in refused]
                refused = _refused(await self._post(json.dumps(left).encode()))

    async def _post(self, body: bytes) -> list[dict[str, Any]]:
        async with self._session.post(self._url, data=body) as answer:
            found = json.loads(await answer.read())
        # A server that refuses a whole batch answers with a single error object (JSON-RPC 2.0, section 6).
        if not isinstance(found, list):
            raise RefusedError(f"the whole batch: {found}")
        return found


def _refused(answers: list[dict[str, Any]]) -> dict[int, str]:
    """Return the failed calls with their reasons."""
    return {answer["id"]: str(answer["error"]) for answer in answers if "error" in answer}
