"""What a lie is: a name, what is said instead of the truth, to which programs, and what they must say of it.

A lie of a node is a function of one message on its way to a program: it gives what arrives in its place, or `TRUTH`. A
lie of a blob store is a function of one request. Always: a lie changes what programs hear, never what a node or a store
holds.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from aiohttp import web

from wallet.rpc import RpcJson

Replies = Sequence[RpcJson | bytes]
"""What arrives instead of a message, in this order: JSON values, or bytes as they are. Nothing, if it is lost."""
TRUTH = None
"""The message arrives as it was."""
LIE_SECONDS = 8.0


class Program(StrEnum):
    """Who is lied to."""

    WALLET = "ogpu-wallet"
    CUSTOMER = "ogpu"
    PROVIDER = "ogpu-provider"


class Noticed(StrEnum):
    """What must be said of a lie."""

    NAMED = "named"  # by every program that is told, in its message
    UNPROVABLE = "unprovable"  # of what is not final nobody can prove anything
    HARMLESS = "harmless"  # it cannot matter, so nothing has to be said


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


OfMessage = Callable[[NodeMessage, Mouth], Replies | Awaitable[Replies | None] | None]
OfQuestion = Callable[[NodeQuestion, Mouth], Replies | Awaitable[Replies | None] | None]


class Store(Protocol):
    """The true store behind a request."""

    async def answer(self, request: web.Request) -> web.Response:
        """What it answers."""
        ...


OfRequest = Callable[[web.Request, Store], Awaitable[web.StreamResponse]]
ANY_METHOD = ("GET", "HEAD", "PUT", "POST")


@dataclass(frozen=True, slots=True)
class NodeLie:
    """A lie of a node. `words`: one of them stands in the message of each program that is told, where it is named."""

    name: str
    says: str
    told: tuple[Program, ...]
    noticed: Noticed
    words: tuple[str, ...]
    of_message: OfMessage | None = None
    of_question: OfQuestion | None = None
    """Answers in the node's place: the node never hears the question."""
    is_met_anew: bool = False
    """It is told to programs that know the chain, on a new connection."""
    seconds: float = LIE_SECONDS
    """So long it is told to a provider."""


@dataclass(frozen=True, slots=True)
class StoreLie:
    """A lie of a blob store, or of all of them; `words` stand in the customer's message where it is named."""

    name: str
    says: str
    of_request: OfRequest
    of_methods: tuple[str, ...]
    """Requests of other methods are answered truly."""
    noticed: Noticed
    words: tuple[str, ...]
    everywhere: bool


Lie = NodeLie | StoreLie


async def settled(said: Replies | Awaitable[Replies | None] | None) -> Replies | None:
    """What a lie's function gives, whether it had to ask or not."""
    return await said if inspect.isawaitable(said) else said


def lie(
    *told: Program,
    noticed: Noticed = Noticed.NAMED,
    words: tuple[str, ...] = (),
    is_met_anew: bool = False,
    seconds: float = LIE_SECONDS,
) -> Callable[[OfMessage], NodeLie]:
    """Make a lie of a function of messages; its name is the function's, what it says is its docstring."""

    def make(function: OfMessage) -> NodeLie:
        name, says = _named(function)
        return NodeLie(name, says, told, noticed, words, function, is_met_anew=is_met_anew, seconds=seconds)

    return make


def lie_instead(
    *told: Program, noticed: Noticed = Noticed.NAMED, words: tuple[str, ...] = ()
) -> Callable[[OfQuestion], NodeLie]:
    """Make a lie of a function of questions, which the node does not hear where the function answers."""

    def make(function: OfQuestion) -> NodeLie:
        return NodeLie(*_named(function), told, noticed, words, of_question=function)

    return make


def lie_of_store(
    *of_methods: str, noticed: Noticed = Noticed.HARMLESS, words: tuple[str, ...] = (), everywhere: bool = False
) -> Callable[[OfRequest], StoreLie]:
    """Make a lie of a store of a function of requests; with `everywhere` all stores tell it."""

    def make(function: OfRequest) -> StoreLie:
        name, says = _named(function)
        return StoreLie(name, says, function, of_methods or ANY_METHOD, noticed, words, everywhere)

    return make


def _named(function: Callable[..., object]) -> tuple[str, str]:
    return getattr(function, "__name__", ""), " ".join((inspect.getdoc(function) or "").split())


async def pause(seconds: float) -> None:
    """What liars do who take their time."""
    await asyncio.sleep(seconds)
