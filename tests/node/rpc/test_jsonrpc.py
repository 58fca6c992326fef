"""JSON-RPC as values: the work of reading a message grows with its bytes, and depth is bounded."""

import subprocess
import sys
from types import FrameType
from typing import Any, cast

import pytest

from node.rpc import jsonrpc
from node.rpc.jsonrpc import JsonRpcError, RequestLimits, RpcRequest, parse

SIZE = 500
TIMES = 8
CPU_SECONDS = 30
HOSTILE = {
    "escaped quotes, no end": lambda n: b'"' + rb"\"" * n,
    "escaped quotes": lambda n: b'"' + rb"\"" * n + b'"',
    "quotes": lambda n: b'"' * n,
    "brackets": lambda n: b"[" * n,
    "closed brackets": lambda n: b"[" * n + b"]" * n,
    "empty lists": lambda n: b"[" + b"[]," * n + b"[]]",
    "empty strings": lambda n: b'{"method":"x","params":[' + b'"",' * n + b'""]}',
    "objects": lambda n: b'[{"a":' * n + b"0" + b"}]" * n,
    "backslashes": lambda n: b"\\" * n,
}


def executed(body: bytes) -> int:
    """Return the number of bytecode instructions that the module `jsonrpc` executes to read a body."""
    count = 0

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal count
        if frame.f_code.co_filename != jsonrpc.__file__:
            return None
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        parse(body)
    except JsonRpcError:
        pass
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("shape", HOSTILE)
def test_work_grows_with_the_bytes(shape: str) -> None:
    small, large = (executed(HOSTILE[shape](size)) for size in (SIZE, TIMES * SIZE))
    assert small > 0
    assert large <= (TIMES + 1) * small


def test_a_mebibyte_of_escaped_quotes_costs_little() -> None:
    """In a process limited to 30 s of processor time. A pattern that restarts at each quote takes half an hour."""
    program = (
        f"import resource; resource.setrlimit(resource.RLIMIT_CPU, ({CPU_SECONDS}, {CPU_SECONDS}))\n"
        "from node.rpc.jsonrpc import JsonRpcError, parse\n"
        "try:\n    parse(b'\"' + rb'\\\"' * (512 * 1024 - 1))\n"
        "except JsonRpcError as error:\n    print(error.code)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "-32700"


def test_depth_is_bounded() -> None:
    def nested(depth: int) -> bytes:
        return b'{"method":"x","params":' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"

    assert isinstance(parse(nested(jsonrpc.MAX_DEPTH)), RpcRequest)
    for depth in (jsonrpc.MAX_DEPTH + 1, 500, 100_000):
        with pytest.raises(JsonRpcError, match="Parse error"):
            parse(nested(depth))


@pytest.mark.parametrize("part", [b"[" * 31 + b"]" * 31 + b",", b"{},", b"[],", b"1,", b'"",'])
def test_m7_a_megabyte_of_brackets_or_values_is_refused_before_it_is_decoded(
    part: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[bytes] = []
    monkeypatch.setattr("json.loads", lambda body, **_: decoded.append(body))
    with pytest.raises(JsonRpcError, match="Parse error"):
        parse(b"[" + part * (1_000_000 // len(part)) + b"0]")
    assert not decoded


def test_the_largest_batch_has_few_brackets_for_that_limit() -> None:
    call = b'{"jsonrpc":"2.0","id":1,"method":"m","params":[[["0x00"]],{"a":[]}]}'
    assert len(cast("list[object]", parse(b"[" + b",".join([call] * jsonrpc.MAX_BATCH) + b"]"))) == jsonrpc.MAX_BATCH


def test_brackets_in_strings_do_not_count() -> None:
    assert isinstance(parse(b'{"method":"' + b"[{" * 100 + b'"}'), RpcRequest)


def test_limits_have_the_codes_and_words_of_substrate() -> None:
    with pytest.raises(JsonRpcError) as batch:
        parse(b"[" + b"0," * 3 + b"0]", RequestLimits(batch=3))
    assert batch.value.to_json() == {
        "code": -32010, "message": "The batch request was too large", "data": "Exceeded max limit of 3",
    }  # fmt: skip
    with pytest.raises(JsonRpcError) as size:
        parse(b" " * (1024 * 1024 + 1), RequestLimits(request_mebibytes=1))
    assert size.value.to_json() == {
        "code": -32007, "message": "Request is too big", "data": "Exceeded max limit of 1048576",
    }  # fmt: skip
