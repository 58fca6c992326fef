"""JSON-RPC 2.0 as values: bytes in, requests out, without sockets and methods.

Invariant: for any bytes, `parse` returns requests or raises `JsonRpcError`, and no other exception. Its work is at most
proportional to the bytes. Errors have the codes and sentences of Substrate's server, which clients check.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

Json = Any

MEBIBYTE = 1024 * 1024
MAX_REQUEST_MEBIBYTES = 1
MAX_RESPONSE_BYTES = 10 * MEBIBYTE
MAX_BATCH = 500
CONTAINERS_MAX = 32_768  # lists and objects in one message
COMMAS_MAX = 65_536  # commas in one message, those within strings included; this bounds its values
MAX_DEPTH = 32

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
# The codes by which Substrate's clients recognise a failure.
INVALID_TRANSACTION = 1010
CLIENT_ERROR = 4003
TOO_MANY_SUBSCRIPTIONS = -32006
REQUEST_TOO_LARGE = -32007
RESPONSE_TOO_LARGE = -32008
TOO_BUSY = -32009
BATCH_TOO_LARGE = -32010
BATCH_RESPONSE_TOO_LARGE = -32011
RATE_LIMITED = -32999


class JsonRpcError(Exception):
    """A request that cannot be answered: `code` and `message` are sent to the client, `data` explains."""

    def __init__(self, code: int, message: str, data: Json = None) -> None:
        """Keep the three parts that JSON-RPC sends."""
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data

    def to_json(self) -> Json:
        """Return the `error` member of a response."""
        error_object: dict[str, Json] = {"code": self.code, "message": self.message}
        if self.data is not None:
            error_object["data"] = self.data
        return error_object


@dataclass(frozen=True, slots=True)
class RpcRequest:
    """One call: `id` is None for a notification, which gets no answer."""

    method: str
    params: list[Json] | dict[str, Json]
    id: str | int | None
    is_notification: bool = False


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """The longest message, and the most requests in a batch."""

    request_mebibytes: int = MAX_REQUEST_MEBIBYTES
    batch: int = MAX_BATCH

    @property
    def request_bytes(self) -> int:
        """The longest message in bytes."""
        return self.request_mebibytes * MEBIBYTE


DEFAULT_LIMITS = RequestLimits()
_ENCODER = json.JSONEncoder(separators=(",", ":"))  # creating one for each answer would take longer than the answer


def parse(body: bytes, limits: RequestLimits = DEFAULT_LIMITS) -> RpcRequest | list[RpcRequest | JsonRpcError]:
    """Decode a request or a batch; a malformed member of a batch becomes a `JsonRpcError` in its place.

    Raise `JsonRpcError` if the message as a whole is malformed or too large.
    """
    if len(body) > limits.request_bytes:
        raise exceeded(REQUEST_TOO_LARGE, "Request is too big", limits.request_bytes)
    # A megabyte of brackets took half a second in one step. 1,000 calls have a few thousand of them.
    if body.count(b"[") + body.count(b"{") > CONTAINERS_MAX:
        raise JsonRpcError(PARSE_ERROR, "Parse error", f"more than {CONTAINERS_MAX} lists and objects")
    # Half a million numbers took 130 ms.
    if body.count(b",") > COMMAS_MAX:
        raise JsonRpcError(PARSE_ERROR, "Parse error", f"more than {COMMAS_MAX} commas")
    try:
        value = json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise JsonRpcError(PARSE_ERROR, "Parse error", str(error)[:200]) from None
    _refuse_deep(value)
    if not isinstance(value, list):
        return _request_of(value)
    if not value:
        raise JsonRpcError(INVALID_REQUEST, "Invalid request", "an empty batch")
    if len(value) > limits.batch:
        raise exceeded(BATCH_TOO_LARGE, "The batch request was too large", limits.batch)
    return [_request_or_error(batch_member) for batch_member in value]


def exceeded(code: int, message: str, limit: int) -> JsonRpcError:
    """Return the error for more than a limit allows, in Substrate's words."""
    return JsonRpcError(code, message, f"Exceeded max limit of {limit}")


def result(request_id: str | int | None, result_value: Json) -> Json:
    """Return a successful response."""
    return {"jsonrpc": "2.0", "result": result_value, "id": request_id}


def failure(request_id: str | int | None, error: JsonRpcError) -> Json:
    """Return a failed response."""
    return {"jsonrpc": "2.0", "error": error.to_json(), "id": request_id}


def notification(method: str, subscription_id: str, item_value: Json) -> Json:
    """Return one item of a subscription."""
    return {"jsonrpc": "2.0", "method": method, "params": {"subscription": subscription_id, "result": item_value}}


def notification_text(method: str, subscription_id: str, text: str) -> str:
    """Return one item of a subscription from JSON text; the names are our own, and need no escapes."""
    return f'{{"jsonrpc":"2.0","method":"{method}","params":{{"subscription":"{subscription_id}","result":{text}}}}}'


def dumps(response: Json) -> str:
    """Return the text of a response, or an error if it is too large."""
    return bounded(_ENCODER.encode(response), response.get("id") if isinstance(response, dict) else None)


def bounded(text: str, request_id: str | int | None) -> str:
    """Return a response, or an error if it is too large."""
    if len(text) <= MAX_RESPONSE_BYTES:
        return text
    return json.dumps(failure(request_id, exceeded(RESPONSE_TOO_LARGE, "Response is too big", MAX_RESPONSE_BYTES)))


def _request_or_error(value: Json) -> RpcRequest | JsonRpcError:
    try:
        return _request_of(value)
    except JsonRpcError as error:
        return error.with_traceback(None)  # stored for the whole batch, so without its frames


def _request_of(value: Json) -> RpcRequest:
    if not isinstance(value, dict):
        raise JsonRpcError(INVALID_REQUEST, "Invalid request", "not an object")
    method = value.get("method")
    params = value.get("params", [])
    request_id = value.get("id")
    if not isinstance(method, str):
        raise JsonRpcError(INVALID_REQUEST, "Invalid request", "`method` is not a string")
    if params is None:
        params = []
    if not isinstance(params, list | dict):
        raise JsonRpcError(INVALID_PARAMS, "Invalid params", "`params` is neither a list nor an object")
    if isinstance(request_id, bool) or not isinstance(request_id, str | int | None):
        raise JsonRpcError(INVALID_REQUEST, "Invalid request", "`id` is neither a string, a number nor null")
    return RpcRequest(method, params, request_id, is_notification="id" not in value)


def _refuse_constant(constant_name: str) -> Json:
    raise ValueError(f"{constant_name} is not JSON")


def _refuse_deep(value: Json) -> None:
    """Raise `JsonRpcError` if lists and objects nest deeper than `MAX_DEPTH`; each is visited once.

    The decoder has a limit of its own, which differs between Python versions.
    """
    level_values = [value]
    for _ in range(MAX_DEPTH + 1):
        containers = [container for container in level_values if isinstance(container, list | dict)]
        if not containers:
            return
        level_values = []
        for container in containers:
            level_values += container.values() if isinstance(container, dict) else container
    raise JsonRpcError(PARSE_ERROR, "Parse error", f"nested deeper than {MAX_DEPTH}")
