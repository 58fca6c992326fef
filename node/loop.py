"""The loop between consensus and the world: events go into the machine, and the loop carries out its effects.

Invariants:

* One event is carried out whole, its effects in order, before the next one begins. Only the disk may delay it.
* Every signature of this node is recorded in its sign-state file first, and a block's bytes are synced before this node
  votes for it.
* Consensus messages are served before blocks that are being synced, and those before all other work. Gossip waits while
  an announced block does.
* The node stops if a block becomes final that it could not execute by a fault of its own.
* No block becomes final upon one that is too old to trust: on a live chain the node stops.
"""

from __future__ import annotations

import gc
import logging
import random
from collections import deque
from collections.abc import Callable, Iterable
from time import thread_time
from typing import assert_never

import trio

from consensus import events as ev
from consensus.certificates import CERTIFICATE, Certificate, verify_certificate
from consensus.machine import Machine
from consensus.signstate import HeaderRecord, SignedRecord, SigningRefusedError
from consensus.wire import MESSAGE, Certified, Chits, Message, PullQuery, Vote
from node.clock import Clock
from node.duty.duty import ValidatorDuty
from node.errors import NodeError
from node.ledger.ledger import Ledger
from node.ledger.listener import Listener
from node.monitoring.metrics import Metrics
from node.monitoring.poll_log import PollLog
from node.p2p.frames import FrameKind
from node.p2p.inbox import InboxMessage as Arrived
from node.p2p.meter import PeerRates
from node.peers.messages import GET_BLOCKS, GET_HANDOFFS, STATUS
from node.peers.peers import Peers
from node.sync.status import NodeStanding
from node.sync.sync import Sync
from runtime.blocks.block import HEADER, seal_payload
from runtime.blocks.evidence import EVIDENCE
from runtime.blocks.votes import Ballot, BallotKind, Proposal, SignedBallot, ballot_payload
from runtime.cryptography import signatures
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.codec import DecodeError

LEAST_SECONDS = 1e-6
TURN_SECONDS = 0.01
"""The CPU time for messages before a waiting block gets its turn, and other tasks get theirs."""
TURNS_BEFORE_IMPORT = 4
"""Turns of all other tasks before an import: one wakes the task that feeds the workers, one runs it before it writes,
and tasks run in any order."""
TURN_BYTES = 16 * 1024
"""Bytes of a block for one more turn: as much as is imported has to be read meanwhile, 64 KiB in about four turns. With
the few turns alone, an answer of three blocks arrived only when no block was left to import: first the worker was idle,
then the node."""
OWN_VOTES_PER_SECOND = 2.0
OWN_VOTES_BURST = 8
"""The rate of votes with this node's own key that one peer may have checked. Only another machine makes new ones."""
CONSENSUS = frozenset({FrameKind.POLL_QUERY, FrameKind.CHITS, FrameKind.VOTE, FrameKind.CERT, FrameKind.GET_CERTS})
_LOG = logging.getLogger(__name__)


# Python's search for cycles of dead objects, done in the middle of a slot, when no peer waits for this node.
# A node that only makes and checks empty blocks leaves about 400 such objects a second. Python's own threshold is high,
# so that no import is delayed. After ten minutes it then searched 250,000 at once: 150 ms and more, at the same moment
# in nodes that had started together, and a block was 400 ms late.
QUIET_FROM, QUIET_UNTIL = 0.3, 0.6
"""The quiet part of a slot, as fractions: its block is final by then, and the next one is not made yet."""
YOUNG_MIN = 10_000
"""The fewest new objects for a search; it takes about 5 ms."""
OLDER_EVERY, ALL_EVERY = 8, 64
"""Searches before one that includes the remains of earlier ones, and before one of all objects since the start."""


class Collector:
    """A garbage collection in small steps, when `rest` finds a quiet moment."""

    def __init__(self, slot_ms: int) -> None:
        """Create it; the random start keeps nodes that start together from a full search at the same moment."""
        self._slot_ms = slot_ms
        self._searches = random.randrange(ALL_EVERY)

    def rest(self, now_ms: int) -> None:
        """Search at an idle moment, if the slot is quiet and there is enough to find."""
        slot_position = now_ms % self._slot_ms
        if (
            not QUIET_FROM * self._slot_ms <= slot_position < QUIET_UNTIL * self._slot_ms
            or gc.get_count()[0] < YOUNG_MIN
        ):
            return
        self._searches += 1
        oldest_generation = 0
        if self._searches % ALL_EVERY == 0:
            oldest_generation = 2
        elif self._searches % OLDER_EVERY == 0:
            oldest_generation = 1
        gc.collect(oldest_generation)


class Loop:
    """The owner of the machine, and of all parts that it controls."""

    def __init__(
        self,
        *,
        machine: Machine,
        ledger: Ledger,
        sync: Sync,
        standing: NodeStanding,
        peers: Peers,
        clock: Clock,
        duty: ValidatorDuty | None,
        metrics: Metrics,
        polls: PollLog,
        listeners: Iterable[Listener],
    ) -> None:
        """Create it; `duty` is None for a node that only follows, `listeners` are called in their order."""
        self.machine = machine
        self.ledger = ledger
        self.chain = ledger.chain
        self.sync = sync
        self.duty = duty
        self._standing = standing
        self._peers = peers
        self._clock = clock
        self._metrics = metrics
        self._poll_log = polls
        self._listeners = tuple(listeners)
        self._began_slot = clock.now_ms() // self.chain.parameters.slot_ms
        self._own_votes = PeerRates(OWN_VOTES_PER_SECOND, OWN_VOTES_BURST)
        self._machine_events: deque[ev.Event] = deque()
        self._is_busy = False
        self._waiting = trio.CancelScope()
        self._collector = Collector(self.chain.parameters.slot_ms)

    # --- running

    def restore(self, effects: list[ev.Effect]) -> None:
        """Carry out the machine's effects at its start."""
        self._is_busy = True
        for effect in effects:
            self._carry_out(effect)
        self._is_busy = False
        self._drain_events()

    async def run(self) -> None:
        """Serve until cancelled, or until a `NodeError`."""
        inbox = self._peers.transport.inbound
        while True:
            if self._clock.now_ms() >= self.machine.deadline_ms:
                # First: a machine that slept may have slept for too long.
                self.ledger.trusted.judge(self._clock.now_ms())
                self.sync.retry_early()
                self.feed(*self.sync.want_again(), ev.Tick())
            spent_seconds = 0.0
            # Gossip waits for an announced block: a turn of it is a tenth of a second if the node has little CPU.
            while spent_seconds < TURN_SECONDS and (arrived := inbox.receive_nowait(consensus_only=self.sync.is_late)):
                spent_seconds += self._serve_message(arrived)
            # One handoff, one block, then messages again: votes never wait for a whole sync.
            self._follow_handoff()
            if self.sync.has_work:
                self.sync.look_ahead()
                # The claims reach the workers and their verdicts arrive meanwhile. With one turn of the other tasks
                # between two imports, a worker began only when the block before was done.
                turn_ends_at = trio.current_time() + TURN_SECONDS
                for turn_number in range(TURNS_BEFORE_IMPORT + self.sync.next_bytes // TURN_BYTES):
                    await trio.lowlevel.checkpoint()
                    # Each turn the pool may work for 8 ms: before a long block votes waited for a second.
                    if turn_number >= TURNS_BEFORE_IMPORT and (len(inbox) or trio.current_time() >= turn_ends_at):
                        break
                # Its peer may have been disconnected meanwhile, and its blocks dropped.
                if await self._is_verified() and self.sync.has_work:
                    self._import_next()
            elif not spent_seconds and not self.sync.sets_ahead.has_work:
                self._collector.rest(self._clock.now_ms())
                with trio.CancelScope(deadline=self._clock.to_trio(self.machine.deadline_ms)) as self._waiting:
                    self._serve_message(await inbox.receive())
            await trio.lowlevel.checkpoint()

    def _follow_handoff(self) -> None:
        """Check the next handoff of an answer, if one waits, and charge its peer for it."""
        begun_at = thread_time()
        handoff_peer = self.sync.sets_ahead.follow_next()
        if handoff_peer is not None:
            followed = Arrived(handoff_peer.decode(), FrameKind.HANDOFFS, b"")
            self._peers.transport.inbound.charge(followed, thread_time() - begun_at)

    async def _is_verified(self) -> bool:
        """Return whether the workers have checked the next block's signatures, or had enough time for it."""
        verdicts = self.sync.put_off()
        if verdicts is None:
            return True
        # This process would repeat a worker's checks: with 4 of 10, that took a ninth of the time of a sync.
        with trio.move_on_after(TURN_SECONDS):
            await verdicts.wait()
        return not verdicts.missing

    def feed(self, *events: ev.Event) -> None:
        """Pass events to the machine, and carry out all their effects."""
        self._machine_events.extend(events)
        if not self._is_busy:
            self._drain_events()

    def peer_up(self, peer: str, sessions: tuple[bytes, ...]) -> None:
        """Report a connected peer, or its other keys; `sessions` are those that it proved."""
        self.feed(ev.PeerConnected(peer.encode(), sessions))
        self._standing.tell(peer.encode())

    def peer_down(self, peer: str) -> None:
        """Report a disconnected peer."""
        self.sync.forget_peer(peer.encode())
        self.feed(ev.PeerLost(peer.encode()))

    def _drain_events(self) -> None:
        self._is_busy = True
        try:
            while self._machine_events:
                with self._metrics.event_seconds.time():
                    for effect in self.machine.step(self._machine_events.popleft(), self._clock.now_ms()):
                        self._carry_out(effect)
        finally:
            self._is_busy = False
            self._waiting.cancel()  # the deadline may have changed

    # --- input

    def _serve_message(self, arrived: Arrived) -> float:
        """Take a message, charge its peer for it, and return the seconds of CPU that it took."""
        # The thread's own time: other load on the machine is no peer's fault.
        begun_at = thread_time()
        self._take_message(arrived)
        served_seconds = max(thread_time() - begun_at, LEAST_SECONDS)
        self._peers.transport.inbound.charge(arrived, served_seconds)
        return served_seconds

    def _take_message(self, arrived: Arrived) -> None:
        peer_key = arrived.peer.encode()
        try:
            match arrived.kind:
                case kind if kind in CONSENSUS:
                    message = MESSAGE.decode(arrived.payload)
                    if isinstance(message, Chits):
                        self._poll_log.on_chits(peer_key, message, self._clock.now_ms())
                    self._look_out(message, peer_key)
                    self.feed(ev.MessageReceived(peer_key, message))
                case FrameKind.BLOCK:
                    self.feed(*self.sync.on_block(arrived.payload, peer_key))
                case FrameKind.BLOCKS:
                    self.sync.on_answer(arrived.payload, peer_key)
                case FrameKind.GET_BLOCKS | FrameKind.GET_HANDOFFS:
                    self._answer_question(arrived, peer_key)
                case FrameKind.HANDOFFS:
                    self.sync.sets_ahead.on_answer(arrived.payload, peer_key)
                case FrameKind.STATUS:
                    self.feed(*self.sync.on_status(STATUS.decode(arrived.payload), peer_key))
                case _:  # listeners take the other kinds; a fault in one must not stop the node
                    self._notify_listeners(
                        lambda listener: listener.on_gossip(arrived.kind, arrived.payload, arrived.peer)
                    )
        except DecodeError as error:
            self._peers.penalise(peer_key, f"malformed {arrived.kind.name}: {error}", self._clock.now_ms())

    def _answer_question(self, question: Arrived, peer: bytes) -> None:
        if question.kind is FrameKind.GET_BLOCKS:
            kind = FrameKind.BLOCKS
            answer = self.sync.on_request(GET_BLOCKS.decode(question.payload), peer)
        else:
            request = GET_HANDOFFS.decode(question.payload)
            kind, answer = FrameKind.HANDOFFS, self.sync.sets_ahead.on_request(request, peer)
        if answer is not None:
            self._peers.transport.send(question.peer, kind, answer)

    def _import_next(self) -> None:
        with self._metrics.import_seconds.time():
            events = self.sync.import_next()
        for event in events:
            if isinstance(event, ev.BlockImported):
                self._look_at_author(event.facts)
                self._notify_imported(event.facts.id)
        self.feed(*events)

    def _look_out(self, message: Message, peer: bytes) -> None:
        """Detect own votes by another machine, and a final block that this node could not execute."""
        if isinstance(message, Certified):
            for certificate in message.certificates:
                self._stop_if_faulty(certificate)
        if self.duty is None or not isinstance(message, Vote):
            return
        vote = message.vote
        key = self.duty.keys.sessions.get(vote.voter)
        if key is None or key.is_copied or key.is_known(vote.ballot):
            return
        # Any peer can name this key. Only a vote with its valid signature proves another machine.
        now_ms = self._clock.now_ms()
        if not self._own_votes.may(peer, now_ms):
            return
        if self._is_genuine(vote):
            key.notice(vote.ballot)
        else:
            self._peers.penalise(peer, "a forged vote of this node", now_ms)

    def _look_at_author(self, facts: ev.BlockFacts) -> None:
        """Detect another machine with this node's keys by its blocks; own blocks never arrive as imports."""
        key = None if self.duty is None else self.duty.keys.sessions.get(facts.author)
        if key is not None:
            payload = seal_payload(self.chain.genesis, HEADER.decode(self.chain[facts.id].stored.header))
            key.notice_header(HeaderRecord(facts.slot, blake2_256(payload)), self._began_slot)

    # --- effects

    def _carry_out(self, effect: ev.Effect) -> None:  # noqa: C901, PLR0912  # one case for each effect
        match effect:
            case ev.SendTo(peer, message):
                if isinstance(message, PullQuery):
                    self._poll_log.on_query(peer, message, self._clock.now_ms(), self.machine.electorate)
                self._peers.send(peer, message)
            case ev.Broadcast(message):
                self._peers.broadcast(message)
            case ev.Announce(block):
                self._announce(block)
            case ev.Build():
                self._build_block(effect)
            case ev.PersistThenSign(record):
                self._sign_record(record)
            case ev.PersistCertificate(certificate):
                # Synced before the votes that follow: in 4 of 600 simulated storms the only holder of an open round's
                # certificate restarted without it, and no block could ever become final again (docs/adr/0012).
                self.ledger.rounds.add(certificate)
            case ev.PersistPreference(tip):
                # Not synced: after a power cut an older preference only costs polls.
                self.ledger.remember_preference(tip)
            case ev.Fetch(block, peer, above):
                self.sync.fetch(block, peer, above)
            case ev.SendBoundary(peer, epoch):
                self._send_boundary(peer, epoch)
            case ev.Accepted(block, height):
                self._poll_log.on_accepted(height, self._clock.now_ms(), self.machine.confidence(block))
                self._notify_listeners(lambda listener: listener.on_accepted(block, reverted=False))
            case ev.AcceptedReverted(_, new):
                self._notify_listeners(lambda listener: listener.on_accepted(new, reverted=True))
            case ev.PreferenceChanged(tip):
                self._notify_listeners(lambda listener: listener.on_tip(tip))
            case ev.Finalise(blocks, certificate):
                self._finalise(blocks, certificate)
            case ev.ReportDoubleHeader(author, slot, first, second):
                self._report_double(author, slot, first, second)
            case ev.ReportEvidence(evidence):
                proof = EVIDENCE.encode(evidence)
                self._notify_listeners(lambda listener: listener.on_evidence(evidence.accused, proof))
            case ev.Penalise(peer, reason):
                self._peers.penalise(peer, reason, self._clock.now_ms())
            case _:
                assert_never(effect)

    def _announce(self, block: bytes) -> None:
        stored = self.chain[block].stored
        self._peers.announce(stored.header + stored.body)

    def _build_block(self, request: ev.Build) -> None:
        # Below the checkpoint a seal is as worthless as a vote, which `Recovery.silent_below` prevents.
        if self.duty is None or self.ledger.trusted.is_ahead():
            return
        try:
            with self._metrics.build_seconds.time():
                built_facts = self.duty.author.build(request)
        except SigningRefusedError as error:
            _LOG.error("no block in slot %d: %s", request.slot, error)
            return
        except (NodeError, OSError):  # the disk: a signature may not be recorded, so the node must stop
            raise
        except Exception:  # noqa: BLE001  # hooks run before any extrinsic: a fault there must not stop every validator
            _LOG.exception("no block in slot %d: an unexpected error in this node", request.slot)
            return
        if built_facts is not None:
            self._notify_imported(built_facts.id)
            self._machine_events.append(ev.BlockBuilt(built_facts))

    def _sign_record(self, record: SignedRecord) -> None:
        if self.duty is None or not isinstance(record, Proposal | Ballot):
            return
        try:
            # This vote may make the block final: its bytes must survive a power cut first.
            if isinstance(record, Ballot) and record.kind is BallotKind.NOTARISE and not self.chain.keep(record.block):
                _LOG.error("no vote (epoch %d, round %d): its block is not here", record.epoch, record.round)
                return
            signature = self.duty.keys.sign_vote(record)
        except SigningRefusedError as error:
            _LOG.error("not signed (epoch %d, round %d): %s", record.epoch, record.round, error)
            return
        self._machine_events.append(ev.RecordSigned(record, signature))

    def _finalise(self, blocks: tuple[bytes, ...], certificate: Certificate) -> None:
        becoming = [self.chain[final_id].facts for final_id in blocks]
        self.ledger.trusted.judge_final(becoming, self._clock.now_ms())
        # The database first: a sign-state file that is ahead of it looks like a database that was rolled back.
        with self._metrics.commit_seconds.time():
            final_blocks = self.chain.finalise(blocks, certificate)
        ballot = certificate.ballot
        self.ledger.rounds.forget_to(ballot.epoch, ballot.round)
        if self.duty is not None:
            self.duty.keys.note_final(ballot.epoch, ballot.round, final_blocks[-1].facts.height)
        self.sync.retry_early()
        self._notify_listeners(lambda listener: listener.on_final(final_blocks))

    def _send_boundary(self, peer: bytes, epoch: int) -> None:
        boundary_height = self.chain.parameters.boundary(epoch)
        boundary_certificate = self.chain.storage.certificate_at(boundary_height)
        if boundary_certificate is not None and boundary_certificate[0] == boundary_height:
            self._peers.send(peer, Certified((CERTIFICATE.decode(boundary_certificate[1]),)))

    def _report_double(self, author: bytes, slot: int, first: bytes, second: bytes) -> None:
        stored_blocks = [self.chain.stored(block_id) for block_id in (first, second)]
        double_headers = [stored.header for stored in stored_blocks if stored is not None]
        if len(double_headers) == 2:
            self._notify_listeners(
                lambda listener: listener.on_offence(author, slot, double_headers[0], double_headers[1])
            )

    # --- inside

    def _notify_listeners(self, notify: Callable[[Listener], None]) -> None:
        """Call every listener; a fault in one is logged, and never affects consensus."""
        for listener in self._listeners:
            try:
                notify(listener)
            except NodeError:
                raise
            except Exception:  # noqa: BLE001  # a log line or a figure must never stop consensus
                _LOG.exception("%s failed: consensus goes on without it", type(listener).__name__)

    def _notify_imported(self, block: bytes) -> None:
        self._notify_listeners(lambda listener: listener.on_imported(self.chain[block]))

    def _is_genuine(self, vote: SignedBallot) -> bool:
        """Return whether a vote has a valid signature of the key that it names."""
        return signatures.verify_ed25519(vote.voter, ballot_payload(self.chain.genesis, vote.ballot), vote.signature)

    def _stop_if_faulty(self, certificate: Certificate) -> None:
        """Raise `NodeError` if a block is final that this node failed to execute: its state is no longer right."""
        ballot = certificate.ballot
        if ballot.kind is not BallotKind.FINALISE or ballot.block not in self.sync.faulty:
            return
        ballot_epoch = self.chain.epochs(ballot.epoch)
        if ballot_epoch is None or not verify_certificate(
            certificate, ballot_epoch.validators, self.chain.genesis, signatures.verify_ed25519
        ):
            return
        raise NodeError(
            f"block {ballot.height} 0x{ballot.block.hex()} is final, but this node fails to execute it. "
            "Report the traceback above, and upgrade or use another machine"
        )
