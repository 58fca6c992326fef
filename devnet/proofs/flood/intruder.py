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
from devnet.proofs.flood.attack import SOURCE_ADDRESS, AttackAction, AttackScene
from node.p2p.addresses import parse_address
from node.p2p.channel import ChannelClosed
from node.p2p.connection import Connection
from node.p2p.frames import Frame, FrameError, FrameKind, decode_frame, encode_frame
from node.p2p.handshake import Handshaker
from node.p2p.hardening import NoiseUpgrade
from node.p2p.hello import Hello, Role
from node.p2p.identity import NodeIdentity, identity_from_seed
from node.p2p.work import ReadingAccounts
from node.peers.messages import STATUS, PeerStatus
from streams.yamux import YamuxError

FloodMessage = tuple[FrameKind, bytes]
MESSAGES_PER_FRAME = 512
FRAME_BYTES = 1024 * 1024
HEAR_SECONDS = 3.0
ANSWER_SECONDS = 1.0
DIAL_SECONDS = 10.0
ServeConnection = Callable[["HostilePeer"], Awaitable[None]]
MakeMessage = Callable[["HostilePeer", int], FloodMessage]


class HostilePeer:
    """One connection to one node."""

    def __init__(self, scene: AttackScene, member: NodeLayout, connection: Connection) -> None:
        """Wrap a connection. Callers use `dial` instead."""
        self.member = member
        self.peer_status: PeerStatus | None = None
        self.position: tuple[int, int] | None = None  # epoch and round of the node's votes
        self._scene, self._connection = scene, connection
        self._start_time: float | None = None
        self._end_time: float | None = None
        self.gone, self.heard = trio.Event(), trio.Event()
        self._write_lock = trio.Lock()
        self._pending_pongs: list[FloodMessage] = []
        self.answers: dict[FrameKind, Callable[[bytes], list[FloodMessage]]] = {}
        """The answers to the node's requests, by kind."""

    @property
    def is_gone(self) -> bool:
        """True if the node ended the connection."""
        return self.gone.is_set()

    @property
    def open_seconds(self) -> float | None:
        """The seconds since the first message."""
        return None if self._start_time is None else trio.current_time() - self._start_time

    @property
    def cut_seconds(self) -> float | None:
        """The seconds from the first message to the end."""
        if self._start_time is None or self._end_time is None:
            return None
        return self._end_time - self._start_time

    async def listen(self) -> None:
        """Read until the node ends the connection."""
        try:
            while True:
                for frame_body in await self._connection.receive():
                    await self._take_frame(decode_frame(frame_body))
        except (ChannelClosed, FrameError, YamuxError):
            self._end_time = trio.current_time()
            self.gone.set()

    async def send(self, messages: Iterable[FloodMessage]) -> bool:
        """Send messages in as few frames as possible. Return False after the end of the connection."""
        waiting_messages: list[FloodMessage] = []
        frame_bytes = 0
        for message in messages:
            # A frame above the node's limits would break a rule of its own, beside the attack's.
            if waiting_messages and (
                len(waiting_messages) == MESSAGES_PER_FRAME or frame_bytes + len(message[1]) > FRAME_BYTES
            ):
                await self._send_frame(waiting_messages, frame_bytes)
                waiting_messages, frame_bytes = [], 0
            waiting_messages.append(message)
            frame_bytes += len(message[1])
        if waiting_messages:
            await self._send_frame(waiting_messages, frame_bytes)
        return not self.is_gone

    async def write_record(self, muxed_bytes: bytes) -> bool:
        """Send raw frames of the muxer. Return False after the end of the connection."""
        if self._start_time is None:
            self._start_time = trio.current_time()
        try:
            async with self._write_lock:
                await self._connection._channel.write(muxed_bytes)  # noqa: SLF001 - bypasses the node's send path
        except (ChannelClosed, YamuxError) as error:
            self._scene.count_outcome(f"sending ended: {error}")
            await self.gone.wait()
        else:
            self._scene.sent(1, len(muxed_bytes))
        return not self.is_gone

    async def leave(self) -> None:
        """Close the connection from this side."""
        await self._connection.close()

    async def _send_frame(self, messages: Sequence[FloodMessage], frame_bytes: int) -> None:
        if self.is_gone:
            return
        if self._start_time is None:
            self._start_time = trio.current_time()
        try:
            async with self._write_lock:
                pending_pongs, self._pending_pongs = self._pending_pongs, []
                await self._connection.send(encode_frame([*pending_pongs, *messages]))
        except (ChannelClosed, YamuxError) as error:
            self._scene.count_outcome(f"sending ended: {error}")
            await self.gone.wait()  # the node may still end a connection that it does not read: `listen` reports that
        else:
            self._scene.sent(len(messages), frame_bytes)

    async def _take_frame(self, frame: Frame) -> None:
        for frame_kind, payload in frame.messages:
            if frame_kind is FrameKind.PING:
                await self._answer_ping(payload)
            elif frame_kind in self.answers:
                with trio.move_on_after(ANSWER_SECONDS):  # a failed send waits for `listen`, which runs this code
                    await self.send(self.answers[frame_kind](payload))
            elif frame_kind is FrameKind.STATUS:
                self.peer_status = STATUS.decode(payload)
            elif frame_kind in {FrameKind.GET_CERTS, FrameKind.VOTE}:
                self._note_position(payload)
            elif frame_kind is FrameKind.GOODBYE:
                self._scene.count_outcome("goodbye")
            else:
                self._scene.count_outcome(f"got {frame_kind.name}")
        if self.peer_status is not None and self.position is not None:
            self.heard.set()

    async def _answer_ping(self, ping_nonce: bytes) -> None:
        """Answer at once, or with the next messages: a pong inside a long frame would break the framing."""
        if self._write_lock.locked():
            self._pending_pongs.append((FrameKind.PONG, ping_nonce))
            return
        async with self._write_lock:
            await self._connection.send(encode_frame([(FrameKind.PONG, ping_nonce)]))

    def _note_position(self, payload: bytes) -> None:
        match MESSAGE.decode(payload):
            case NeedCerts(epoch, vote_round):
                self.position = epoch, vote_round
            case Vote(vote_seen):
                self.position = max(self.position or (0, 0), (vote_seen.ballot.epoch, vote_seen.ballot.round))
            case _:
                pass


def fresh_identity() -> NodeIdentity:
    """Return an identity that no node knows."""
    return identity_from_seed(secrets.token_bytes(32))


async def connect_intruder(
    scene: AttackScene, member: NodeLayout, identity: NodeIdentity, role: Role = Role.FULL, proof: bytes = b""
) -> HostilePeer:
    """Connect an intruder to a node. Raise HandshakeFailed, OSError or trio.TooSlowError."""
    # A node that is under attack may leave a newcomer waiting.
    with trio.fail_after(DIAL_SECONDS):
        connection = await connect(member.address, scene.genesis, identity, role, proof, SOURCE_ADDRESS)
    intruder = HostilePeer(scene, member, connection)
    scene.connections.append(intruder)
    return intruder


async def connect(
    address: str, genesis: bytes, identity: NodeIdentity, role: Role, proof: bytes, source_address: str
) -> Connection:
    """Return a connection after a successful handshake. Raise HandshakeFailed or OSError."""
    target_address = parse_address(address)
    own_hello = Hello(genesis, role, 0, proof)
    reading_accounts = ReadingAccounts(lambda _: True, 0.0)
    handshaker = Handshaker(
        NoiseUpgrade(identity), f"/ogpu/{genesis.hex()[:8]}/1", own_hello, lambda *_: True, reading_accounts
    )
    stream = await trio.open_tcp_stream(target_address.host, target_address.port, local_address=source_address)
    try:
        connection, _ = await handshaker.dial(stream, target_address.peer_id)
    except BaseException:
        await trio.aclose_forcefully(stream)
        raise
    return connection


async def connect_and_attack(
    scene: AttackScene, members: Sequence[NodeLayout], serve_connection: ServeConnection, identities: int = 1
) -> None:
    """Connect to each of these nodes, with one or several identities, wait for their status, and begin.

    An intruder does not return after a disconnection.
    """
    async with trio.open_nursery() as nursery:
        intruders = []
        for _ in range(identities):
            identity = fresh_identity()
            intruders += [await connect_intruder(scene, member, identity) for member in members]
        for intruder in intruders:
            nursery.start_soon(intruder.listen)
        with trio.move_on_after(HEAR_SECONDS):
            for intruder in intruders:
                await intruder.heard.wait()
        await scene.begin()
        for intruder in intruders:
            nursery.start_soon(_attack_until_gone, intruder, serve_connection)


async def _attack_until_gone(intruder: HostilePeer, serve_connection: ServeConnection) -> None:
    """Attack until the connection ends. Then cancel the tasks that wait to send on it."""
    async with trio.open_nursery() as nursery:

        async def watch() -> None:
            await intruder.gone.wait()
            nursery.cancel_scope.cancel()

        nursery.start_soon(watch)
        await serve_connection(intruder)
        nursery.cancel_scope.cancel()


def flood_action(
    per_second: float, make_message: MakeMessage, at_once: int = 1000, identities: int = 1
) -> AttackAction:
    """Return an act that sends `make(intruder, number)` at this rate on a connection to each validator."""
    return prepared_flood_action(per_second, lambda _: make_message, at_once, identities)


def prepared_flood_action(
    per_second: float,
    prepare: Callable[[AttackScene], MakeMessage],
    at_once: int = 1000,
    identities: int = 1,
    members_of: Callable[[AttackScene], Sequence[NodeLayout]] = lambda scene: scene.validators,
) -> AttackAction:
    """Return an act as `floods` does, for messages with a preparation, to chosen members."""

    async def act(scene: AttackScene) -> None:
        make_message = await trio.to_thread.run_sync(prepare, scene)
        await connect_and_attack(
            scene, members_of(scene), flooding(scene, per_second, make_message, at_once), identities
        )

    return act


def flooding(scene: AttackScene, per_second: float, make_message: MakeMessage, at_once: int = 1000) -> ServeConnection:
    """Return a server of connections that sends `make(intruder, number)` at this rate on each."""

    async def serve(intruder: HostilePeer) -> None:
        number = 0
        async for due_count in scene.paced(per_second, at_once):
            message_batch = [make_message(intruder, number + offset) for offset in range(due_count)]
            number += due_count
            if not await intruder.send(message_batch):
                return

    return serve


def cycle_through(items: Sequence[bytes]) -> Callable[[int], bytes]:
    """Return a function from a number to an item, in turn: variety without any cost per message."""
    return lambda number: items[number % len(items)]
