"""A batch of submissions is one question to the node. Other requests in it are answered in their places."""

from __future__ import annotations

import asyncio
import gc
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from http_server.turns import Turns
from node.rpc.callers import RpcCaller
from node.rpc.jsonrpc import MAX_BATCH, JsonRpcError, RpcRequest
from node.rpc.registry import Hex, Registry, method
from node.rpc.server import PIECE, Server, ServerOptions, answers, runs
from node.rpc.work import Work
from played_node import served


class Doubling:
    """One method that takes several calls at once, and one that does not."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    @method("double", batch_name="double_all")
    def double(self, text: Hex) -> str:
        return (text * 2).hex()

    async def double_all(self, calls: list[list[Any]]) -> list[Any]:
        self.asked.append(len(calls))
        return [(text * 2).hex() for (text,) in calls]

    @method("single")
    def single(self) -> int:
        return 1


def call(name: str, number: int, *params: Any) -> RpcRequest:
    return RpcRequest(name, list(params), number)


def test_only_neighbours_of_one_method_go_together() -> None:
    error = JsonRpcError(-32600, "Invalid request")
    batch: list[RpcRequest | JsonRpcError] = [
        call("double", 1),
        call("double", 2),
        error,
        call("double", 3),
        call("single", 4),
        call("nothing", 5),
    ]
    shape = [len(run) for run in runs(batch, Registry([Doubling()]))]
    assert shape == [2, 1, 1, 1, 1]
    assert [item for run in runs(batch, Registry([Doubling()])) for item in run] == batch
    alone: list[RpcRequest | JsonRpcError] = [call("single", 1)]
    assert list(runs(alone * 3, Registry([Doubling()]))) == [alone] * 3


def test_a_call_that_is_refused_keeps_none_of_the_others() -> None:
    owner = Doubling()
    left = 3

    def take() -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise JsonRpcError(-32005, "Too many requests")

    calls = [call("double", 1, "0x01"), call("double", 2, "0x0"), call("double", 3, "0x03"), call("double", 4, "0x04")]
    outcomes = asyncio.run(answers(Registry([owner]).methods["double"], calls, take))
    shown = [outcome.message if isinstance(outcome, JsonRpcError) else outcome for outcome in outcomes]
    assert shown == ["0101", "Invalid params", "0303", "Too many requests"]
    assert owner.asked == [2]


@pytest.mark.parametrize(
    ("name", "unsafe"), [("double", True), ("unknown", True)], ids=["each is refused", "the whole run is"]
)
def test_what_is_refused_is_gone_with_its_message(name: str, unsafe: bool) -> None:
    """Refusals with reference cycles waited for the collector: 120,000 objects, a pause of 140 ms for all."""

    async def main() -> int:
        server = Server(Registry([Doubling()]), ServerOptions(unsafe_allowed=unsafe, calls_per_minute=1))
        work = Work(Turns(), RpcCaller(calls_left=1))
        run: list[RpcRequest | JsonRpcError] = [call(name, number, "0x01") for number in range(50)]
        answers_of_run = await server._answer_run(run, None, work, has_room=True)
        assert sum("error" in answer for answer in answers_of_run) >= 49
        del answers_of_run
        return sum(isinstance(one, JsonRpcError) for one in gc.get_objects())

    gc.collect()
    gc.disable()
    try:
        before = sum(isinstance(one, JsonRpcError) for one in gc.get_objects())
        assert asyncio.run(main()) == before
    finally:
        gc.enable()


def test_a_long_run_lets_others_in_before_it_asks_and_while_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    owner, rounds = Doubling(), []

    async def scenario() -> list[int]:
        server = Server(Registry([owner]), ServerOptions())

        monkeypatch.setattr("http_server.turns.SLICE_SECONDS", 0.0)  # as if each step took longer
        batch: list[RpcRequest | JsonRpcError] = [call("double", number, "0x01") for number in range(MAX_BATCH)]

        async def look_around() -> None:
            while True:
                rounds.append(len(owner.asked))
                await asyncio.sleep(0)

        looking = asyncio.create_task(look_around())
        await asyncio.sleep(0)
        rounds.clear()
        text = await server._answer_batch(batch, None, Work(server.shared.turns, RpcCaller(calls_left=1e9)))
        looking.cancel()
        return [answer["id"] for answer in json.loads(text or "")]

    assert asyncio.run(scenario()) == list(range(MAX_BATCH))
    assert owner.asked == [MAX_BATCH]
    assert rounds.count(0) >= MAX_BATCH // PIECE
    assert rounds.count(1) >= MAX_BATCH // PIECE


def test_submissions_of_a_batch_are_one_frame_and_every_item_is_answered_in_order(tmp_path: Path) -> None:
    def request(number: int, name: str, *params: Any) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": number, "method": name, "params": list(params)}

    submit = "author_submitExtrinsic"
    batch = [
        request(1, submit, "0x0a"), request(2, submit, "0x0b"), request(3, submit, "0x0a"), request(4, submit, "no"),
        request(5, "system_chain"), request(6, submit, "0x0c"), request(7, submit, "0x0d"),
        {"jsonrpc": "2.0", "method": submit, "params": ["0x0e"]}, request(8, submit, "0x" + "00" * (512 * 1024 // 4)),
    ]  # fmt: skip

    async def ask() -> tuple[list[Any], list[list[bytes]], list[bytes]]:
        async with served(tmp_path) as (node, port), aiohttp.ClientSession() as session:
            async with session.post(f"http://127.0.0.1:{port}/", json=batch) as response:
                answered = await response.json(content_type=None)
            return answered, [asked.extrinsics[:2] for asked in node.asked], node.pool

    answered, asked, pool = asyncio.run(ask())
    assert [answer["id"] for answer in answered] == list(range(1, 9))
    kinds = ["result" if "result" in answer else answer["error"]["code"] for answer in answered]
    assert kinds == ["result", "result", 1013, -32602, "result", "result", "result", "result"]
    assert asked == [[b"\x0a", b"\x0b"], [b"\x0c", b"\x0d"]]
    assert [raw[:1] for raw in pool] == [b"\x0a", b"\x0b", b"\x0c", b"\x0d", b"\x0e", b"\x00"]


@pytest.mark.parametrize(("count", "pauses"), [(PIECE - 1, 0), (PIECE, 1), (2 * PIECE, 2)])
def test_a_run_lets_others_in_once_for_each_piece(count: int, pauses: int) -> None:
    async def scenario() -> int:
        rounds = 0

        async def look_around() -> None:
            nonlocal rounds
            while True:
                await asyncio.sleep(0)
                rounds += 1

        looking = asyncio.create_task(look_around())
        await asyncio.sleep(0)
        calls = [call("double", number, "0x01") for number in range(count)]
        await answers(Registry([Doubling()]).methods["double"], calls, lambda: None)
        looking.cancel()
        return rounds

    assert asyncio.run(scenario()) == pauses
