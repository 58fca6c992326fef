"""Keys to prove reach the node at a limited rate, and one caller's many do not delay another's few."""

import asyncio
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from node.feed import messages as feed
from node.rpc.callers import RpcCaller
from node.rpc.jsonrpc import TOO_BUSY, JsonRpcError
from node.rpc.methods.state import KEYS_AT_ONCE, ProofPace
from node.rpc.questions import ASKING, WAITING_MAX
from played_node import PlayedNode, served

STRANGER = "127.0.0.66"
STRANGERS_CONNECTIONS = 100
FAST = KEYS_AT_ONCE * 1_000


async def ask(pace: ProofPace, order: list[str], name: str, caller: RpcCaller, keys: list[int]) -> None:
    ASKING.set(caller)
    for count in keys:
        await pace.take(count)
        order.append(name)


def test_few_keys_are_not_behind_all_of_many() -> None:
    order: list[str] = []

    async def main() -> None:
        pace = ProofPace(FAST)
        many = asyncio.create_task(ask(pace, order, "many", RpcCaller(), [KEYS_AT_ONCE] * 16))
        await asyncio.sleep(0)
        await asyncio.gather(many, *(ask(pace, order, f"few {number}", RpcCaller(), [1]) for number in range(3)))

    asyncio.run(asyncio.wait_for(main(), 30))
    assert sorted(order[-12:]) == ["many"] * 12
    assert sorted(set(order[:7])) == ["few 0", "few 1", "few 2", "many"]


def test_many_requests_of_one_caller_are_before_nobody_and_bounded() -> None:
    order: list[str] = []

    async def main() -> None:
        pace, stranger = ProofPace(FAST), RpcCaller()
        many = [asyncio.create_task(ask(pace, order, "many", stranger, [KEYS_AT_ONCE])) for _ in range(WAITING_MAX + 1)]
        await asyncio.sleep(0)
        few = asyncio.create_task(ask(pace, order, "few", RpcCaller(), [1]))
        await asyncio.sleep(0)
        with pytest.raises(JsonRpcError) as refused:
            await ask(pace, order, "many", stranger, [1])
        assert refused.value.code == TOO_BUSY
        await asyncio.gather(few, *many)

    asyncio.run(asyncio.wait_for(main(), 30))
    assert order.index("few") <= 2


def test_this_machine_does_not_stand_behind_a_stranger_s_many_addresses() -> None:
    order: list[str] = []

    async def main() -> None:
        pace = ProofPace(FAST)
        strangers = [asyncio.create_task(ask(pace, order, "stranger", RpcCaller(), [KEYS_AT_ONCE])) for _ in range(200)]
        await asyncio.sleep(0)
        await ask(pace, order, "provider", RpcCaller(network=None), [1] * 3)
        await asyncio.gather(*strangers)

    asyncio.run(asyncio.wait_for(main(), 30))
    assert [place for place, name in enumerate(order) if name == "provider"] == [1, 3, 5]


def test_the_pace_holds_over_all_callers_even_if_they_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[tuple[float, Callable[[], None]]] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(loop, "call_later", lambda after, end, *values: ends.append((after, partial(end, *values))))
        await ProofPace().take(KEYS_AT_ONCE)
        assert ends.pop()[0] == pytest.approx(64 / 4_000)
        pace = ProofPace(100)
        for number, keys in enumerate((5, 15, 1)):
            taking = asyncio.create_task(pace.take(keys))
            await asyncio.sleep(0)
            if number:
                assert not taking.done()
                ends[-1][1]()
            await taking

    asyncio.run(asyncio.wait_for(main(), 30))
    assert [after for after, _ in ends] == [pytest.approx(seconds) for seconds in (0.05, 0.15, 0.01)]


class CountingNode(PlayedNode):
    """Notes how many keys each proof is for."""

    def __init__(self) -> None:
        super().__init__()
        self.proved: list[int] = []

    def _prove(self, request: feed.Prove) -> None:
        self.proved.append(len(request.keys))
        super()._prove(request)


async def post(port: int, source: str, keys: list[str]) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "state_getReadProof", "params": [keys]}).encode()
    head = f"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0))
    writer.write(head.encode() + b"\r\n\r\n" + body)
    return reader, writer


async def answered(reader: asyncio.StreamReader) -> dict[str, Any]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
    answer: dict[str, Any] = json.loads(await reader.readexactly(length))
    return answer


def test_an_honest_proof_is_not_behind_a_hundred_connections_of_one_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("played_node.PlayedNode", CountingNode)

    async def main() -> None:
        async with served(tmp_path) as (node, port):
            assert isinstance(node, CountingNode)
            many = [f"0x{number:064x}" for number in range(KEYS_AT_ONCE)]
            strangers = [await post(port, STRANGER, many) for _ in range(STRANGERS_CONNECTIONS)]
            while len(node.proved) < 3:
                await asyncio.sleep(0.001)
            before = len(node.proved)
            reader, writer = await post(port, "127.0.0.1", ["0x26aa"])
            assert "proof" in (await answered(reader))["result"]
            assert node.proved.index(1) - before <= 6
            answers = [await answered(stranger) for stranger, _ in strangers]
            assert len(answers) == STRANGERS_CONNECTIONS
            for writing in (writer, *(writer for _, writer in strangers)):
                writing.close()

    asyncio.run(asyncio.wait_for(main(), 60))
