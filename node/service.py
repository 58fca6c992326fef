"""A node, put together from its parts: reads as the list of them.

What always holds: parts are made in the order in which they need each other, and closed in the reverse one; whatever
stops the node is a `NodeError` with an exit code; Ctrl-C and SIGTERM end it cleanly.
"""

from __future__ import annotations

import logging
import random
import resource
import secrets
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import replace

import trio

from consensus.certificates import CERTIFICATE, Certificate, verify_certificate
from consensus.machine import Machine
from consensus.signstate import EMPTY
from genesis.chain import genesis_state
from genesis.spec import ChainSpec
from node import memory
from node.clock import Clock
from node.config import Config, Paths
from node.duty.author import Author
from node.duty.peer_proof import PeerProofs, prove
from node.duty.seat import take_seat
from node.errors import BadInputError, NodeError
from node.feed.messages import ExtrinsicStatus, Request, ToRpc, Value
from node.feed.server import FeedServer
from node.feed.source import FeedSource
from node.ledger.chain import ExecutedBlock, open_chain
from node.ledger.round_log import RoundLog
from node.ledger.storage import Storage
from node.listener import Listener
from node.loop import Loop
from node.monitoring.figures import Figures
from node.monitoring.metrics import Metrics, MetricsServer
from node.p2p.gossip import Gossip
from node.p2p.hello import Role
from node.p2p.identity import IdentityError, NodeIdentity, identity_from_seed, load_or_create
from node.p2p.libp2p_transport import Libp2pTransport, TransportConfig
from node.p2p.transport import PeerUp, TransportError
from node.peer_messages import PeerStatus
from node.peers import Peers
from node.pool.attestation_pool import AttestationPool
from node.pool.relay import Relay
from node.pool.transaction_pool import TransactionPool
from node.pool.verifier import Verifier
from node.rpc_process import require_free_port, supervise
from node.sync.sync import Sync
from node.version import VERSION
from runtime.cryptography import signatures

VERIFY_WORKERS = 1
FIGURES_SECONDS = 1.0
GOODBYE_SECONDS = 1.0
_LOG = logging.getLogger("node")


def run(config: Config, spec: ChainSpec) -> None:
    """Run a node until it is told to stop.  Raises `NodeError`."""
    _set_up_process(config)
    with _one_error():
        trio.run(Node(config, spec).run)


class Node:
    """The parts of one node."""

    def __init__(self, config: Config, spec: ChainSpec) -> None:
        """Open the database, execute what is above the final block, take the seat; no network yet.

        Raises `NodeError`.
        """
        self.config, self.spec = config, spec
        self.paths = Paths(config.base_path, spec.id)
        self.clock = Clock()
        self.verifier = Verifier()
        with _as_bad_input():
            state = genesis_state(spec)
        self.storage = Storage(self.paths.database)
        self.chain = open_chain(self.storage, spec, state, self.verifier.verify)
        self.chain.restore(self.clock.now_ms())
        self.validator = take_seat(config, self.paths, self.chain)
        self.rounds = RoundLog(self.paths.rounds)
        self.metrics = Metrics(spec.id, config.name, VERSION, is_validator=self.validator is not None)
        self.machine = self._machine()
        self.identity = _identity(config, self.paths)
        self.proofs = PeerProofs(self.chain.genesis, signatures.verify_ed25519, {})
        self.transport = self._transport()
        self.network = Peers(self.transport)
        self.sync = Sync(self.chain, self.network, self.clock.now_ms, self.machine.is_welcome)
        self.relay = Relay(self.network, _gossip(), self._standing)
        self.attestations = AttestationPool(self.chain, self.network, _gossip(), lambda: self.machine.tip.id)
        self.feed_server = FeedServer(self.paths.rpc_socket, self._opening, self._answer)
        self.pool = TransactionPool(self.chain, self.verifier, self.clock, self._on_status, self.relay.on_admitted)
        self.relay.pool = self.pool
        self.feed = FeedSource(
            config, spec, self.chain, self.machine, self.pool, self.attestations, self.sync, self.transport,
            self._addresses, self._polls, self.feed_server.publish,
        )  # fmt: skip
        self.loop = self._loop()

    async def run(self) -> None:
        """Everything at once, until a signal or a `NodeError`."""
        async with AsyncExitStack() as stack:
            stack.callback(self.storage.close)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._stop_on_signal, nursery.cancel_scope)
                stack.callback(self._serve_metrics())
                await self._start_network(nursery)
                await self.feed_server.listen()
                nursery.start_soon(self.feed_server.run)
                if self.config.rpc is not None:
                    require_free_port(self.config.rpc)
                    nursery.start_soon(supervise, self.config.rpc, self.paths.rpc_socket)
                for _ in range(VERIFY_WORKERS):
                    nursery.start_soon(self.verifier.run_worker)
                nursery.start_soon(self.pool.run)
                nursery.start_soon(self._watch_peers)
                nursery.start_soon(self._keep_figures)
                self._restore()
                await self.loop.run()

    # --- making the parts

    def _machine(self) -> Machine:
        parameters = self.chain.parameters
        if self.config.sample_units is not None:
            parameters = replace(parameters, sample_units=self.config.sample_units, force_sampling=True)
        session = self.validator.session if self.validator is not None else None
        return Machine(
            parameters, self.chain.genesis, self.chain.epochs, signatures.verify_ed25519, session, secrets.randbelow
        )

    def _transport(self) -> Libp2pTransport:
        config, validator = self.config, self.validator
        hello = b""
        if validator is not None:
            hello = prove(validator.session_pair, self.chain.genesis, self.identity.peer_id)
        settings = TransportConfig(
            genesis=self.chain.genesis,
            role=Role.FULL if validator is None else Role.VALIDATOR,
            hello=hello,
            listen_host=config.listen_host,
            listen_port=config.port,
            bootnodes=(*self.spec.boot_nodes, *config.bootnodes),
            devnet=self.spec.chain_type != "Live",
        )
        with _as_bad_input():
            return Libp2pTransport(settings, self.identity, self.proofs.accepts, random.Random(secrets.randbits(64)))

    def _loop(self) -> Loop:
        author = None
        if self.validator is not None:
            author = Author(
                self.chain, self.validator, self.pool, self.verifier.verify, self.clock, self.attestations.inherents
            )
        figures = Figures(self.chain, self.machine, self.metrics, self.clock)
        # The feed first: when a client hears that an extrinsic is in a block, it can already read that block's state.
        listeners = (self.feed, _PoolListener(self.pool), self.relay, self.attestations, figures)
        return Loop(
            self.machine, self.chain, self.sync, self.network, self.clock, self.validator, author, self.metrics,
            self.paths.preference, self.rounds, listeners,
        )  # fmt: skip

    # --- starting

    def _restore(self) -> None:
        """Give the machine what was kept, and carry out what it says."""
        final = self.chain.final
        state = EMPTY
        if self.validator is not None:
            if (certificate := self.chain.final_certificate) is not None:
                # Killed between the commit and its note, or run without --validator since: the database knows more.
                self.validator.note_final(certificate.ballot.epoch, certificate.ballot.round, final.facts.height)
            state = self.validator.file.state
        effects = self.machine.restore(
            final.facts,
            self.chain.final_certificate,
            [one.facts for one in self.chain.above_final()],
            state,
            self._preference(),
            self.clock.now_ms(),
            self._boundaries(),
            self._unsettled(),
        )
        _LOG.info("starting at final #%d 0x%s", final.facts.height, final.facts.id.hex()[:12])
        self.loop.restore(effects)
        memory.settle()

    def _preference(self) -> bytes | None:
        try:
            return self.paths.preference.read_bytes()[:32]
        except FileNotFoundError:
            return None

    def _unsettled(self) -> Iterator[Certificate]:
        """Kept certificates of rounds after the last final one, those that verify: the file may be damaged."""
        for certificate in self.rounds.certificates():
            epoch = self.chain.epochs(certificate.ballot.epoch)
            if epoch is not None and verify_certificate(
                certificate, epoch.validators, self.chain.genesis, signatures.verify_ed25519
            ):
                yield certificate

    def _boundaries(self) -> Iterator[Certificate]:
        """Certificates of the ends of past epochs, for peers that are behind."""
        parameters, height = self.chain.parameters, self.chain.final.facts.height
        last = parameters.epoch_of(height + 1) - 1
        for epoch in range(max(0, last - parameters.boundaries_kept + 1), last + 1):
            found = self.storage.certificate_at(parameters.boundary(epoch))
            if found is not None and found[0] == parameters.boundary(epoch):
                yield CERTIFICATE.decode(found[1])

    async def _start_network(self, nursery: trio.Nursery) -> None:
        with _as_bad_input():
            await self.transport.start(nursery)
        role = "validator" if self.validator is not None else "full node"
        _LOG.info("%s %s on chain %s (%s)", role, self.config.name, self.spec.name, VERSION)
        _LOG.info("peers reach this node at %s", self.transport.address)

    async def _stop_on_signal(self, scope: trio.CancelScope) -> None:
        """Tell the peers, but do not wait long for them."""
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for number in signals:
                _LOG.info("%s: stopping", signal.Signals(number).name)
                with trio.move_on_after(GOODBYE_SECONDS):
                    await self.transport.stop()
                scope.cancel()

    def _serve_metrics(self) -> Callable[[], None]:
        if self.config.prometheus_port is None:
            return lambda: None
        server = MetricsServer(self.metrics, self.config.prometheus_port, external=self.config.prometheus_external)
        _LOG.info("metrics on port %d", server.port)
        return server.close

    # --- beside the loop

    async def _watch_peers(self) -> None:
        async for event in self.transport.events:
            if isinstance(event, PeerUp):
                self.loop.peer_up(event.peer, self.proofs.sessions.get(event.peer))
            else:
                self.loop.peer_down(event.peer)

    async def _keep_figures(self) -> None:
        while True:
            self.metrics.peers.set(len(self.transport.peers()))
            self.metrics.ready.set(self.pool.pool.ready_count)
            self.metrics.future.set(self.pool.pool.future_count)
            self.metrics.rejected.set(self.sync.rejected)
            self.metrics.abstained.set(self.sync.abstained)
            self.metrics.penalties.set(self.network.penalties)
            self.metrics.sync_target.set(max(self.sync.highest_height, self.machine.best.height))
            self.feed.publish_status()
            await trio.sleep(FIGURES_SECONDS)

    def _on_status(self, extrinsic_hash: bytes, status: str, block: bytes | None) -> None:
        self.feed_server.publish(ExtrinsicStatus(extrinsic_hash, status, block))

    def _polls(self) -> list[Value]:
        """The last polls, with the stashes behind the peers that were asked."""
        epoch = self.chain.epochs(self.machine.gadget_round[0])
        stashes = {member.session: member.stash for member in epoch.validators.members} if epoch is not None else {}
        names = {peer.encode(): stashes[key] for peer, key in self.proofs.sessions.items() if key in stashes}
        return self.loop.polls.show(names)

    # What parts ask of others that are made after them.

    def _standing(self) -> PeerStatus:
        return self.loop.status()

    def _opening(self) -> Iterator[ToRpc]:
        return self.feed.opening()

    async def _answer(self, request: Request) -> Value:
        return await self.feed.answer(request)

    def _addresses(self) -> list[str]:
        return [self.transport.address]


class _PoolListener(Listener):
    """The pool follows the chain."""

    def __init__(self, pool: TransactionPool) -> None:
        self._pool = pool

    def on_tip(self, block: bytes) -> None:
        self._pool.on_tip(block)

    def on_accepted(self, block: bytes, *, reverted: bool) -> None:
        del reverted
        self._pool.on_accepted(block)

    def on_final(self, blocks: list[ExecutedBlock]) -> None:
        self._pool.on_final(blocks)


def _gossip() -> Gossip:
    return Gossip(random.Random(secrets.randbits(64)))


def _identity(config: Config, paths: Paths) -> NodeIdentity:
    with _as_bad_input():
        return identity_from_seed(config.node_key) if config.node_key is not None else load_or_create(paths.node_key)


def _set_up_process(config: Config) -> None:
    """Logs to stderr; no core dumps, which would hold keys."""
    levels = [part.partition("=") for part in config.log.split(",") if part]
    try:
        plain = [level for level, equals, _ in levels if not equals]
        logging.basicConfig(stream=sys.stderr, level=(plain or ["info"])[0].upper(), format="%(asctime)s %(message)s")
        for target, equals, level in levels:
            if equals:
                logging.getLogger(target).setLevel(level.upper())
    except ValueError as error:
        raise BadInputError(f"--log {config.log}: {error}; levels are debug, info, warning, error") from error
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


@contextmanager
def _as_bad_input() -> Iterator[None]:
    """What the network layer says about its settings is for the person who gave them."""
    try:
        yield
    except (IdentityError, TransportError, ValueError) as error:
        raise BadInputError(str(error)) from error


@contextmanager
def _one_error() -> Iterator[None]:
    """Of everything that ends when the node ends, the `NodeError` is the reason."""
    try:
        yield
    except BaseExceptionGroup as group:
        for error in _leaves(group):
            if isinstance(error, NodeError):
                raise error from group
        raise


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    """The exceptions in a group of groups."""
    waiting: list[BaseException] = [group]
    while waiting:
        error = waiting.pop()
        if isinstance(error, BaseExceptionGroup):
            waiting.extend(error.exceptions)
        else:
            yield error
