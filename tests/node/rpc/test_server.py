"""The RPC server's memory: what one client asks for, and does not read, is bounded in bytes."""

import asyncio
import json
from types import SimpleNamespace
from typing import Any, cast

from aiohttp import web

from node.rpc import jsonrpc, server
from node.rpc.registry import Registry, method
from node.rpc.server import Allowance, ClientConnection, Server, ServerOptions

MEBIBYTE = 1024 * 1024


class Large:
    """A method with a large answer."""

    def __init__(self) -> None:
        self.calls = 0

    @method("large")
    def large(self) -> str:
        """Three mebibytes."""
        self.calls += 1
        return "x" * 3 * MEBIBYTE


def test_a_batch_answers_no_more_than_one_response_may_hold() -> None:
    handler = Large()
    server = Server(Registry([handler]), ServerOptions())
    body = json.dumps([{"jsonrpc": "2.0", "method": "large", "id": number} for number in range(100)]).encode()
    text = asyncio.run(server._answer(body, None, Allowance(1_000, 1_000.0)))
    assert text is not None
    assert len(text) < jsonrpc.MAX_RESPONSE_BYTES + 100 * 200
    answers = json.loads(text)
    assert [answer["id"] for answer in answers] == list(range(100))
    assert ["result" in answer for answer in answers[:4]] == [True, True, True, False]
    assert handler.calls == 4


def test_a_client_that_does_not_read_is_dropped_by_bytes() -> None:
    aborted: list[bool] = []
    request = SimpleNamespace(transport=SimpleNamespace(abort=lambda: aborted.append(True)))
    socket: Any = SimpleNamespace(_req=request)
    connection = ClientConnection(Server(Registry([]), ServerOptions()), cast(web.WebSocketResponse, socket))
    sent = 0
    while not aborted:
        connection._send("x" * MEBIBYTE)
        sent += 1
        assert sent * MEBIBYTE <= server.OUTBOX_BYTES_MAX + MEBIBYTE
    assert connection.outbox.qsize() * MEBIBYTE <= server.OUTBOX_BYTES_MAX
