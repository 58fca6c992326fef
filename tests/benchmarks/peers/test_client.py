"""The client submits a refused transfer again before it continues, and gives up after repeated refusals."""

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from benchmarks.peers import client
from benchmarks.peers.client import Client, RefusedError
from benchmarks.peers.workload import request

BUSY = {"code": -32000, "message": "Too busy"}


class Node:
    """Refuses each transfer a set number of times, and records the accepted ones."""

    def __init__(self, refusals: dict[str, int]) -> None:
        self.refusals, self.taken = refusals, list[str]()

    async def answer(self, question: web.Request) -> web.Response:
        return web.json_response([self._one(call) for call in reversed(await question.json())])

    def _one(self, call: dict[str, object]) -> dict[str, object]:
        parameters = call["params"]
        assert isinstance(parameters, list)
        (name,) = parameters
        if self.refusals.get(name, 0):
            self.refusals[name] -= 1
            return {"jsonrpc": "2.0", "id": call["id"], "error": BUSY}
        self.taken.append(name)
        return {"jsonrpc": "2.0", "id": call["id"], "result": name.upper()}


def with_client(node: Node, work: Callable[[Client], Awaitable[None]]) -> None:
    async def run() -> None:
        app = web.Application()
        app.router.add_post("/", node.answer)
        async with TestServer(app) as server, Client(str(server.make_url("/"))) as opened:
            await work(opened)

    asyncio.run(run())


def body(*names: str) -> bytes:
    return json.dumps([request("submit", [name], number) for number, name in enumerate(names)]).encode()


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "AGAIN_SECONDS", 0.0)


def test_what_is_refused_is_handed_in_again_before_the_next_batch() -> None:
    node = Node({"b": 2})

    async def work(opened: Client) -> None:
        posted = await opened.hand_in([[body("a", "b"), body("c")]])
        assert (posted.again, "Too busy" in posted.refusal) == (2, True)
        assert posted.seconds > 0

    with_client(node, work)
    assert node.taken == ["a", "b", "c"]


def test_what_stays_refused_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "AGAIN_MAX", 3)
    node = Node({"b": 100})

    async def work(opened: Client) -> None:
        with pytest.raises(ExceptionGroup) as caught:
            await opened.hand_in([[body("b")]])
        assert caught.group_contains(RefusedError, match="Too busy")

    with_client(node, work)
    assert node.taken == []


def test_answers_come_in_the_order_of_the_calls() -> None:
    async def work(opened: Client) -> None:
        assert await opened.calls(json.loads(body("x", "y", "z"))) == ["X", "Y", "Z"]
        assert await opened.call("submit", "a") == "A"

    with_client(Node({}), work)


def test_a_call_that_fails_names_its_method() -> None:
    async def work(opened: Client) -> None:
        with pytest.raises(RefusedError, match=r"submit: .*Too busy"):
            await opened.call("submit", "a")

    with_client(Node({"a": 1}), work)
