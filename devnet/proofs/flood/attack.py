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

# The attackers' source address. Honest clients use 127.0.0.1, so limits by address do not affect them.
SOURCE_ADDRESS = "127.0.0.66"
PACE_SECONDS = 0.01
CUT_SECONDS_MAX = 5.0
"""The time that a node may take to end a connection that broke a rule."""
READY = "ready"


class HostileConnection(Protocol):
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
        return json.dumps({account_field.name: getattr(self, account_field.name) for account_field in fields(self)})

    @staticmethod
    def from_json(account_line: str) -> AttackAccount:
        """Return the account from a line of `to_json`."""
        account_json: dict[str, Any] = json.loads(account_line)
        return AttackAccount(**{**account_json, "outcomes": Counter(account_json["outcomes"])})


class AttackScene:
    """One attack in progress."""

    def __init__(self, devnet: Devnet, seconds: float, messages_max: int, random_source: random.Random) -> None:
        """Begin without any message sent."""
        self.devnet, self.seconds, self.random_source = devnet, seconds, random_source
        self.account = AttackAccount()
        self.connections: list[HostileConnection] = []
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
        started, sent_count = trio.current_time(), 0
        while self._allowance > 0:
            backlog = int((trio.current_time() - started) * per_second) + 1 - sent_count
            due_count = min(backlog, at_once, self._allowance)
            # The dropped backlog keeps a stall of this process from becoming a burst that no stranger sent.
            if due_count > 0:
                sent_count += backlog
                self._allowance -= due_count
                yield due_count
            else:
                await trio.sleep(PACE_SECONDS)

    def sent(self, messages: int, size_bytes: int) -> None:
        """Count sent messages and bytes."""
        self.account.messages += messages
        self.account.sent_bytes += size_bytes

    def count_outcome(self, outcome: str) -> None:
        """Count an answer or another outcome."""
        self.account.outcomes[outcome] += 1

    def close(self) -> AttackAccount:
        """Return the account, with the time of each disconnection.

        A connection that was young at the end of the attack proves nothing, and is left out.
        """
        self.account.cut_seconds = [
            connection.cut_seconds
            for connection in self.connections
            if connection.cut_seconds is not None or (connection.open_seconds or 0.0) >= CUT_SECONDS_MAX
        ]
        return self.account


def victim_of(devnet: Devnet) -> NodeLayout:
    """Return the second validator. The first one is the bootnode of all others."""
    return devnet.members[1]


AttackAction = Callable[[AttackScene], Awaitable[None]]
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


class ExtraProcess(StrEnum):
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
    act: AttackAction
    messages_max: int
    rule: str = ""
    """The rule that it breaks. Empty if the attack is legal and may only slow the network down."""
    beside: tuple[Door, ...] = ()
    """The interfaces that are judged beside JSON-RPC, which always is."""
    needs: ExtraProcess = ExtraProcess.NOTHING
    aftermath: Aftermath | None = None
    hogged: bool = False
    """True if it runs beside busy processors, and is compared with a quiet stretch beside them."""

    @property
    def doors(self) -> tuple[Door, ...]:
        """All interfaces that are judged."""
        return (Door.RPC, *self.beside)


HeldOpen = TypeVar("HeldOpen", bound=trio.abc.AsyncResource)
OPENED_PER_SECOND = 2.0
# A listener with a short backlog drops simultaneous connections, which then wait seconds for a retry.
OPENING_AT_ONCE = 64
DRIP_SECONDS = 1.0
CONNECTION_ERRORS = (OSError, trio.BrokenResourceError, trio.ClosedResourceError, WebSocketError)


async def each_socket(
    scene: AttackScene,
    clients: int,
    serve_connection: Callable[[AttackScene, WebSocket], Awaitable[None]],
    sources: Sequence[str] = (SOURCE_ADDRESS,),
) -> None:
    """Keep `clients` WebSockets to JSON-RPC open from each address."""

    async def connect(address: str) -> WebSocket:
        return await open_socket(scene.victim.ports.rpc, address)

    await _keep_connected(scene, clients, connect, serve_connection, sources)


async def each_stream(
    scene: AttackScene,
    port: int,
    clients: int,
    serve_connection: Callable[[AttackScene, trio.SocketStream], Awaitable[None]],
) -> None:
    """Keep `clients` connections of one address to a port."""
    opening_slots = trio.Semaphore(OPENING_AT_ONCE)

    async def connect(address: str) -> trio.SocketStream:
        async with opening_slots:
            return await trio.open_tcp_stream(LOOPBACK, port, local_address=address)

    await _keep_connected(scene, clients, connect, serve_connection, (SOURCE_ADDRESS,))


async def each_dripping(scene: AttackScene, port: int, clients: int, opening: bytes) -> None:
    """Keep `clients` incomplete requests to a port, each continued by a byte a second."""

    async def serve(scene: AttackScene, stream: trio.SocketStream) -> None:
        await stream.send_all(opening)
        scene.sent(1, len(opening))
        while True:
            with trio.move_on_after(DRIP_SECONDS):
                if not await stream.receive_some():
                    return
            await stream.send_all(b"x")

    await each_stream(scene, port, clients, serve)


async def _keep_connected(
    scene: AttackScene,
    clients: int,
    connect: Callable[[str], Awaitable[HeldOpen]],
    serve_connection: Callable[[AttackScene, HeldOpen], Awaitable[None]],
    sources: Sequence[str],
) -> None:
    await scene.begin()
    async with trio.open_nursery() as nursery:
        for address in sources:
            for _ in range(clients):
                nursery.start_soon(_reconnect, scene, connect, serve_connection, address)


async def _reconnect(
    scene: AttackScene,
    connect: Callable[[str], Awaitable[HeldOpen]],
    serve_connection: Callable[[AttackScene, HeldOpen], Awaitable[None]],
    address: str,
) -> None:
    async with aclosing(scene.paced(OPENED_PER_SECOND, at_once=1)) as connection_turns:
        async for _ in connection_turns:
            try:
                connection = await connect(address)
            except CONNECTION_ERRORS as error:
                scene.count_outcome(f"refused: {error if isinstance(error, WebSocketError) else type(error).__name__}")
                continue
            try:
                await serve_connection(scene, connection)
            except CONNECTION_ERRORS:
                pass
            finally:
                await trio.aclose_forcefully(connection)
            scene.count_outcome("closed by the node")
