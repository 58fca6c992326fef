"""The memory of subscriptions while they last: counted, and taken from the client that holds most."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from node.rpc.jsonrpc import INVALID_PARAMS, JsonRpcError
from node.rpc.registry import Hex, Registry, subscription
from node.rpc.server import Server, ServerOptions

KEYS = ["0x" + "ab" * 1_000] * 100


class Watched:
    """A subscription with parameters of any length."""

    @subscription("watch", notification="item", unsubscribe=("unwatch",))
    async def watched(self, keys: list[Hex]) -> AsyncIterator[int]:
        """The number of keys, and no more."""
        yield len(keys)
        await asyncio.Event().wait()

    @subscription("refuse", notification="item", unsubscribe=("unrefuse",))
    async def refused(self, keys: list[Hex]) -> AsyncIterator[int]:
        """Refuse all keys."""
        raise JsonRpcError(INVALID_PARAMS, "Invalid params", f"{len(keys)}")


async def ask(socket: aiohttp.ClientWebSocketResponse, name: str, *params: Any) -> Any:
    await socket.send_json({"jsonrpc": "2.0", "id": 1, "method": name, "params": list(params)})
    return (await socket.receive_json())["result"]


async def watch(socket: aiohttp.ClientWebSocketResponse, keys: list[str]) -> str:
    name: str = await ask(socket, "watch", keys)
    assert (await socket.receive_json())["params"]["result"] == len(keys)
    return name


def test_what_subscriptions_keep_is_counted_and_who_keeps_most_pays() -> None:
    """A few thousand subscriptions to a thousand long keys each took gigabytes."""

    async def scenario() -> None:
        server = Server(Registry([Watched()]), ServerOptions(port=0))
        held = server.shared.held_bytes
        async with server.listening() as port, aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
            modest, greedy = await session.ws_connect("/"), await session.ws_connect("/")
            name = await watch(modest, KEYS)
            assert held.total >= 100_000
            assert await ask(modest, "unwatch", name) is True
            await watch(modest, KEYS[:1])
            assert held.total < 2_000
            held._limit_bytes = 1_000_000  # a message that is being read counts too
            with pytest.raises((TypeError, ConnectionError)):
                for _ in range(10):
                    await watch(greedy, KEYS)
            assert greedy.closed
            assert held.total < 2_000
            await watch(modest, KEYS[:2])
            await modest.close()
            while server.connections:
                await asyncio.sleep(0.01)
            assert held.total == 0

    asyncio.run(asyncio.wait_for(scenario(), 60))


@pytest.mark.parametrize(("name", "count"), [("refuse", 1), ("watch", 100)], ids=["by the method", "for its length"])
def test_a_refused_subscription_takes_no_place(name: str, count: int) -> None:
    async def scenario() -> None:
        server = Server(Registry([Watched()]), ServerOptions(port=0, max_subscriptions=3))
        server.shared.kept_shares._each_max = 10_000
        async with server.listening() as port, aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
            socket = await session.ws_connect("/")
            for _ in range(6):
                await socket.send_json({"jsonrpc": "2.0", "id": 1, "method": name, "params": [KEYS[:count]]})
                assert "error" in await socket.receive_json()
            for _ in range(3):
                await watch(socket, KEYS[:1])
            (connection,) = server.connections
            assert connection._subscription_count == 3
            await socket.close()

    asyncio.run(asyncio.wait_for(scenario(), 60))
