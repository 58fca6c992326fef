"""Lies: a name, the false statement, the programs that hear it, and the words that must name it.

A node's lie takes one message on its way to a program, and returns its replacement, or `TRUTH`. A blob store's lie
takes one request. Invariant: a lie changes the answers to programs, never the data of a node or a store.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from aiohttp import web

from wallet.rpc import RpcJson

Replies = Sequence[RpcJson | bytes]
"""The replacement of a message, in order: JSON values, or raw bytes. Empty if the message is lost."""
TRUTH = None
"""The message arrives unchanged."""
LIE_SECONDS = 8.0


class Program(StrEnum):
    """A program that hears lies."""

    WALLET = "ogpu-wallet"
    CUSTOMER = "ogpu"
    PROVIDER = "ogpu-provider"


class Noticed(StrEnum):
    """The duty of a program that hears a lie."""

    NAMED = "named"  # every program names it in its output
    UNPROVABLE = "unprovable"  # no proof exists about non-final state
    HARMLESS = "harmless"  # it cannot matter, so no program has to mention it


@dataclass(frozen=True, slots=True)
class NodeQuestion:
    """A program's JSON-RPC request."""

    method: str
    params: Sequence[RpcJson]
    number: RpcJson  # its id


@dataclass(frozen=True, slots=True)
class NodeMessage:
    """One message of the node: the answer to a request, or an item of a subscription."""

    question: NodeQuestion
    content: dict[str, RpcJson]
    is_item: bool

    @property
    def method(self) -> str:
        """The request's method."""
        return self.question.method

    @property
    def value(self) -> RpcJson:
        """The result, or the item; None for an error."""
        return self.content["params"]["result"] if self.is_item else self.content.get("result")

    def saying(self, other_result: RpcJson) -> dict[str, RpcJson]:
        """Return the message with another result."""
        if self.is_item:
            return {**self.content, "params": {**self.content["params"], "result": other_result}}
        return {"jsonrpc": "2.0", "id": self.question.number, "result": other_result}

    def failing(self, error_object: RpcJson) -> dict[str, RpcJson]:
        """Return the answer as an error."""
        return {"jsonrpc": "2.0", "id": self.question.number, "error": error_object}


class LyingConnection(Protocol):
    """A liar's view of a program's connection."""

    memory: dict[str, RpcJson]
    """The liar's notes on this connection."""

    async def ask(self, method: str, *params: RpcJson) -> RpcJson:
        """Return the node's true answer, which the program never sees."""
        ...

    def say(self, reply: RpcJson | bytes, after_seconds: float = 0.0) -> None:
        """Send a message later, beside the answers."""
        ...

    def hang_up(self) -> None:
        """End the connection."""
        ...


MaybeReplies = Replies | Awaitable[Replies | None] | None


class Store(Protocol):
    """The true store behind a request."""

    async def answer(self, request: web.Request) -> web.Response:
        """Return the store's answer."""
        ...


StoreAnswer = Callable[[web.Request, Store], Awaitable[web.StreamResponse]]
ANY_METHOD = ("GET", "HEAD", "PUT", "POST")


@dataclass(frozen=True, slots=True)
class NodeLie:
    """A lie of a node. Exactly one of `value`, `replies` and `instead` tells it."""

    name: str
    says: str
    told: tuple[Program, ...]
    words: tuple[str, ...] = ()
    """Each program that hears the lie prints one of these. Without words, no program has to notice it."""
    when: Callable[[NodeMessage], bool] = lambda _: True
    """Selects the messages to change. Others arrive unchanged."""
    value: Callable[[NodeMessage, LyingConnection], Any] | None = None
    """Returns another result for the message, or an awaitable of it."""
    replies: Callable[[NodeMessage, LyingConnection], MaybeReplies] | None = None
    instead: Callable[[NodeQuestion, LyingConnection], MaybeReplies] | None = None
    """Answers in the node's place. The node never receives the request."""
    is_unprovable: bool = False
    is_met_anew: bool = False
    """True if programs that know the chain hear it on a new connection."""
    seconds: float = LIE_SECONDS
    """The time for which a provider hears it."""

    @property
    def noticed(self) -> Noticed:
        """The duty of each program that hears it."""
        return Noticed.UNPROVABLE if self.is_unprovable else noticed_by(self.words)

    async def of_message(self, message: NodeMessage, connection: LyingConnection) -> Replies | None:
        """Return the replacement of a message."""
        if self.instead is not None or not self.when(message):
            return TRUTH
        if self.value is not None:
            return [message.saying(await _awaited(self.value(message, connection)))]
        assert self.replies is not None, "a lie says something"
        replies: Replies | None = await _awaited(self.replies(message, connection))
        return replies

    async def of_question(self, question: NodeQuestion, connection: LyingConnection) -> Replies | None:
        """Return the answer to a request that the node must not receive."""
        replies: Replies | None = None if self.instead is None else await _awaited(self.instead(question, connection))
        return replies


@dataclass(frozen=True, slots=True)
class StoreLie:
    """A lie of a blob store, or of all of them."""

    name: str
    says: str
    of_request: StoreAnswer
    of_methods: tuple[str, ...] = ANY_METHOD
    """The HTTP methods that get the lie. Others get the true answer."""
    words: tuple[str, ...] = ()
    """The customer prints one of these."""
    everywhere: bool = False

    @property
    def noticed(self) -> Noticed:
        """The customer's duty."""
        return noticed_by(self.words)


Lie = NodeLie | StoreLie


def noticed_by(naming_words: tuple[str, ...]) -> Noticed:
    """Return the duty of programs, given the words for a lie."""
    return Noticed.NAMED if naming_words else Noticed.HARMLESS


async def _awaited(lying_value: Any) -> Any:
    return await lying_value if inspect.isawaitable(lying_value) else lying_value
