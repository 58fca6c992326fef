"""Subscriptions to storage: as many keys as are read for each block, and no more of them in one turn."""

import asyncio
import itertools
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from node.rpc.methods.state import READ_AT_ONCE, State
from node.rpc.registry import Hex
from node.rpc.subscriptions.shares import KEYS_EACH
from played_node import served
from runtime.state.overlay import Memory
from runtime.state.trie_node import MAX_KEY_BYTES


async def ask(socket: aiohttp.ClientWebSocketResponse, name: str, *params: Any) -> dict[str, Any]:
    await socket.send_json({"jsonrpc": "2.0", "id": 1, "method": name, "params": list(params)})
    while True:
        message: dict[str, Any] = await socket.receive_json()
        if "id" in message:
            return message


def keys(count: int, length: int = 8) -> list[str]:
    return ["0x" + number.to_bytes(length, "big").hex() for number in range(count)]


def test_keys_are_counted_for_a_connection_and_come_back_with_their_subscription(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with served(tmp_path) as (_, port), aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
            socket = await session.ws_connect("/")
            names = [
                (await ask(socket, "state_subscribeStorage", keys(1_000)))["result"] for _ in range(KEYS_EACH // 1_000)
            ]
            refused = await ask(socket, "state_subscribeStorage", keys(1_000))
            error = refused["error"]
            assert (error["code"], error["message"]) == (-32006, "Too many watched keys on the connection")
            assert (await ask(socket, "state_unsubscribeStorage", names[0]))["result"] is True
            assert "result" in await ask(socket, "state_subscribeStorage", keys(1_000))
            other = await session.ws_connect("/")
            assert "result" in await ask(other, "state_subscribeStorage", keys(100))
            await socket.close()
            await other.close()

    asyncio.run(asyncio.wait_for(scenario(), 60))


@pytest.mark.parametrize("method", ["state_subscribeStorage", "state_queryStorageAt", "state_getReadProof"])
def test_a_key_that_no_state_can_have_is_refused(tmp_path: Path, method: str) -> None:
    async def scenario() -> None:
        async with (
            served(tmp_path) as (_, port),
            aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session,
            session.ws_connect("/") as socket,
        ):
            assert "result" in await ask(socket, method, keys(1, MAX_KEY_BYTES))
            refused = await ask(socket, method, keys(1, MAX_KEY_BYTES + 1))
            assert "at most 256 bytes" in refused.get("error", {}).get("data", "")

    asyncio.run(asyncio.wait_for(scenario(), 60))


class CountingReads(Memory):
    """A state that counts what is read of it."""

    count = 0

    def get(self, key: bytes, /) -> bytes | None:
        self.count += 1
        return super().get(key)


def test_a_thousand_keys_are_read_in_several_turns() -> None:
    async def scenario() -> None:
        reads = CountingReads()

        class Blocks:
            async def reader(self, _block: bytes) -> CountingReads:
                return reads

        state = State.__new__(State)
        state.blocks = Blocks()  # type: ignore[assignment]  # all that is asked of it
        wanted = [Hex(number.to_bytes(4, "big")) for number in range(1_000)]
        task = asyncio.create_task(state._read_in_parts(b"", wanted))
        seen = [0]
        while not task.done():
            await asyncio.sleep(0)
            seen.append(reads.count)
        assert len(await task) == 1_000
        assert max(after - before for before, after in itertools.pairwise(seen)) <= READ_AT_ONCE

    asyncio.run(scenario())
