"""The transport over py-libp2p: it listens, dials, and keeps one link per peer.

Invariant: no message of a peer ends this task or another. A failure of our own inside one connection is logged, counted
in `faults`, and ends that connection only. The task that accepted a socket closes it.
"""

import logging
import random
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Final

import trio

from node.p2p.address_book import WRONG_CHAIN_BACKOFF_SECONDS, AddressBook, Source
from node.p2p.addresses import Address, parse_address, parse_public_address
from node.p2p.admission import Admission, AdmissionLimits, Ticket
from node.p2p.connection import Connection
from node.p2p.discovery import Introductions, listen_address
from node.p2p.frames import TRANSPORT_KINDS, FrameKind
from node.p2p.handshake import HANDSHAKE_SECONDS, HandshakeFailed, Handshaker, OnHello, why_failed
from node.p2p.hardening import NoiseUpgrade
from node.p2p.hello import GENESIS_BYTES, GoodbyeReason, Hello, Role
from node.p2p.identity import NodeIdentity, PeerId
from node.p2p.inbox import Inbox, nobody
from node.p2p.link import PING_SECONDS, Link, LinkEnded, run_link, say_goodbye
from node.p2p.listener import dialable_hosts, listen, serve
from node.p2p.meter import RateLimits, Seconds
from node.p2p.outbox import Outbox
from node.p2p.peer_table import PeerTable
from node.p2p.transport import PeerDown, PeerEvent, PeerInfo, PeerUp, TransportError
from node.p2p.work import IsValidator, ReadingAccounts

MAX_EVENTS: Final = 4096
MAX_CONCURRENT_DIALS: Final = 8
DIAL_SECONDS: Final = 5.0
HOUSEKEEPING_SECONDS: Final = 0.1
SAVE_SECONDS: Final = 10.0
"""The time between two writes of changed addresses."""
_LOG: Final = logging.getLogger(__name__)


Keep = Callable[[Sequence[Address]], None]


@dataclass(frozen=True, slots=True)
class TransportConfig:
    """This node's settings on the network.

    `listen_port` 0 takes any free port. `hello` is the proof for peers. A devnet dials private addresses and, unless
    `admission` says otherwise, accepts many connections from one address.
    """

    genesis: bytes
    role: Role = Role.FULL
    hello: bytes = b""
    listen_host: str = "127.0.0.1"
    listen_port: int = 0
    bootnodes: Sequence[str] = ()
    max_outbound: int = 32
    devnet: bool = False
    admission: AdmissionLimits | None = None
    rates: RateLimits = field(default_factory=RateLimits)
    public_addresses: Sequence[str] = ()
    """The public addresses of this node that it announces. Without any, peers use the host that they see."""
    known: Sequence[Address] = ()
    """Addresses that led to peers in earlier runs."""
    keep: Keep | None = None
    """A function that stores the addresses that led to peers, called after changes."""


class Libp2pTransport:
    """The implementation of `node.p2p.transport.Transport`, which documents its methods."""

    def __init__(
        self,
        config: TransportConfig,
        identity: NodeIdentity,
        on_hello: OnHello,
        rng: random.Random,
        is_validator: IsValidator = nobody,
        seconds: Seconds = trio.current_time,
    ) -> None:
        """Create it; `on_hello` judges each peer, `is_validator` returns whether it proved a seated key.

        `rng` spreads redials, and `seconds` is the clock by which peers pay for CPU. Raise `UnsupportedLibp2p` or
        `TransportError`.
        """
        if len(config.genesis) != GENESIS_BYTES:
            raise TransportError(f"a genesis hash is {GENESIS_BYTES} bytes")
        self._transport_config = config
        self._identity = identity
        self._on_hello = on_hello
        self._rng = rng
        self._noise_upgrade = NoiseUpgrade(identity)
        self._address_book = AddressBook(identity.peer_id, rng, allow_private=config.devnet)
        default_limits = AdmissionLimits.devnet() if config.devnet else AdmissionLimits()
        self._has_unsaved = False
        self._admission = Admission(config.admission or default_limits, is_validator)
        self._reading_accounts = ReadingAccounts(is_validator, 0.0, seconds)
        self._peer_table = PeerTable(identity.peer_id)
        self._inbox = Inbox(is_validator, seconds)
        self._event_sender, self._event_receiver = trio.open_memory_channel[PeerEvent](MAX_EVENTS)
        self._dialling: set[PeerId] = set()
        self._public_addresses = [parse_public_address(text, identity.peer_id) for text in config.public_addresses]
        self._introductions = Introductions(self._peer_table, self._address_book, self._public_addresses, rng)
        self._cancel_scope = trio.CancelScope()
        self._nursery: trio.Nursery | None = None
        self._handshaker: Handshaker | None = None
        self.port = 0
        self.counters: Counter[str] = Counter()

    @property
    def peer_id(self) -> PeerId:
        """This node's name on the network."""
        return self._identity.peer_id

    @property
    def inbound(self) -> Inbox:
        """The messages from peers; one reader."""
        return self._inbox

    @property
    def events(self) -> trio.MemoryReceiveChannel[PeerEvent]:
        """Peers that connected and disconnected."""
        return self._event_receiver

    @property
    def protocol(self) -> str:
        """The libp2p protocol id, which includes the chain."""
        return f"/ogpu/{self._transport_config.genesis.hex()[:8]}/1"

    @property
    def address(self) -> str:
        """The best one of `addresses`."""
        return self.addresses[0]

    @property
    def addresses(self) -> tuple[str, ...]:
        """The addresses at which others dial this node: the operator's, else those of this machine."""
        listen_hosts = dialable_hosts(self._transport_config.listen_host)
        own_addresses = self._public_addresses or [
            Address(self.peer_id, dialable_host, self.port) for dialable_host in listen_hosts
        ]
        return tuple(map(str, own_addresses))

    @property
    def faults(self) -> int:
        """The number of our own exceptions that ended a connection. Any number except 0 is a bug."""
        return self.counters["faults"]

    async def start(self, nursery: trio.Nursery) -> None:
        """Start to listen and dial, in tasks of `nursery`. Raise `PortInUse`, `TransportError`, `ValueError`."""
        for text in self._transport_config.bootnodes:
            self.connect(text)
        for address in self._transport_config.known:
            self._address_book.add(address, trio.current_time(), Source.REACHED)
            # During a flood of strangers' handshakes these hosts have a share of their own.
            self._admission.note_reached(address.host)
        listeners = await listen(self._transport_config.listen_host, self._transport_config.listen_port)
        self.port = int(listeners[0].socket.getsockname()[1])
        hello = Hello(
            self._transport_config.genesis, self._transport_config.role, self.port, self._transport_config.hello
        )
        self._handshaker = Handshaker(self._noise_upgrade, self.protocol, hello, self._on_hello, self._reading_accounts)
        nursery.start_soon(self._run_listeners, listeners)

    async def stop(self) -> None:
        """Send a goodbye to all peers and close."""
        self._save_addresses()
        async with trio.open_nursery() as nursery:
            for link in self._peer_table:
                nursery.start_soon(say_goodbye, link.connection, GoodbyeReason.SHUTDOWN)
        self._cancel_scope.cancel()

    def peers(self) -> tuple[PeerInfo, ...]:
        """Return all connected peers, by peer id."""
        now = trio.current_time()
        return tuple(_peer_info(link, now) for link in sorted(self._peer_table, key=lambda link: link.peer_id))

    def send(self, peer: PeerId, kind: FrameKind, payload: bytes) -> bool:
        """Queue a message; False when the peer is not connected or its queue is full."""
        if kind in TRANSPORT_KINDS:
            raise ValueError(f"{kind.name} is the transport's own")
        link = self._peer_table.get(peer)
        return link is not None and link.push(kind, payload)

    def broadcast(self, kind: FrameKind, payload: bytes, exclude: Collection[PeerId] = ()) -> int:
        """Queue a message for every peer except `exclude`; return the number of peers."""
        return sum(self.send(link.peer_id, kind, payload) for link in self._peer_table if link.peer_id not in exclude)

    def connect(self, address: str) -> None:
        """Keep a connection to this address. Raise `ValueError` if it is malformed."""
        self._address_book.add(parse_address(address), trio.current_time(), Source.GIVEN)

    def ban(self, peer: PeerId, seconds: float) -> None:
        """Close the connection to a peer and refuse it for a while."""
        banned_until = trio.current_time() + seconds
        self._peer_table.ban(peer, banned_until)
        self._address_book.postpone(peer, banned_until)
        # Its waiting messages would otherwise still be served.
        self._inbox.forget(peer)
        link = self._peer_table.get(peer)
        if link is not None:
            link.close(LinkEnded("banned", reason=GoodbyeReason.BANNED))

    async def _run_listeners(self, listeners: Sequence[trio.SocketListener]) -> None:
        with self._cancel_scope:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                for listener in listeners:
                    nursery.start_soon(serve, listener, self._admit_host, self._serve_inbound, nursery)
                nursery.start_soon(self._keep_house)

    async def _keep_house(self) -> None:
        """Dial due addresses, and ping peers regularly."""
        save_at = trio.current_time() + SAVE_SECONDS
        while True:
            now = trio.current_time()
            if now >= save_at:
                self._save_addresses()
                save_at = now + SAVE_SECONDS
            outbound = sum(link.connection.initiator for link in self._peer_table)
            # The library leaves a lost peer alone for 60 s. Here a due peer is dialled within a tick.
            for address in self._address_book.due(now):
                has_dial_room = (
                    len(self._dialling) < MAX_CONCURRENT_DIALS and outbound < self._transport_config.max_outbound
                )
                if has_dial_room and self._wants_dial(address.peer_id, now):
                    self._start_dial(address)
            for link in self._peer_table:
                if now - link.pinged_at > PING_SECONDS:
                    link.ping(now)
            await trio.sleep(HOUSEKEEPING_SECONDS)

    def _save_addresses(self) -> None:
        if self._has_unsaved and self._transport_config.keep is not None:
            self._has_unsaved = False
            self._transport_config.keep(self._address_book.reached())

    def _wants_dial(self, peer_id: PeerId, now: float) -> bool:
        return (
            peer_id not in self._peer_table
            and peer_id not in self._dialling
            and not self._peer_table.is_banned(peer_id, now)
        )

    def _start_dial(self, address: Address) -> None:
        if self._nursery is not None:
            self._dialling.add(address.peer_id)
            self._nursery.start_soon(self._dial_outbound, address)

    def _admit_host(self, host: str) -> Ticket | None:
        ticket = self._admission.admit(host, trio.current_time())
        if ticket is None:
            self.counters["inbound_refused"] += 1
        return ticket

    async def _serve_inbound(self, stream: trio.SocketStream, host: str, ticket: Ticket) -> None:
        """Serve an accepted socket for its whole life."""
        entered: list[Link] = []

        def admit(connection: Connection, hello: Hello) -> GoodbyeReason | None:
            """Judge and enter in one step, so that no other connection of this peer comes between."""
            refusal_reason = self._refusal_reason(connection, hello, ticket)
            if refusal_reason is None:
                entered.append(self._enter_link(connection, hello, host))
            return refusal_reason

        try:
            with trio.fail_after(HANDSHAKE_SECONDS):
                connection, hello = await self._handshakes().listen(stream, admit)
            if hello.listen_port:  # otherwise, after a partition, only the peer could find this node
                address = Address(connection.peer_id, host, hello.listen_port)
                self._address_book.add(address, trio.current_time(), Source.OWN_WORD)
            await self._serve_link(entered.pop())
        except (HandshakeFailed, trio.TooSlowError) as error:
            self.counters["inbound_failed"] += 1
            _LOG.debug("inbound connection from %s failed: %s", host, error)
        except Exception:  # noqa: BLE001 - contains the failure of one connection
            self._on_fault(host)
        finally:
            # The task that took the slot frees it. In the library each slot served one connection for ever.
            for link in entered:
                self._take_out(link, LinkEnded("handshake failed"))
            self._admission.release(ticket)
            await trio.aclose_forcefully(stream)

    async def _dial_outbound(self, address: Address) -> None:
        """Serve a dialled connection for its whole life."""
        stream: trio.SocketStream | None = None
        try:
            with trio.fail_after(DIAL_SECONDS + HANDSHAKE_SECONDS):
                stream = await trio.open_tcp_stream(address.host, address.port)
                connection, hello = await self._handshakes().dial(stream, address.peer_id)
            self._dialling.discard(address.peer_id)
            now = trio.current_time()
            self._has_unsaved |= self._address_book.on_connected(address, now)
            # A host that this node dialled is no stranger if it dials back.
            self._admission.note_reached(address.host)
            if self._peer_table.keeps_old(address.peer_id, dialled_by_us=True, now=now):
                await say_goodbye(connection, GoodbyeReason.DUPLICATE)
            else:
                await self._serve_link(self._enter_link(connection, hello, address.host))
        except (HandshakeFailed, trio.TooSlowError, OSError) as error:
            self._on_dial_failed(address, error)
        except Exception:  # noqa: BLE001 - contains the failure of one connection
            self._on_fault(str(address))
        finally:
            # The set must be clear after every failure too: otherwise this peer would never be dialled again.
            self._dialling.discard(address.peer_id)
            if stream is not None:
                await trio.aclose_forcefully(stream)

    def _on_dial_failed(self, address: Address, error: Exception) -> None:
        self.counters["dials_failed"] += 1
        now = trio.current_time()
        self._address_book.on_failed(address, now)
        if isinstance(error, HandshakeFailed) and error.reason is GoodbyeReason.WRONG_CHAIN:
            _LOG.warning("%s is on another chain; not tried again for %d s", address, WRONG_CHAIN_BACKOFF_SECONDS)
            self._address_book.postpone(address.peer_id, now + WRONG_CHAIN_BACKOFF_SECONDS)
        elif self._address_book.is_given(address):
            _LOG.warning("%s cannot be reached: %s; tried again", address, why_failed(error))
        else:
            _LOG.debug("dial of %s failed: %s", address, error)

    def _on_fault(self, fault_place: str) -> None:
        self.counters["faults"] += 1
        _LOG.exception("closed the connection to %s after an unexpected error of this node", fault_place)

    def _refusal_reason(self, connection: Connection, hello: Hello, ticket: Ticket) -> GoodbyeReason | None:
        """Return the reason to refuse an inbound peer after its hello, or None."""
        now = trio.current_time()
        peer_id = connection.peer_id
        if peer_id == self.peer_id:
            return GoodbyeReason.SELF
        if self._peer_table.is_banned(peer_id, now):
            return GoodbyeReason.BANNED
        if self._peer_table.keeps_old(peer_id, dialled_by_us=False, now=now):
            return GoodbyeReason.DUPLICATE
        if not self._admission.establish(ticket, peer_id):
            return GoodbyeReason.TOO_MANY_PEERS
        return None

    def _enter_link(self, connection: Connection, hello: Hello, host: str) -> Link:
        """Put a new link into the table; later messages are queued for it."""
        now = trio.current_time()
        rates = self._transport_config.rates
        link = Link(
            connection,
            hello,
            hello.role,
            host,
            Outbox(rates, now),
            rates,
            now,
            pinged_at=now,
        )
        link.replaces = self._peer_table.put(link)
        # The peer of a replaced link was reported already.
        if link.replaces is None:
            self._report_event(PeerUp(link.peer_id, link.role))
        self._introductions.introduce(link)
        return link

    async def _serve_link(self, link: Link) -> None:
        """Serve a link to its end."""
        self._close_replaced(link)
        link_end = LinkEnded("this node stops")  # stays so only if the task is cancelled
        try:
            link_end = await run_link(link, self._inbox, self._introductions.on_peers)
        finally:
            self._take_out(link, link_end)
        if link_end.goodbye_reason is not None:
            await say_goodbye(link.connection, link_end.goodbye_reason)
        await link.connection.close()

    @staticmethod
    def _close_replaced(link: Link) -> None:
        """Close the connection that `link` replaced, once `link` is up at both ends."""
        if link.replaces is not None:
            link.replaces.close(LinkEnded("replaced", reason=GoodbyeReason.DUPLICATE))
            link.replaces = None

    def _take_out(self, link: Link, link_end: LinkEnded) -> None:
        now = trio.current_time()
        self._close_replaced(link)
        self.counters["links_ended"] += 1
        if link_end.ban_seconds:
            self.counters["banned"] += 1
            self._peer_table.ban(link.peer_id, now + link_end.ban_seconds)
            self._inbox.forget(link.peer_id)
            self._address_book.postpone(link.peer_id, now + link_end.ban_seconds)
        # If another link has replaced this one, the peer is still connected.
        if self._peer_table.remove(link):
            self._introductions.forget(link.peer_id)
            self._address_book.on_lost(link.peer_id, now)
            self._report_event(PeerDown(link.peer_id, link_end.reason))

    def _report_event(self, event: PeerEvent) -> None:
        _LOG.info("%s", event)
        try:
            # Events are hints: a full channel must not delay the transport.
            self._event_sender.send_nowait(event)
        except trio.WouldBlock:
            self.counters["events_dropped"] += 1

    def _handshakes(self) -> Handshaker:
        if self._handshaker is None:
            raise TransportError("not started")
        return self._handshaker


def _peer_info(link: Link, now: float) -> PeerInfo:
    return PeerInfo(
        peer=link.peer_id,
        role=link.role,
        address=str(listen_address(link)) if link.hello.listen_port else link.host,
        outbound=link.connection.initiator,
        connected_seconds=now - link.connected_at,
        rtt_seconds=link.rtt_seconds,
        received_bytes=link.connection.received_bytes,
        sent_bytes=link.sent_bytes,
        queued_bytes=link.outbox.queued_bytes,
        dropped=sum(link.outbox.dropped.values()),
    )
