"""A hostile peer: a stranger that has completed the handshake.

It uses the node's own client side, so its frames are valid unless an attack says else.

Invariant: it answers pings, so no node disconnects it for silence. It knows the node's height and round, so its
forgeries are plausible. It records when, and by which side, the connection ended.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Iterable, Sequence

import trio

from consensus.wire import MESSAGE, NeedCerts, Vote
from devnet.launcher.layout import NodeLayout
from devnet.proofs.flood.attack import SOURCE_ADDRESS, Act, Scene
from node.p2p.addresses import parse_address
from node.p2p.channel import ChannelClosed
from node.p2p.connection import Connection
from node.p2p.frames import Frame, FrameError, FrameKind, decode_frame, encode_frame
from node.p2p.handshake import Handshaker
from node.p2p.hardening import NoiseUpgrade
from node.p2p.hello import Hello, Role
from node.p2p.identity import NodeIdentity, identity_from_seed
from node.p2p.work import ReadingAccounts
from node.p2p.yamux import YamuxError
from node.peers.messages import STATUS, PeerStatus

FloodMessage = tuple[FrameKind, bytes]
MESSAGES_PER_FRAME = 512
FRAME_BYTES = 1024 * 1024
HEAR_SECONDS = 3.0
ANSWER_SECONDS = 1.0
DIAL_SECONDS = 10.0
ServeConnection = Callable[["HostilePeer"], Awaitable[None]]
Make = Callable[["HostilePeer", int], FloodMessage]


class HostilePeer:
    """One connection to one node."""

    def __init__(self, scene: Scene, member: NodeLayout, connection: Connection) -> None:
        """Wrap a connection. Callers use `dial` instead."""
        self.member = member
        self.standing: PeerStatus | None = None
        self.position: tuple[int, int] | None = None  # epoch and round of the node's votes
        self._scene, self._connection = scene, connection
        self._began: float | None = None
        self._ended: float | None = None
        self.gone, self.heard = trio.Event(), trio.Event()
        self._writing = trio.Lock()
        self._pongs: list[FloodMessage] = []
        self.answers: dict[FrameKind, Callable[[bytes], list[FloodMessage]]] = {}
        """The answers to the node's requests, by kind."""

    @property
    def is_gone(self) -> bool:
        """True if the node ended the connection."""
        return self.gone.is_set()

    @property
    def open_seconds(self) -> float | None:
        """The seconds since the first message."""
        return None if self._began is None else trio.current_time() - self._began

    @property
    def cut_seconds(self) -> float | None:
        """The seconds from the first message to the end."""
        if self._began is None or self._ended is None:
            return None
        return self._ended - self._began

    async def listen(self) -> None:
        """Read until the node ends the connection."""
        try:
            while True:
                for body in await self._connection.receive():
                    await self._hear(decode_frame(body))
        except (ChannelClosed, FrameError, YamuxError):
            self._ended = trio.current_time()
            self.gone.set()

    async def send(self, messages: Iterable[FloodMessage]) -> bool:
        """Send messages in as few frames as possible. Return False after the end of the connection."""
        waiting: list[FloodMessage] = []
        size = 0
        for message in messages:
            if waiting and (len(waiting) == MESSAGES_PER_FRAME or size + len(message[1]) > FRAME_BYTES):
                await self._frame(waiting, size)
                waiting, size = [], 0
            waiting.append(message)
            size += len(message[1])
        if waiting:
            await self._frame(waiting, size)
        return not self.is_gone

    async def write_record(self, muxed: bytes) -> bool:
        """Send raw frames of the muxer. Return False after the end of the connection."""
        if self._began is None:
            self._began = trio.current_time()
        try:
            async with self._writing:
                await self._connection._channel.write(muxed)  # noqa: SLF001 - bypasses the node's send path
        except (ChannelClosed, YamuxError) as error:
            self._scene.note(f"sending ended: {error}")
            await self.gone.wait()
        else:
            self._scene.sent(1, len(muxed))
        return not self.is_gone

    async def leave(self) -> None:
        """Close the connection from this side."""
        await self._connection.close()

    async def _frame(self, messages: Sequence[FloodMessage], size: int) -> None:
        if self.is_gone:
            return
        if self._began is None:
            self._began = trio.current_time()
        try:
            async with self._writing:
                pongs, self._pongs = self._pongs, []
                await self._connection.send(encode_frame([*pongs, *messages]))
        except (ChannelClosed, YamuxError) as error:
            self._scene.note(f"sending ended: {error}")
            await self.gone.wait()  # the node may still end a connection that it does not read: `listen` reports that
        else:
            self._scene.sent(len(messages), size)

    async def _hear(self, frame: Frame) -> None:
        for kind, payload in frame.messages:
            if kind is FrameKind.PING:
                await self._answer_ping(payload)
            elif kind in self.answers:
                with trio.move_on_after(ANSWER_SECONDS):  # a failed send waits for `listen`, which runs this code
                    await self.send(self.answers[kind](payload))
            elif kind is FrameKind.STATUS:
                self.standing = STATUS.decode(payload)
            elif kind in {FrameKind.GET_CERTS, FrameKind.VOTE}:
                self._note_position(payload)
            elif kind is FrameKind.GOODBYE:
                self._scene.note("goodbye")
            else:
                self._scene.note(f"got {kind.name}")
        if self.standing is not None and self.position is not None:
            self.heard.set()

    async def _answer_ping(self, nonce: bytes) -> None:
        """Answer at once, or with the next messages: a pong inside a long frame would break the framing."""
        if self._writing.locked():
            self._pongs.append((FrameKind.PONG, nonce))
            return
        async with self._writing:
            await self._connection.send(encode_frame([(FrameKind.PONG, nonce)]))

    def _note_position(self, payload: bytes) -> None:
        match MESSAGE.decode(payload):
            case NeedCerts(epoch, round_):
                self.position = epoch, round_
            case Vote(vote):
                self.position = max(self.position or (0, 0), (vote.ballot.epoch, vote.ballot.round))
            case _:
                pass


def fresh_identity() -> NodeIdentity:
    """Return an identity that no node knows."""
    return identity_from_seed(secrets.token_bytes(32))


async def dial(
    scene: Scene,
    member: NodeLayout,
    identity: NodeIdentity,
    role: Role = Role.FULL,
    proof: bytes = b"",
) -> HostilePeer:
    """Connect an intruder to a node. Raise HandshakeFailed, OSError or trio.TooSlowError."""
    with trio.fail_after(DIAL_SECONDS):
        connection = await connect(member.address, scene.genesis, identity, role, proof, SOURCE_ADDRESS)
    intruder = HostilePeer(scene, member, connection)
    scene.connections.append(intruder)
    return intruder


async def connect(
    address: str, genesis: bytes, identity: NodeIdentity, role: Role, proof: bytes, source: str
) -> Connection:
    """Return a connection after a successful handshake. Raise HandshakeFailed or OSError."""
    target = parse_address(address)
    hello = Hello(genesis, role, 0, proof)
    accounts = ReadingAccounts(lambda _: True, 0.0)
    handshaker = Handshaker(NoiseUpgrade(identity), f"/ogpu/{genesis.hex()[:8]}/1", hello, lambda *_: True, accounts)
    stream = await trio.open_tcp_stream(target.host, target.port, local_address=source)
    try:
        connection, _ = await handshaker.dial(stream, target.peer_id)
    except BaseException:
        await trio.aclose_forcefully(stream)
        raise
    return connection


async def assail(scene: Scene, members: Sequence[NodeLayout], serve: ServeConnection, identities: int = 1) -> None:
    """Connect to each of these nodes, with one or several identities, wait for their status, and begin.

    An intruder does not return after a disconnection.
    """
    async with trio.open_nursery() as nursery:
        intruders = []
        for _ in range(identities):
            identity = fresh_identity()
            intruders += [await dial(scene, member, identity) for member in members]
        for intruder in intruders:
            nursery.start_soon(intruder.listen)
        with trio.move_on_after(HEAR_SECONDS):
            for intruder in intruders:
                await intruder.heard.wait()
        await scene.begin()
        for intruder in intruders:
            nursery.start_soon(_serve, intruder, serve)


async def _serve(intruder: HostilePeer, serve: ServeConnection) -> None:
    """Attack until the connection ends. Then cancel the tasks that wait to send on it."""
    async with trio.open_nursery() as nursery:

        async def watch() -> None:
            await intruder.gone.wait()
            nursery.cancel_scope.cancel()

        nursery.start_soon(watch)
        await serve(intruder)
        nursery.cancel_scope.cancel()


def floods(per_second: float, make: Make, at_once: int = 1000, identities: int = 1) -> Act:
    """Return an act that sends `make(intruder, number)` at this rate on a connection to each validator."""
    return prepared_floods(per_second, lambda _: make, at_once, identities)


def prepared_floods(
    per_second: float,
    prepare: Callable[[Scene], Make],
    at_once: int = 1000,
    identities: int = 1,
    members_of: Callable[[Scene], Sequence[NodeLayout]] = lambda scene: scene.validators,
) -> Act:
    """Return an act as `floods` does, for messages with a preparation, to chosen members."""

    async def act(scene: Scene) -> None:
        make = await trio.to_thread.run_sync(prepare, scene)
        await assail(scene, members_of(scene), flooding(scene, per_second, make, at_once), identities)

    return act


def flooding(scene: Scene, per_second: float, make: Make, at_once: int = 1000) -> ServeConnection:
    """Return a server of connections that sends `make(intruder, number)` at this rate on each."""

    async def serve(intruder: HostilePeer) -> None:
        number = 0
        async for due in scene.paced(per_second, at_once):
            batch = [make(intruder, number + offset) for offset in range(due)]
            number += due
            if not await intruder.send(batch):
                return

    return serve


def cycled(items: Sequence[bytes]) -> Callable[[int], bytes]:
    """Return a function from a number to an item, in turn: variety without any cost per message."""
    return lambda number: items[number % len(items)]
