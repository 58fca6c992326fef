"""Error messages for people: no message has Python's form of a value."""

import asyncio
from http import HTTPStatus

import pytest
import websockets

from runtime.encoding.codec import DecodeError
from runtime.frame.storage import StateCorrupted
from wallet.errors import REASON_LENGTH_MAX, in_words, unquoted
from wallet.rpc import REFUSAL_LENGTH_MAX, NodeRefusesError, RpcConnection, RpcError


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (KeyError("number"), "a part of it is missing"),
        (IndexError("list index out of range"), "a part of it is missing"),
        (TypeError("string indices must be integers, not 'str'"), "a part of it is of another kind"),
        (AttributeError("'NoneType' object has no attribute 'items'"), "a part of it is of another kind"),
        (RecursionError("maximum recursion depth exceeded"), "it is nested too deeply"),
        (OverflowError("int too big to convert"), "a number in it is out of range"),
        (AssertionError(), "its parts contradict each other"),
        (ValueError("not hex"), "not hex"),
        (ValueError(), "it cannot be read"),
        (ValueError("\x1b[2J" + "x" * 500), " [2J" + "x" * (REASON_LENGTH_MAX - 4)),
        (DecodeError("end of input", 3), "end of input at byte 3"),
        (StateCorrupted("units: end of input at byte 3"), "units: end of input at byte 3"),
    ],
)
def test_why_an_answer_could_not_be_read(error: Exception, words: str) -> None:
    assert in_words(error) == words


def test_what_a_node_writes_loses_python_s_quotes() -> None:
    said = RpcError(1002, "Verification Error", "cannot be read: b'Corruption: bad block' in b\"it's 000005.ldb\"")
    assert str(said) == "Verification Error: cannot be read: Corruption: bad block in it's 000005.ldb"
    assert unquoted("a tab'le of b'") == "a tab'le of b'"


def test_a_node_s_refusal_is_one_line_of_limited_length() -> None:
    assert str(RpcError(1, "no\nerror: sent", "why")) == "no error: sent: why"
    assert len(str(RpcError(1, "x" * 1_000_000))) == REFUSAL_LENGTH_MAX


@pytest.mark.parametrize(("status", "is_named"), [(429, False), (503, False), (401, True), (502, True)])
def test_a_full_node_is_told_apart_from_one_that_refuses(status: int, is_named: bool) -> None:
    error = NodeRefusesError("ws://node", status)
    assert (error.status, f"HTTP {status}" in str(error)) == (status, is_named)


@pytest.mark.parametrize("status", [HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.UNAUTHORIZED])
async def test_a_node_that_turns_a_connection_away_is_told_with_its_status(status: HTTPStatus) -> None:
    turned_away = websockets.serve(
        lambda _: asyncio.sleep(0), "127.0.0.1", 0, process_request=lambda socket, _: socket.respond(status, "no")
    )
    async with turned_away as server:
        port = next(iter(server.sockets)).getsockname()[1]
        with pytest.raises(NodeRefusesError) as refused:
            await RpcConnection.open(f"ws://127.0.0.1:{port}")
    assert refused.value.status == status
