"""The definition of an attack, the attacker's tools, and its open connections.

Invariant: an attack connects only to nodes of its own devnet, on loopback. It ends after the scene's time, and all its
tasks together send at most the allowance of `paced`. The clock starts when `begin` returns, so preparation does not
shorten the attack.
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, Protocol, TypeVar

import trio

from devnet.launcher.layout import Devnet, NodeLayout, genesis_hash
from devnet.proofs.flood.clients import LOOPBACK, WebSocket, WebSocketError, open_socket

SOURCE_ADDRESS = "127.0.0.66"
"""The attackers' source address. Honest clients use 127.0.0.1, so limits by address do not affect them."""
PACE_SECONDS = 0.01
YOUNG_SECONDS = 5.0
"""The time that a node may take to end a connection that broke a rule."""
READY = "ready"


class Cut(Protocol):
    """A connection that a node may end."""

    @property
    def open_seconds(self) -> float | None:
        """The seconds since its first message, or None before it."""

    @property
    def cut_seconds(self) -> float | None:
        """The seconds from the first message to the end of the connection, or None while it is open."""


@dataclass(slots=True)
class AttackAccount:
    """The attacker's messages and their outcomes."""

    messages: int = 0
    sent_bytes: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    cut_seconds: list[float | None] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    cpu_seconds: float = 0.0

    def to_json(self) -> str:
        """Return the account as one line of JSON."""
        return json.dumps({part.name: getattr(self, part.name) for part in fields(self)})

    @staticmethod
    def from_json(line: str) -> AttackAccount:
        """Return the account from a line of `to_json`."""
        content: dict[str, Any] = json.loads(line)
        return AttackAccount(**{**content, "outcomes": Counter(content["outcomes"])})


class Scene:
    """One attack in progress."""

    def __init__(self, devnet: Devnet, seconds: float, messages_max: int, random_source: random.Random) -> None:
        """Begin without any message sent."""
        self.devnet, self.seconds, self.rng = devnet, seconds, random_source
        self.account = AttackAccount()
        self.connections: list[Cut] = []
        self.time = trio.CancelScope()
        self._allowance = messages_max
        self.genesis = genesis_hash(devnet)

    @property
    def validators(self) -> tuple[NodeLayout, ...]:
        """The members that vote."""
        return tuple(member for member in self.devnet.members if member.is_validator)

    @property
    def victim(self) -> NodeLayout:
        """The member whose RPC, metrics and sockets are attacked. Honest clients query the same node."""
        return victim_of(self.devnet)

    async def begin(self) -> None:
        """Report to the parent process that all is prepared, and wait for its signal to start."""
        print(READY, flush=True)
        await trio.to_thread.run_sync(sys.stdin.readline)
        self.time.deadline = trio.current_time() + self.seconds

    async def paced(self, per_second: float, at_once: int = 1000) -> AsyncGenerator[int, None]:
        """Yield the number of messages that are due, repeatedly, until the allowance is used up.

        A backlog above `at_once` is dropped.
        """
        start_time, given = trio.current_time(), 0
        while self._allowance > 0:
            wanted = int((trio.current_time() - start_time) * per_second) + 1 - given
            due = min(wanted, at_once, self._allowance)
            if due > 0:
                given += wanted
                self._allowance -= due
                yield due
            else:
                await trio.sleep(PACE_SECONDS)

    def sent(self, messages: int, size: int) -> None:
        """Count sent messages and bytes."""
        self.account.messages += messages
        self.account.sent_bytes += size

    def note(self, outcome: str) -> None:
        """Count an answer or another outcome."""
        self.account.outcomes[outcome] += 1

    def close(self) -> AttackAccount:
        """Return the account, with the time of each disconnection.

        A connection that was young at the end of the attack proves nothing, and is left out.
        """
        self.account.cut_seconds = [
            connection.cut_seconds
            for connection in self.connections
            if connection.cut_seconds is not None or (connection.open_seconds or 0.0) >= YOUNG_SECONDS
        ]
        return self.account


def victim_of(devnet: Devnet) -> NodeLayout:
    """Return the second validator. The first one is the bootnode of all others."""
    return devnet.members[1]


Act = Callable[[Scene], Awaitable[None]]
Aftermath = Callable[[Devnet], Awaitable[list[str]]]
"""A check after the attack. It returns the problems, one sentence each."""


class Door(StrEnum):
    """An interface for honest clients. Each is tried continuously, from an address of its own."""

    RPC = "rpc"  # one call by HTTP POST, each on its own connection
    WEBSOCKET = "websocket"  # connect, one call, disconnect
    METRICS = "metrics"  # GET /metrics
    PEERS = "peers"  # a full node's handshake
    BLOBS = "blobs"  # GET of an earlier blob
    PROOFS = "proofs"  # a proof of one key by HTTP POST
    SLOTS = "slots"  # the handshake of a validator of this epoch, while strangers compete for its slot


class Needs(StrEnum):
    """The processes that an attack needs beside the four validators."""

    NOTHING = "nothing"
    PROVIDER = "a provider"
    STRICT_NODE = "a node with few slots"


@dataclass(frozen=True, slots=True)
class Attack:
    """One attack."""

    name: str
    finding: str
    tries: str
    act: Act
    messages_max: int
    rule: str = ""
    """The rule that it breaks. Empty if the attack is legal and may only slow the network down."""
    beside: tuple[Door, ...] = ()
    """The interfaces that are judged beside JSON-RPC, which always is."""
    needs: Needs = Needs.NOTHING
    aftermath: Aftermath | None = None
    hogged: bool = False
    """True if it runs beside busy processors, and is compared with a quiet stretch beside them."""

    @property
    def doors(self) -> tuple[Door, ...]:
        """All interfaces that are judged."""
        return (Door.RPC, *self.beside)


HeldOpen = TypeVar("HeldOpen", bound=trio.abc.AsyncResource)
OPENED_PER_SECOND = 2.0
OPENING_AT_ONCE = 64
"""A listener with a short backlog drops simultaneous connections, which then wait seconds for a retry."""
DRIP_SECONDS = 1.0
BROKEN = (OSError, trio.BrokenResourceError, trio.ClosedResourceError, WebSocketError)


async def each_socket(
    scene: Scene,
    clients: int,
    serve: Callable[[Scene, WebSocket], Awaitable[None]],
    sources: Sequence[str] = (SOURCE_ADDRESS,),
) -> None:
    """Keep `clients` WebSockets to JSON-RPC open from each address."""

    async def connect(source: str) -> WebSocket:
        return await open_socket(scene.victim.ports.rpc, source)

    await _each(scene, clients, connect, serve, sources)


async def each_stream(
    scene: Scene, port: int, clients: int, serve: Callable[[Scene, trio.SocketStream], Awaitable[None]]
) -> None:
    """Keep `clients` connections of one address to a port."""
    turn = trio.Semaphore(OPENING_AT_ONCE)

    async def connect(source: str) -> trio.SocketStream:
        async with turn:
            return await trio.open_tcp_stream(LOOPBACK, port, local_address=source)

    await _each(scene, clients, connect, serve, (SOURCE_ADDRESS,))


async def each_dripping(scene: Scene, port: int, clients: int, opening: bytes) -> None:
    """Keep `clients` incomplete requests to a port, each continued by a byte a second."""

    async def serve(scene: Scene, stream: trio.SocketStream) -> None:
        await stream.send_all(opening)
        scene.sent(1, len(opening))
        while True:
            with trio.move_on_after(DRIP_SECONDS):
                if not await stream.receive_some():
                    return
            await stream.send_all(b"x")

    await each_stream(scene, port, clients, serve)


async def _each(
    scene: Scene,
    clients: int,
    connect: Callable[[str], Awaitable[HeldOpen]],
    serve: Callable[[Scene, HeldOpen], Awaitable[None]],
    sources: Sequence[str],
) -> None:
    await scene.begin()
    async with trio.open_nursery() as nursery:
        for source in sources:
            for _ in range(clients):
                nursery.start_soon(_client, scene, connect, serve, source)


async def _client(
    scene: Scene,
    connect: Callable[[str], Awaitable[HeldOpen]],
    serve: Callable[[Scene, HeldOpen], Awaitable[None]],
    source: str,
) -> None:
    async with aclosing(scene.paced(OPENED_PER_SECOND, at_once=1)) as turns:
        async for _ in turns:
            try:
                connection = await connect(source)
            except BROKEN as error:
                scene.note(f"refused: {error if isinstance(error, WebSocketError) else type(error).__name__}")
                continue
            try:
                await serve(scene, connection)
            except BROKEN:
                pass
            finally:
                await trio.aclose_forcefully(connection)
            scene.note("closed by the node")
