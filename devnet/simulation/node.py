"""A simulated honest node: the shell around the consensus machine, with a disk that survives crashes.

Invariants:

* It executes the effects of `consensus.events` in order, as every shell must.
* A crash loses everything but `Disk`. It can happen between any two effects, and between the commit of a final block
  and its note in the sign-state.
* A block is in memory only until a vote or finality writes it to disk.

Subclasses here and in `byzantine` override single methods.
"""

from collections import deque
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from random import Random
from typing import assert_never

from consensus import events as ev
from consensus import signstate
from consensus.certificates import Certificate
from consensus.events import BlockFacts
from consensus.headers import HeaderRules, InvalidHeaderError, NotYetError
from consensus.machine import Machine
from consensus.validators import Epoch, ValidatorSet
from consensus.wire import Certified
from devnet.simulation.keys import KeyRing
from devnet.simulation.packets import (
    BlocksAsked,
    BlocksSent,
    HandoffsAsked,
    HandoffsSent,
    Packet,
    ProvenHandoff,
    proven_handoff,
)
from devnet.simulation.world import World
from runtime.blocks.votes import Ballot, BallotKind

ORPHANS_MAX = 64
BLOCKS_PER_ANSWER_MAX = 64
HANDOFFS_PER_ANSWER_MAX = 16


@dataclass
class Disk:
    """The state that survives a crash."""

    final: BlockFacts
    certificate: Certificate | None = None
    boundaries: dict[int, Certificate] = field(default_factory=dict)
    blocks: dict[bytes, BlockFacts] = field(default_factory=dict)
    ancestors: dict[int, bytes] = field(default_factory=dict)
    sign_state: signstate.SignState = signstate.EMPTY
    preference: bytes | None = None
    certificates: dict[tuple[int, int, int], Certificate] = field(default_factory=dict)
    noted: int = 0  # the highest final block that the sign-state has recorded

    @property
    def is_behind(self) -> bool:
        """True if the database is older than the sign-state's record. The node then signs nothing."""
        return self.final.height < self.noted


class SimulatedNode:
    """One node of a `World`; `number` is its address there."""

    is_honest = True

    def __init__(
        self, world: "World[SimulatedNode]", node_number: int, key_ring: KeyRing, clock_offset_ms: int
    ) -> None:
        """Create a node that has not started yet."""
        genesis_block = world.genesis_block
        self.world = world
        self.number = node_number
        self.address = node_number.to_bytes(4, "big")
        self.keys = key_ring
        self.clock_offset_ms = clock_offset_ms
        self.disk = Disk(genesis_block, blocks={genesis_block.id: genesis_block}, ancestors={0: genesis_block.id})
        self.copy = Disk(genesis_block, blocks={genesis_block.id: genesis_block}, ancestors={0: genesis_block.id})
        self.machine: Machine | None = None
        self.starts = 0
        self.blocks = dict(self.disk.blocks)
        self.effects_to_live: int | None = None
        self._clock_ms = 0
        self.rules = HeaderRules(world.parameters, self.epochs, world.genesis_hash, world.verify)
        self._orphans: dict[bytes, tuple[BlockFacts, int]] = {}
        self._pending_events: deque[ev.Event] = deque()

    def now_ms(self) -> int:
        """Return this node's clock in ms."""
        self._clock_ms = max(self._clock_ms, self.world.now_ms + self.clock_offset_ms)  # time never decreases
        return self._clock_ms

    def neighbours(self) -> list["SimulatedNode"]:
        """Return the nodes that this one connects to when both are up."""
        return [node for node in self.world.nodes if self.world.is_linked(self.number, node.number)]

    # --- life

    def start(self) -> None:
        """Start, or restart, from the disk."""
        world = self.world
        own_disk = self.disk
        self.starts += 1
        self.effects_to_live = None
        self._clock_ms = 0
        self.blocks = dict(own_disk.blocks)
        self._orphans.clear()
        self._pending_events.clear()
        random_below = Random(f"{world.seed}/{self.number}/{self.starts}").randrange
        self.machine = Machine(
            world.parameters, world.genesis_hash, self.epochs, world.verify, self.session_of, random_below
        )
        undecided = [facts for facts in own_disk.blocks.values() if facts.height > own_disk.final.height]
        undecided_blocks = sorted(undecided, key=lambda facts: facts.height)
        recovery = ev.Recovery(
            final=own_disk.final,
            certificate=own_disk.certificate,
            blocks=undecided_blocks,
            sign_state=own_disk.sign_state,
            preference=own_disk.preference,
            boundaries=list(own_disk.boundaries.values())[-world.parameters.boundaries_kept :],
            open_rounds=own_disk.certificates.values(),
            silent_below=own_disk.noted,
        )
        self._run_effects(self.machine.restore(recovery, self.now_ms()))
        for other_node in self.neighbours():
            if other_node.machine is not None:
                self.feed(ev.PeerConnected(other_node.address, other_node.proven()))
                other_node.feed(ev.PeerConnected(self.address, self.proven()))

    def epochs(self, number: int) -> Epoch | None:
        """Return an epoch that this node's final state has settled, else None."""
        if self.disk.final.height < self.world.parameters.settled_height(number):
            return None
        return self.world.epochs(number)

    def session_of(self, epoch: int) -> bytes | None:
        """Return the key that the machine votes with in an epoch."""
        return self.keys.at(epoch).public

    def proven(self) -> tuple[bytes, ...]:
        """Return the keys that it proves to its peers."""
        return self.keys.public

    def crash(self) -> None:
        """Stop at once. The peers notice that the connection ended."""
        self.machine = None
        for other_node in self.neighbours():
            if other_node.machine is not None:
                other_node.feed(ev.PeerLost(self.address))

    def lose_database(self) -> None:
        """Replace the database by an older copy, at first an empty one. The sign-state and the files beside it stay."""
        own_disk, older_copy = self.disk, self.copy
        self.copy = Disk(
            own_disk.final, own_disk.certificate, {**own_disk.boundaries}, {**own_disk.blocks}, {**own_disk.ancestors}
        )
        self.disk = replace(
            older_copy, sign_state=own_disk.sign_state, preference=own_disk.preference,
            certificates=own_disk.certificates,
            noted=own_disk.noted,
        )  # fmt: skip

    def is_cut_off(self) -> bool:
        """Return whether the node is down. Count down to a planned crash between two effects."""
        if self.effects_to_live is None or self.machine is None:
            return self.machine is None
        self.effects_to_live -= 1
        if self.effects_to_live < 0:
            self.crash()
        return self.machine is None

    # --- events in

    def feed(self, event: ev.Event) -> None:
        """Step the machine with an event, and execute the effects."""
        if self.machine is None:
            return
        self._run_effects(self.machine.step(event, self.now_ms()))

    def _run_effects(self, effects: list[ev.Effect]) -> None:
        while True:
            for effect in effects:
                if self.is_cut_off():
                    return
                self.execute(effect)
            if not self._pending_events or self.machine is None:
                break
            effects = self.machine.step(self._pending_events.popleft(), self.now_ms())
        if self.machine is not None:
            self.world.schedule_tick(self, self.machine.deadline_ms - self.clock_offset_ms)

    def receive(self, sender: "SimulatedNode", packet: Packet) -> None:
        """Take a packet. A node that is down drops it."""
        if self.machine is None:
            return
        match packet:
            case BlocksAsked(block_id, above_height):
                blocks_found = self._chain_to(block_id, above_height)
                if blocks_found:
                    self.world.send(self, sender, BlocksSent(blocks_found))
            case HandoffsAsked(epoch):
                self.world.send(self, sender, self._handoffs_from(epoch))
            case HandoffsSent():
                pass  # a node that executes blocks reads the sets from its state
            case BlocksSent(blocks):
                for facts in blocks:
                    self._import_block(facts, sender)
                self._run_effects([])
            case _:
                self.feed(ev.MessageReceived(sender.address, packet))

    def _handoffs_from(self, epoch: int) -> HandoffsSent:
        """Return handoffs from this epoch to later ones, as far as their epochs have ended."""
        proven_handoffs: list[ProvenHandoff] = []
        while (certificate := self.disk.boundaries.get(epoch)) is not None and len(
            proven_handoffs
        ) < HANDOFFS_PER_ANSWER_MAX:
            block_id = certificate.ballot.block
            next_set = self.known_set(epoch + 1)
            if next_set is None:
                break
            proven_handoffs.append(
                proven_handoff(self.world.headers[block_id], self.disk.blocks[block_id], certificate, next_set)
            )
            epoch += 1
        is_last = proven_handoffs and epoch not in self.disk.boundaries
        return HandoffsSent(
            tuple(proven_handoffs), self._referenced_tail(proven_handoffs[-1].boundary) if is_last else ()
        )

    def _referenced_tail(self, facts: BlockFacts) -> tuple[BlockFacts, ...]:
        referenced_height, tail_blocks = facts.referenced_height, [facts]
        while tail_blocks[-1].height > referenced_height and tail_blocks[-1].parent in self.disk.blocks:
            tail_blocks.append(self.disk.blocks[tail_blocks[-1].parent])
        return tuple(reversed(tail_blocks))

    def known_set(self, epoch: int) -> ValidatorSet | None:
        """Return the set of an epoch. The state knows it one epoch ahead."""
        return self.world.epochs(epoch).validators

    def _chain_to(self, block_id: bytes, undecided_blocks: int) -> tuple[BlockFacts, ...]:
        chain_blocks = []
        facts = self.blocks.get(block_id)
        while facts is not None and facts.height > undecided_blocks:
            chain_blocks.append(facts)
            facts = self.blocks.get(facts.parent)
        return tuple(reversed(chain_blocks[-BLOCKS_PER_ANSWER_MAX:]))

    def _import_block(self, facts: BlockFacts, sender: "SimulatedNode") -> None:
        """Check and store a block, and report it to the machine. Its waiting children follow."""
        waiting_blocks = [facts]
        for waiting_block in waiting_blocks:
            if waiting_block.id in self.blocks:
                self._pending_events.append(ev.BlockImported(waiting_block))
                continue
            if waiting_block.parent not in self.blocks:
                # Bounded, as in a real node: strangers can send orphans without end.
                if len(self._orphans) < ORPHANS_MAX:
                    self._orphans[waiting_block.id] = (waiting_block, sender.number)
                self._pending_events.append(ev.BlockWanted(waiting_block.parent, sender.address))
                continue
            try:
                self._check_block(waiting_block)
            except NotYetError:
                continue  # a peer will announce it again
            except InvalidHeaderError:
                self._pending_events.append(ev.BlockRejected(waiting_block.id))
                continue
            if self.machine is not None and not self.machine.is_welcome(waiting_block):
                continue
            self._store_block(waiting_block)
            self._pending_events.append(ev.BlockImported(waiting_block))
            child_blocks = [
                child_block for child_block, _ in self._orphans.values() if child_block.parent == waiting_block.id
            ]
            for child_block in child_blocks:
                del self._orphans[child_block.id]
            waiting_blocks.extend(child_blocks)

    def _check_block(self, facts: BlockFacts) -> None:
        parent = self.blocks[facts.parent]
        self.rules.check_facts(facts, parent, lambda height: self._ancestor_at(parent, height), self.now_ms())
        if not self.world.names_next_set(facts):
            raise InvalidHeaderError("the header names other seats than the state")

    def _ancestor_at(self, parent: BlockFacts, height: int) -> bytes | None:
        while parent.height > height:
            if self.disk.ancestors.get(parent.height) == parent.id:
                return self.disk.ancestors.get(height)
            parent = self.blocks[parent.parent]
        return parent.id if parent.height == height else None

    def _store_block(self, facts: BlockFacts) -> None:
        self.blocks[facts.id] = facts
        self.world.note_block(facts)

    # --- effects out

    def execute(self, effect: ev.Effect) -> None:  # noqa: C901, PLR0912 - one case for each effect
        """Execute one effect."""
        world = self.world
        match effect:
            case ev.SendTo(address, message):
                world.send(self, world.nodes[int.from_bytes(address, "big")], message)
            case ev.Broadcast(message):
                self.broadcast(message)
            case ev.Announce(block_id):
                self.broadcast(BlocksSent((self.blocks[block_id],)))
            case ev.Fetch(block_id, address, above_height):
                world.send(self, world.nodes[int.from_bytes(address, "big")], BlocksAsked(block_id, above_height))
            case ev.SendBoundary(address, epoch):
                if epoch in self.disk.boundaries:
                    boundary_certificate = Certified((self.disk.boundaries[epoch],))
                    world.send(self, world.nodes[int.from_bytes(address, "big")], boundary_certificate)
            case ev.Build():
                self.build(effect)
            case ev.PersistThenSign(sign_record):
                self.sign(sign_record)
            case ev.PersistPreference(preferred_tip):
                self.disk.preference = preferred_tip
            case ev.PersistCertificate(certificate):
                final_ballot = certificate.ballot
                self.disk.certificates[final_ballot.epoch, final_ballot.round, final_ballot.kind] = certificate
            case ev.Finalise(blocks, certificate):
                self._finalise_blocks(blocks, certificate)
            case ev.Accepted(block_id, height):
                world.note_accepted(self, block_id, height)
            case ev.AcceptedReverted():
                world.note_reverted(self)
            case ev.ReportEvidence(evidence):
                world.note_evidence(self, evidence)
            case ev.ReportDoubleHeader(author_key, _, first_header, second_header):
                world.note_double_header(self, author_key, first_header, second_header)
            case ev.PreferenceChanged() | ev.Penalise():
                world.note_other(self, effect)
            case _:
                assert_never(effect)

    def broadcast(self, packet: Packet) -> None:
        """Send to every linked node that is up."""
        for other_node in self.neighbours():
            if other_node.machine is not None:
                self.world.send(self, other_node, packet)

    def build(self, request: ev.Build) -> None:
        """Seal a block after recording its slot in the sign-state."""
        if self.disk.is_behind:
            return
        facts = self.make_block(request, 0)
        sign_record = signstate.HeaderRecord(request.slot, facts.id)
        self.disk.sign_state = signstate.after(self.disk.sign_state, sign_record)
        self._store_block(facts)
        self._pending_events.append(ev.BlockBuilt(facts))

    def make_block(self, request: ev.Build, nonce: int) -> BlockFacts:
        """Return a block for `request`. Another nonce gives another id."""
        final_reference_id = b"" if request.final_ref is None else request.final_ref.block
        author_key = self.keys.at(request.epoch).public
        hashed_parts = (request.parent, request.slot.to_bytes(8, "big"), author_key, final_reference_id, bytes([nonce]))
        identity = blake2b(b"".join(hashed_parts), digest_size=32).digest()
        referenced = self.blocks[request.parent].referenced_height
        if request.final_ref is not None:
            referenced = request.final_ref.height
        block_slot, reference = request.slot, request.final_ref
        facts = BlockFacts(identity, request.parent, request.height, block_slot, author_key, referenced, reference)
        return self.world.seal(facts) if self.world.parameters.is_boundary(facts.height) else facts

    def sign(self, record: signstate.SignedRecord) -> None:
        """Persist the record in the sign-state, then sign it."""
        if self.disk.is_behind:
            return
        # The block must be on disk before the vote for it, and a crash can come between both.
        if isinstance(record, Ballot) and record.kind is BallotKind.NOTARISE:
            self._keep_on_disk(record.block)
            if self.is_cut_off():
                return
        self.disk.sign_state = signstate.after(self.disk.sign_state, record)
        assert not isinstance(record, signstate.HeaderRecord)  # `build` seals headers
        signature = self.keys.at(record.epoch).sign(signstate.record_payload(self.world.genesis_hash, record))
        self.world.note_signed(self, record)
        self._pending_events.append(ev.RecordSigned(record, signature))

    def _keep_on_disk(self, block_id: bytes) -> None:
        """Write a block and its ancestors to disk, because a vote for it must survive a crash."""
        while block_id not in self.disk.blocks:
            self.disk.blocks[block_id] = self.blocks[block_id]
            block_id = self.blocks[block_id].parent

    def _finalise_blocks(self, blocks: tuple[bytes, ...], certificate: Certificate) -> None:
        own_disk = self.disk
        final_ballot = certificate.ballot
        self._keep_on_disk(blocks[-1])
        for block_id in blocks:
            own_disk.ancestors[self.blocks[block_id].height] = block_id
        own_disk.final = self.blocks[blocks[-1]]
        own_disk.certificate = certificate
        if self.world.parameters.is_boundary(final_ballot.height):
            own_disk.boundaries[final_ballot.epoch] = certificate
        self.world.note_final(self, [self.blocks[block_id] for block_id in blocks])
        if self.is_cut_off():
            return
        # A restored database makes blocks final again that the sign-state has already recorded.
        if not own_disk.is_behind:
            own_disk.sign_state = signstate.raise_floor(own_disk.sign_state, final_ballot.epoch, final_ballot.round)
            own_disk.noted = own_disk.final.height
        held_certificates = own_disk.certificates.items()
        own_disk.certificates = {
            round_key: certificate_kept
            for round_key, certificate_kept in held_certificates
            if round_key[:2] > (final_ballot.epoch, final_ballot.round)
        }


class Follower(SimulatedNode):
    """A full node without keys: it casts no votes, and relays for its peers."""

    def session_of(self, _epoch: int) -> bytes | None:
        """Return None: it has no key."""
        return None

    def proven(self) -> tuple[bytes, ...]:
        """Return no key."""
        return ()
