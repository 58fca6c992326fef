"""A node, put together from its rooms, which `Node.__init__` lists.

Invariant: rooms are created in the order of their dependencies, and closed in reverse. Every cause of a stop is a
`NodeError` with an exit code. Ctrl-C and SIGTERM end the node cleanly.
"""

from __future__ import annotations

import logging
import secrets
import signal
from contextlib import AsyncExitStack
from dataclasses import replace

import trio

from consensus.machine import Machine
from consensus.signstate import EMPTY
from genesis.spec import ChainSpec
from node import process
from node.clock import Clock
from node.config import Config, Paths
from node.duty.author import Author
from node.duty.duty import ValidatorDuty
from node.duty.heart import Heart
from node.duty.key_watch import KeyWatch
from node.duty.seat import hold_keys
from node.duty.seat_watch import SeatWatch
from node.duty.validator_keys import ValidatorKeys, follow_only
from node.errors import as_bad_input, node_error_first
from node.feed.feed import make_feed
from node.feed.readers import Readers
from node.feed.stream import NodeDescription
from node.feed.view import NodeView
from node.ledger.ledger import open_ledger
from node.loop import Loop
from node.monitoring.metrics import Metrics
from node.monitoring.monitoring import make_monitoring
from node.monitoring.seat_figures import SeatFigures
from node.p2p.meter import CoreTime
from node.p2p.transport import PeerUp, TransportError
from node.peers.network import open_network
from node.pool.pools import make_pools
from node.pool.verifier import Verifier
from node.rpc.supervisor import require_free_port, supervise
from node.sync.proven_keys import ProvenKeys
from node.sync.status import NodeStanding
from node.sync.sync import Sync
from runtime.cryptography import signatures

FIGURES_SECONDS = 1.0
GOODBYE_SECONDS = 1.0
_LOG = logging.getLogger("node")


def run(config: Config, spec: ChainSpec) -> None:
    """Run a node until it is stopped. Raise `NodeError` if it fails."""
    process.set_up_process(config.log)
    with node_error_first():
        trio.run(Node(config, spec).run)


class Node:
    """The rooms of one node."""

    def __init__(self, config: Config, spec: ChainSpec) -> None:
        """Open the database, execute the blocks above the final one, and load the keys; no network yet.

        Raise `NodeError` if any of that is impossible.
        """
        self.config = config
        self.spec = spec
        self.paths = Paths(config.base_path, spec.id)
        self.clock = Clock()
        verifier = Verifier()
        self.ledger = open_ledger(self.paths, spec, verifier.verify, self.clock, config.checkpoint)
        self.chain = self.ledger.chain
        age_ms = self.clock.now_ms() - spec.start_time * 1_000 if spec.start_time else 0
        validator_keys = hold_keys(config, self.paths, self.chain, age_ms)
        self.machine = self._make_machine(validator_keys)
        self.core_time = CoreTime()
        self.network = open_network(
            config,
            self.paths,
            spec,
            self.chain.genesis,
            prove_peer=validator_keys.prove_peer if validator_keys else None,
            is_seated=self.chain.is_seated,
            clock_seconds=self.core_time.seconds,
        )
        self.sync = Sync(
            self.chain,
            self.network.peers,
            self.clock.now_ms,
            self.machine.is_welcome,
            lambda extrinsics: self.pools.transactions.foresee(extrinsics),  # noqa: PLW0108  # the pools come later
        )
        self.sync.highest_height = self.sync.trusted_height = self.ledger.trusted.height
        readers = Readers()
        self.pools = make_pools(
            chain=self.chain,
            verifier=verifier,
            clock=self.clock,
            peers=self.network.peers,
            preferred=lambda: self.machine.tip.id,
            on_status=readers.publish_fate,
            clock_seconds=self.core_time.seconds,
        )
        view = NodeView(chain=self.chain, machine=self.machine, network=self.network, sync=self.sync, pools=self.pools)
        node_metrics = Metrics(spec.id, config.name, process.VERSION, is_validator=validator_keys is not None)
        self.monitoring = make_monitoring(
            view, node_metrics, self.clock, validator_keys.sessions if validator_keys else ()
        )
        self.duty = self._make_duty(validator_keys) if validator_keys is not None else None
        is_validator = config.is_validator
        description = NodeDescription(spec=spec, name=config.name, version=process.VERSION, is_validator=is_validator)
        self.feed = make_feed(
            socket_path=self.paths.rpc_socket,
            readers=readers,
            view=view,
            description=description,
            recent_polls=self.monitoring.polls.show,
            rotate_keys=self.duty.key_watch.rotate if self.duty is not None else None,
        )
        self.loop = self._make_loop()

    async def run(self) -> None:
        """Run all parts, until a signal or a `NodeError`."""
        async with AsyncExitStack() as exit_stack:
            # Registered first, so closed last: the other parts use the database until they end.
            exit_stack.callback(self.ledger.close)
            trio.lowlevel.add_instrument(self.core_time)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._stop_on_signal, nursery.cancel_scope)
                exit_stack.callback(self.monitoring.serve(self.config))
                await self._start_network(nursery)
                await self.feed.start(nursery)
                if self.config.rpc is not None:
                    require_free_port(self.config.rpc)
                    nursery.start_soon(supervise, self.config.rpc, self.paths.rpc_socket)
                self.pools.start(nursery)
                nursery.start_soon(self._watch_peers)
                nursery.start_soon(self._keep_figures)
                self._restore_machine()
                await self.loop.run()

    # --- making the parts

    def _make_machine(self, validator_keys: ValidatorKeys | None) -> Machine:
        node_chain, parameters = self.chain, self.chain.parameters
        if self.config.sample_units is not None:
            parameters = replace(parameters, sample_units=self.config.sample_units, force_sampling=True)
        verify = signatures.verify_ed25519
        session_of = validator_keys.session_of if validator_keys is not None else follow_only
        return Machine(parameters, node_chain.genesis, node_chain.epochs, verify, session_of, secrets.randbelow)

    def _make_duty(self, validator_keys: ValidatorKeys) -> ValidatorDuty:
        node_network, node_paths = self.network, self.paths
        key_watch = KeyWatch(validator_keys, self.chain, node_paths, node_network.peers, node_network.transport.peer_id)
        seat_watch = SeatWatch(validator_keys, self.chain, node_paths, self.clock)
        duty_heart = Heart(self.chain, self.pools.heartbeats, validator_keys.sessions, self.clock)
        seat_figures = SeatFigures(
            self.chain, validator_keys.sessions, validator_keys.session_of, self.monitoring.metrics
        )
        return ValidatorDuty(
            keys=validator_keys,
            author=self._make_author(validator_keys),
            key_watch=key_watch,
            seat_watch=seat_watch,
            listeners=(key_watch, seat_watch, duty_heart, seat_figures),
        )

    def _make_author(self, keys: ValidatorKeys) -> Author:
        return Author(
            chain=self.chain,
            validator_keys=keys,
            transaction_pool=self.pools.transactions,
            verify=self.pools.verifier.verify,
            clock=self.clock,
            inherents=self.pools.inherents,
        )

    def _make_loop(self) -> Loop:
        standing = NodeStanding(self.machine, self.network.peers)
        listeners = (
            # The feed first: a client that learns that an extrinsic is in a block can then already read that block's
            # state.
            self.feed.stream,
            self.feed.answers,
            self.pools.transactions,
            standing,
            ProvenKeys(self.network.proofs, self.network.peers, self.clock.now_ms, self._on_proven_keys),
            self.pools.attestations,
            self.pools.heartbeats,
            self.pools.evidence,
            self.monitoring.figures,
            self.monitoring.checks,
            self.monitoring.imports,
            *(() if self.duty is None else self.duty.listeners),
        )
        return Loop(
            machine=self.machine,
            ledger=self.ledger,
            sync=self.sync,
            standing=standing,
            peers=self.network.peers,
            clock=self.clock,
            duty=self.duty,
            metrics=self.monitoring.metrics,
            polls=self.monitoring.polls,
            listeners=listeners,
        )

    # --- starting and stopping

    async def _start_network(self, nursery: trio.Nursery) -> None:
        with as_bad_input(TransportError, ValueError):
            await self.network.transport.start(nursery)
        role_name = "validator" if self.duty is not None else "full node"
        _LOG.info("%s %s on chain %s (%s)", role_name, self.config.name, self.spec.name, process.VERSION)
        _LOG.info("peers reach this node at %s", ", ".join(self.network.transport.addresses))

    def _restore_machine(self) -> None:
        """Pass the kept state to the machine, and carry out its effects."""
        final = self.chain.final.facts
        sign_state, silent_below = EMPTY, 0
        if self.duty is not None:
            if (certificate := self.chain.final_certificate) is not None:
                # After a crash between the commit and its record, or a run without --validator, the database is ahead.
                self.duty.keys.note_final(certificate.ballot.epoch, certificate.ballot.round, final.height)
            sign_state = self.duty.keys.sign_state(self.chain.parameters.epoch_of(final.height + 1))
            silent_below = self.duty.keys.noted_height
        recovery = self.ledger.recovery(sign_state)
        # The higher one of the keys' own records and the operator's checkpoint.
        recovery = replace(recovery, silent_below=max(silent_below, recovery.silent_below))
        effects = self.machine.restore(recovery, self.clock.now_ms())
        _LOG.info("starting at final #%d 0x%s", final.height, final.id.hex()[:12])
        self.loop.restore(effects)
        process.settle_memory()

    async def _stop_on_signal(self, scope: trio.CancelScope) -> None:
        """Send goodbyes to the peers, without waiting long for them, and stop."""
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as received_signals:
            async for signal_number in received_signals:
                _LOG.info("%s: stopping", signal.Signals(signal_number).name)
                with trio.move_on_after(GOODBYE_SECONDS):
                    await self.network.transport.stop()
                scope.cancel()

    # --- beside the loop

    async def _watch_peers(self) -> None:
        async for event in self.network.transport.events:
            if isinstance(event, PeerUp):
                self.loop.peer_up(event.peer, self.network.proofs.sessions.get(event.peer, ()))
                if self.duty is not None:
                    self.duty.key_watch.tell(event.peer)
            else:
                self.loop.peer_down(event.peer)

    def _on_proven_keys(self, peer: str, sessions: tuple[bytes, ...]) -> None:
        self.loop.peer_up(peer, sessions)

    async def _keep_figures(self) -> None:
        while True:
            self.monitoring.read_gauges()
            self.feed.stream.publish_status()
            if self.duty is not None:
                self.duty.seat_watch.listen(has_peers=bool(self.network.transport.peers()))
            await trio.sleep(FIGURES_SECONDS)
