"""Lies: a name, the words instead of the truth, the programs that hear it, and what they must say of it.

A node's lie takes one message on its way to a program, and returns its replacement, or `TRUTH`. A blob store's lie
takes one request. Always: a lie changes what programs hear, never what a node or a store holds.
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
"""What arrives instead of a message, in this order: JSON values, or bytes as they are. Nothing, if it is lost."""
TRUTH = None
"""The message arrives as it was."""
LIE_SECONDS = 8.0


class Program(StrEnum):
    """A program that hears lies."""

    WALLET = "ogpu-wallet"
    CUSTOMER = "ogpu"
    PROVIDER = "ogpu-provider"


class Noticed(StrEnum):
    """The duty of a program that hears a lie."""

    NAMED = "named"  # every program names it in its message
    UNPROVABLE = "unprovable"  # nobody can prove anything about what is not final
    HARMLESS = "harmless"  # it cannot matter, so no program has to mention it


@dataclass(frozen=True, slots=True)
class NodeQuestion:
    """What a program asked."""

    method: str
    params: Sequence[RpcJson]
    number: RpcJson  # its id


@dataclass(frozen=True, slots=True)
class NodeMessage:
    """One message of the node: the answer to a question, or an item of the subscription that it began."""

    question: NodeQuestion
    content: dict[str, RpcJson]
    is_item: bool

    @property
    def method(self) -> str:
        """What was asked."""
        return self.question.method

    @property
    def value(self) -> RpcJson:
        """The result, or the item; None for an error."""
        return self.content["params"]["result"] if self.is_item else self.content.get("result")

    def saying(self, value: RpcJson) -> dict[str, RpcJson]:
        """The same message with another result."""
        if self.is_item:
            return {**self.content, "params": {**self.content["params"], "result": value}}
        return {"jsonrpc": "2.0", "id": self.question.number, "result": value}

    def failing(self, error: RpcJson) -> dict[str, RpcJson]:
        """The same answer as an error."""
        return {"jsonrpc": "2.0", "id": self.question.number, "error": error}


class Mouth(Protocol):
    """One connection of a program, as the one who lies to it holds it."""

    memory: dict[str, RpcJson]
    """What was said before on it."""

    async def ask(self, method: str, *params: RpcJson) -> RpcJson:
        """The true answer of the node, which the program never sees."""
        ...

    def say(self, reply: RpcJson | bytes, after_seconds: float = 0.0) -> None:
        """Something that arrives beside the answers, later."""
        ...

    def hang_up(self) -> None:
        """End the connection."""
        ...


Replied = Replies | Awaitable[Replies | None] | None


class Store(Protocol):
    """The true store behind a request."""

    async def answer(self, request: web.Request) -> web.Response:
        """What it answers."""
        ...


OfRequest = Callable[[web.Request, Store], Awaitable[web.StreamResponse]]
ANY_METHOD = ("GET", "HEAD", "PUT", "POST")


@dataclass(frozen=True, slots=True)
class NodeLie:
    """A lie of a node, told by exactly one of `value`, `replies` and `instead`."""

    name: str
    says: str
    told: tuple[Program, ...]
    words: tuple[str, ...] = ()
    """Each program that hears the lie prints one of these; without any, nobody has to notice."""
    when: Callable[[NodeMessage], bool] = lambda _: True
    """Other messages arrive as they were."""
    value: Callable[[NodeMessage, Mouth], Any] | None = None
    """Returns another result for the message, or awaits it."""
    replies: Callable[[NodeMessage, Mouth], Replied] | None = None
    instead: Callable[[NodeQuestion, Mouth], Replied] | None = None
    """Answers in the node's place: the node never hears the question."""
    is_unprovable: bool = False
    is_met_anew: bool = False
    """Programs that know the chain hear it, on a new connection."""
    seconds: float = LIE_SECONDS
    """A provider hears it for so long."""

    @property
    def noticed(self) -> Noticed:
        """The duty of each program that hears it."""
        return Noticed.UNPROVABLE if self.is_unprovable else noticed_by(self.words)

    async def of_message(self, message: NodeMessage, mouth: Mouth) -> Replies | None:
        """Return what arrives in place of a message."""
        if self.instead is not None or not self.when(message):
            return TRUTH
        if self.value is not None:
            return [message.saying(await _settled(self.value(message, mouth)))]
        assert self.replies is not None, "a lie says something"
        replies: Replies | None = await _settled(self.replies(message, mouth))
        return replies

    async def of_question(self, question: NodeQuestion, mouth: Mouth) -> Replies | None:
        """Return the answer to a question that the node is not to hear."""
        replies: Replies | None = None if self.instead is None else await _settled(self.instead(question, mouth))
        return replies


@dataclass(frozen=True, slots=True)
class StoreLie:
    """A lie of a blob store, or of all of them."""

    name: str
    says: str
    of_request: OfRequest
    of_methods: tuple[str, ...] = ANY_METHOD
    """Requests of other methods are answered truly."""
    words: tuple[str, ...] = ()
    """The customer prints one of these."""
    everywhere: bool = False

    @property
    def noticed(self) -> Noticed:
        """The customer's duty."""
        return noticed_by(self.words)


Lie = NodeLie | StoreLie


def noticed_by(words: tuple[str, ...]) -> Noticed:
    """Return the duty of programs that have such words for a lie."""
    return Noticed.NAMED if words else Noticed.HARMLESS


async def _settled(said: Any) -> Any:
    return await said if inspect.isawaitable(said) else said
