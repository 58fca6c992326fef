"""The proxy between a program and its node or a store: true without a lie, else changed only by the lie."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from websockets.asyncio.server import ServerConnection, serve

from devnet.launcher.free_ports import one_free_port
from devnet.proofs.liars.catalogue import LIES_BY_NAME
from devnet.proofs.liars.lie import NodeLie, NodeMessage, NodeQuestion, Program, StoreLie
from devnet.proofs.liars.proxies import NodeProxy, StoreProxy
from devnet.proofs.liars.state_lies import RUNTIME, encoded, prefix_of
from runtime.pallets.system import AccountData, AccountInfo, System
from wallet.rpc import NodeUnreachableError, RpcConnection, RpcError

GENESIS, FINAL, HEADER = "0x" + "11" * 32, "0x" + "22" * 32, {"number": "0x40", "parentHash": "0x" + "33" * 32}
ANSWERS: dict[str, Any] = {
    "chain_getBlockHash": GENESIS,
    "chain_getFinalizedHead": FINAL,
    "chain_getHeader": HEADER,
    "system_accountNextIndex": 3,
    "chain_subscribeFinalizedHeads": "heads",
    "author_submitAndWatchExtrinsic": "watch",
}
BLOB = bytes(range(200))


@contextlib.asynccontextmanager
async def node(heard: list[str]) -> AsyncIterator[str]:
    """A node that knows a few answers, and three items of each subscription."""

    async def answer(socket: ServerConnection) -> None:
        async for text in socket:
            asked = json.loads(text)
            heard.append(asked["method"])
            result = ANSWERS.get(asked["method"])
            await socket.send(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}))
            if result in ("heads", "watch"):
                for item in ("ready", {"inBlock": FINAL}, {"finalized": FINAL}) if result == "watch" else [HEADER] * 3:
                    params = {"subscription": result, "result": item}
                    await socket.send(json.dumps({"jsonrpc": "2.0", "method": "item", "params": params}))

    async with serve(answer, "127.0.0.1", 0) as server:
        yield f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}"


def with_lie(name: str | None, body: Callable[[RpcConnection], Awaitable[Any]]) -> tuple[Any, int, list[str]]:
    """Return the program's answer, the number of lies, and the node's requests."""

    async def run() -> tuple[Any, int, list[str]]:
        heard: list[str] = []
        lie = None if name is None else LIES_BY_NAME[name]
        assert lie is None or isinstance(lie, NodeLie)
        async with node(heard) as url, NodeProxy(url, lie) as proxy, await RpcConnection.open(proxy.url) as rpc:
            try:
                answer = await body(rpc)
            except (NodeUnreachableError, RpcError) as error:
                answer = error
            return answer, proxy.told, heard

    return asyncio.run(run())


async def heads(rpc: RpcConnection) -> list[Any]:
    items = await rpc.subscribe("chain_subscribeFinalizedHeads", unsubscribe="chain_unsubscribeFinalizedHeads")
    return [(await anext(items))["number"] for _ in range(3)]


async def statuses(rpc: RpcConnection) -> list[Any]:
    items = await rpc.subscribe("author_submitAndWatchExtrinsic", "0x00", unsubscribe="author_unwatchExtrinsic")
    found: list[Any] = []
    while not found or found[-1] in ("ready", {"inBlock": FINAL}):
        found.append(await anext(items))
    return found


def test_without_a_lie_the_node_is_heard() -> None:
    assert with_lie(None, lambda rpc: rpc.call("chain_getHeader")) == (HEADER, 0, ["chain_getHeader"])
    found, told, _ = with_lie(None, heads)
    assert (found, told) == (["0x40"] * 3, 0)


def test_what_a_lie_is_not_about_is_true() -> None:
    found, told, _ = with_lie("nonce_ahead", lambda rpc: rpc.call("chain_getFinalizedHead"))
    assert (found, told) == (FINAL, 0)


@pytest.mark.parametrize(
    ("name", "method", "heard"),
    [
        ("nonce_ahead", "system_accountNextIndex", 8),
        ("nothing_at_all", "chain_getHeader", None),
        ("doubled", "chain_getHeader", HEADER),
    ],
)
def test_a_wrong_answer_is_heard_and_counted(name: str, method: str, heard: Any) -> None:
    assert with_lie(name, lambda rpc: rpc.call(method)) == (heard, 1, [method])


def test_foreign_genesis_is_block_0_alone() -> None:
    async def both(rpc: RpcConnection) -> list[str]:
        return [await rpc.call("chain_getBlockHash", height) for height in (0, 1)]

    found, told, _ = with_lie("foreign_genesis", both)
    assert found == ["0x" + "ab" * 32, GENESIS]
    assert told == 1


def test_items_of_subscriptions_are_lied_about() -> None:
    found, told, _ = with_lie("heads_go_back", heads)
    assert (found, told) == (["0x3f", "0x3e", "0x3d"], 3)


def test_forged_statuses() -> None:
    assert with_lie(None, statuses)[0] == ["ready", {"inBlock": FINAL}, {"finalized": FINAL}]
    assert with_lie("called_invalid", statuses)[0] == ["invalid"]
    assert with_lie("final_nowhere", statuses)[0][-1] == {"finalized": None}


def test_a_swallowed_question_never_reaches_the_node() -> None:
    found, told, heard = with_lie("forged_final", statuses)
    assert found == [{"finalized": FINAL}]
    assert told == 1
    assert heard == ["chain_getFinalizedHead"]  # which the liar asked, for the block that it names


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no_json", "does not speak JSON-RPC"),
        ("no_text", "broke"),
        ("odd_error", "does not speak JSON-RPC"),
        ("too_deep", "does not speak JSON-RPC"),
        ("huge", "broke"),
        ("endless_number", "does not speak JSON-RPC"),
        ("shouted_error", "your account is empty"),
    ],
)
def test_answers_that_are_none_end_in_a_sentence(name: str, said: str) -> None:
    error, told, _ = with_lie(name, lambda rpc: rpc.call("chain_getHeader"))
    assert isinstance(error, NodeUnreachableError | RpcError)
    assert said in str(error)
    assert told == 1


def test_a_connection_that_is_cut() -> None:
    async def many(rpc: RpcConnection) -> None:
        for _ in range(20):
            await rpc.call("chain_getHeader")

    error, told, heard = with_lie("cut_off", many)
    assert isinstance(error, NodeUnreachableError)
    assert told == 1
    assert len(heard) == 7


def test_messages_out_of_order_all_arrive() -> None:
    async def several(rpc: RpcConnection) -> list[Any]:
        return await asyncio.gather(*(rpc.call("system_accountNextIndex") for _ in range(6)))

    assert with_lie("out_of_order", several)[:2] == ([3] * 6, 3)


def test_values_are_decoded_changed_and_encoded() -> None:
    rich = LIES_BY_NAME["rich"]
    assert isinstance(rich, NodeLie)
    info = AccountInfo(nonce=4, data=AccountData(free=5))
    question = NodeQuestion("state_getStorage", [prefix_of(System.account) + "00"], 1)
    message = NodeMessage(question, {"id": 1, "result": "0x" + encoded(System.account, info)}, is_item=False)
    replies = asyncio.run(rich.of_message(message, None))  # type: ignore[arg-type]  # it says nothing by itself
    assert replies is not None
    reply: Any = replies[0]
    heard = RUNTIME.item(System.account).decode(bytes.fromhex(reply["result"][2:]))
    assert (heard.nonce, heard.data.free) == (4, 5_000)


# ------------------------------------------------------------------------------------------------------------- stores


def from_store(name: str | None, method: str) -> tuple[Any, int]:
    """Return a store's answer through a proxy, and the number of lies."""

    async def true(request: web.Request) -> web.Response:
        return web.Response(status=201, text="stored") if request.method == "PUT" else web.Response(body=BLOB)

    async def run() -> tuple[Any, int]:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", true)
        runner = web.AppRunner(application)
        await runner.setup()
        store_port, port = one_free_port(), one_free_port()
        await web.TCPSite(runner, "127.0.0.1", store_port).start()
        async with StoreProxy(port, f"http://127.0.0.1:{store_port}") as proxy, aiohttp.ClientSession() as session:
            if name is not None:
                lie = LIES_BY_NAME[name]
                assert isinstance(lie, StoreLie)
                proxy.lie = lie
            try:
                async with asyncio.timeout(1.0):
                    url = f"http://127.0.0.1:{port}/blobs"
                    async with session.request(method, url, data=BLOB, allow_redirects=False) as answer:
                        found: Any = (answer.status, await answer.read())
            except (TimeoutError, aiohttp.ClientError) as error:
                found = type(error)
            told = proxy.told
        await runner.cleanup()
        return found, told

    return asyncio.run(run())


def test_a_store_without_a_lie_is_the_store() -> None:
    assert from_store(None, "GET") == ((200, BLOB), 0)
    assert from_store(None, "PUT") == ((201, b"stored"), 0)


def test_a_store_that_is_full_still_serves() -> None:
    assert from_store("full", "PUT") == ((507, b"the store is full"), 1)
    assert from_store("full", "GET") == ((200, BLOB), 0)


def test_a_store_with_other_bytes() -> None:
    assert from_store("other_bytes", "GET") == ((200, BLOB[:-1] + bytes([BLOB[-1] ^ 1])), 1)


def test_stores_that_drip_are_silent_or_gone() -> None:
    assert from_store("drips", "GET") == (TimeoutError, 1)
    assert from_store("silent", "GET") == (TimeoutError, 1)
    found, told = from_store("gone", "GET")
    assert issubclass(found, aiohttp.ClientError)
    assert told >= 1  # the client may have tried again by itself


def test_a_store_that_throws_away_says_that_it_stored() -> None:
    assert from_store("throws_away", "PUT")[0][0] == 201
    assert from_store("throws_away", "GET")[0][0] == 404


def test_a_store_that_sends_on() -> None:
    assert from_store("sends_on", "GET")[0][0] == 307


def test_every_program_is_told_of_every_kind() -> None:
    nodes = [lie for lie in LIES_BY_NAME.values() if isinstance(lie, NodeLie)]
    assert len(LIES_BY_NAME) >= 40
    for program in Program:
        assert sum(program in lie.told for lie in nodes) >= 15
    assert all(lie.says for lie in LIES_BY_NAME.values())
