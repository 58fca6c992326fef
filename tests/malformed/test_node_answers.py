"""A wallet at a wrong server: for any answer, the wallet ends with a clear message."""

import asyncio

import pytest
import websockets
from websockets.asyncio.server import ServerConnection

from wallet.client import ChainClient, UnknownRulesError
from wallet.rpc import NodeUnreachableError, RpcError

ANSWERS = (
    "nonsense",
    "5",
    "[]",
    "null",
    '{"id":[],"result":1}',
    '{"method":"x"}',
    '{"method":"x","params":5}',
    '{"id":1,"error":5}',
    "[" * 100_000,
    b"\xff\xfe",
)
RESULTS = ("null", "5", "{}", "[]", '{"parameters":"x","isDevelopment":1}', '"' + "0" * 1_000 + '"')


async def connect_to(reply: str | bytes, *, by_id: bool) -> None:
    """Connect to a server that gives one answer to everything."""

    async def answer(socket: ServerConnection) -> None:
        number = 0
        async for _ in socket:
            number += 1
            await socket.send(f'{{"jsonrpc":"2.0","id":{number},"result":{reply!s}}}' if by_id else reply)

    async with websockets.serve(answer, "127.0.0.1", 0) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        await ChainClient.connect(f"ws://127.0.0.1:{port}")


@pytest.mark.parametrize("reply", ANSWERS, ids=range(len(ANSWERS)))
def test_answers_that_are_no_json_rpc(reply: str | bytes) -> None:
    with pytest.raises(NodeUnreachableError, match=r"does not speak JSON-RPC|broke"):
        asyncio.run(connect_to(reply, by_id=False))


@pytest.mark.parametrize("result", RESULTS, ids=range(len(RESULTS)))
def test_results_of_another_kind(result: str) -> None:
    with pytest.raises(UnknownRulesError, match="is not a node"):
        asyncio.run(connect_to(result, by_id=True))


def test_an_error_that_is_hardly_one() -> None:
    with pytest.raises(RpcError):
        asyncio.run(connect_to('{"jsonrpc":"2.0","id":1,"error":{"code":"x"}}', by_id=False))
