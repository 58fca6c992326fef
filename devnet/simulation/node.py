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

    def __init__(self, world: "World[SimulatedNode]", number: int, keys: KeyRing, clock_offset_ms: int) -> None:
        """Create a node that has not started yet."""
        genesis = world.genesis_block
        self.world = world
        self.number = number
        self.address = number.to_bytes(4, "big")
        self.keys = keys
        self.clock_offset_ms = clock_offset_ms
        self.disk = Disk(genesis, blocks={genesis.id: genesis}, ancestors={0: genesis.id})
        self.copy = Disk(genesis, blocks={genesis.id: genesis}, ancestors={0: genesis.id})
        self.machine: Machine | None = None
        self.starts = 0
        self.blocks = dict(self.disk.blocks)
        self.effects_to_live: int | None = None
        self._clock_ms = 0
        self.rules = HeaderRules(world.parameters, self.epochs, world.genesis_hash, world.verify)
        self._orphans: dict[bytes, tuple[BlockFacts, int]] = {}
        self._inbox: deque[ev.Event] = deque()

    def now_ms(self) -> int:
        """Return this node's clock in ms."""
        self._clock_ms = max(self._clock_ms, self.world.now_ms + self.clock_offset_ms)  # time never decreases
        return self._clock_ms

    def neighbours(self) -> list["SimulatedNode"]:
        """Return the nodes that this one connects to when both are up."""
        return [other for other in self.world.nodes if self.world.is_linked(self.number, other.number)]

    # --- life

    def start(self) -> None:
        """Start, or restart, from the disk."""
        world = self.world
        disk = self.disk
        self.starts += 1
        self.effects_to_live = None
        self._clock_ms = 0
        self.blocks = dict(disk.blocks)
        self._orphans.clear()
        self._inbox.clear()
        below = Random(f"{world.seed}/{self.number}/{self.starts}").randrange
        self.machine = Machine(world.parameters, world.genesis_hash, self.epochs, world.verify, self.session_of, below)
        undecided = [facts for facts in disk.blocks.values() if facts.height > disk.final.height]
        above = sorted(undecided, key=lambda facts: facts.height)
        recovery = ev.Recovery(
            final=disk.final,
            certificate=disk.certificate,
            blocks=above,
            sign_state=disk.sign_state,
            preference=disk.preference,
            boundaries=list(disk.boundaries.values())[-world.parameters.boundaries_kept :],
            open_rounds=disk.certificates.values(),
            silent_below=disk.noted,
        )
        self._run(self.machine.restore(recovery, self.now_ms()))
        for other in self.neighbours():
            if other.machine is not None:
                self.feed(ev.PeerConnected(other.address, other.proven()))
                other.feed(ev.PeerConnected(self.address, self.proven()))

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
        for other in self.neighbours():
            if other.machine is not None:
                other.feed(ev.PeerLost(self.address))

    def lose_database(self) -> None:
        """Replace the database by an older copy, at first an empty one. The sign-state and the files beside it stay."""
        disk, older = self.disk, self.copy
        self.copy = Disk(disk.final, disk.certificate, {**disk.boundaries}, {**disk.blocks}, {**disk.ancestors})
        self.disk = replace(
            older, sign_state=disk.sign_state, preference=disk.preference, certificates=disk.certificates,
            noted=disk.noted,
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
        self._run(self.machine.step(event, self.now_ms()))

    def _run(self, effects: list[ev.Effect]) -> None:
        while True:
            for effect in effects:
                if self.is_cut_off():
                    return
                self.execute(effect)
            if not self._inbox or self.machine is None:
                break
            effects = self.machine.step(self._inbox.popleft(), self.now_ms())
        if self.machine is not None:
            self.world.schedule_tick(self, self.machine.deadline_ms - self.clock_offset_ms)

    def receive(self, sender: "SimulatedNode", packet: Packet) -> None:
        """Take a packet. A node that is down drops it."""
        if self.machine is None:
            return
        match packet:
            case BlocksAsked(block, above):
                found = self._chain_to(block, above)
                if found:
                    self.world.send(self, sender, BlocksSent(found))
            case HandoffsAsked(epoch):
                self.world.send(self, sender, self._handoffs_from(epoch))
            case HandoffsSent():
                pass  # a node that executes blocks reads the sets from its state
            case BlocksSent(blocks):
                for facts in blocks:
                    self._import(facts, sender)
                self._run([])
            case _:
                self.feed(ev.MessageReceived(sender.address, packet))

    def _handoffs_from(self, epoch: int) -> HandoffsSent:
        """Return handoffs from this epoch to later ones, as far as their epochs have ended."""
        proven: list[ProvenHandoff] = []
        while (certificate := self.disk.boundaries.get(epoch)) is not None and len(proven) < HANDOFFS_PER_ANSWER_MAX:
            block = certificate.ballot.block
            following = self.known_set(epoch + 1)
            if following is None:
                break
            proven.append(proven_handoff(self.world.headers[block], self.disk.blocks[block], certificate, following))
            epoch += 1
        is_last = proven and epoch not in self.disk.boundaries
        return HandoffsSent(tuple(proven), self._tail_of(proven[-1].boundary) if is_last else ())

    def _tail_of(self, facts: BlockFacts) -> tuple[BlockFacts, ...]:
        named, tail = facts.referenced_height, [facts]
        while tail[-1].height > named and tail[-1].parent in self.disk.blocks:
            tail.append(self.disk.blocks[tail[-1].parent])
        return tuple(reversed(tail))

    def known_set(self, epoch: int) -> ValidatorSet | None:
        """Return the set of an epoch. The state knows it one epoch ahead."""
        return self.world.epochs(epoch).validators

    def _chain_to(self, block: bytes, above: int) -> tuple[BlockFacts, ...]:
        found = []
        facts = self.blocks.get(block)
        while facts is not None and facts.height > above:
            found.append(facts)
            facts = self.blocks.get(facts.parent)
        return tuple(reversed(found[-BLOCKS_PER_ANSWER_MAX:]))

    def _import(self, facts: BlockFacts, sender: "SimulatedNode") -> None:
        """Check and store a block, and report it to the machine. Its waiting children follow."""
        waiting = [facts]
        for block in waiting:
            if block.id in self.blocks:
                self._inbox.append(ev.BlockImported(block))
                continue
            if block.parent not in self.blocks:
                if len(self._orphans) < ORPHANS_MAX:
                    self._orphans[block.id] = (block, sender.number)
                self._inbox.append(ev.BlockWanted(block.parent, sender.address))
                continue
            try:
                self._check(block)
            except NotYetError:
                continue  # a peer will announce it again
            except InvalidHeaderError:
                self._inbox.append(ev.BlockRejected(block.id))
                continue
            if self.machine is not None and not self.machine.is_welcome(block):
                continue
            self._store(block)
            self._inbox.append(ev.BlockImported(block))
            children = [child for child, _ in self._orphans.values() if child.parent == block.id]
            for child in children:
                del self._orphans[child.id]
            waiting.extend(children)

    def _check(self, facts: BlockFacts) -> None:
        parent = self.blocks[facts.parent]
        self.rules.check_facts(facts, parent, lambda height: self._ancestor(parent, height), self.now_ms())
        if not self.world.names_next_set(facts):
            raise InvalidHeaderError("the header names other seats than the state")

    def _ancestor(self, parent: BlockFacts, height: int) -> bytes | None:
        while parent.height > height:
            if self.disk.ancestors.get(parent.height) == parent.id:
                return self.disk.ancestors.get(height)
            parent = self.blocks[parent.parent]
        return parent.id if parent.height == height else None

    def _store(self, facts: BlockFacts) -> None:
        self.blocks[facts.id] = facts
        self.world.note_block(facts)

    # --- effects out

    def execute(self, effect: ev.Effect) -> None:  # noqa: C901, PLR0912 - one case for each effect
        """Execute one effect."""
        world = self.world
        match effect:
            case ev.SendTo(peer, message):
                world.send(self, world.nodes[int.from_bytes(peer, "big")], message)
            case ev.Broadcast(message):
                self.broadcast(message)
            case ev.Announce(block):
                self.broadcast(BlocksSent((self.blocks[block],)))
            case ev.Fetch(block, peer, above):
                world.send(self, world.nodes[int.from_bytes(peer, "big")], BlocksAsked(block, above))
            case ev.SendBoundary(peer, epoch):
                if epoch in self.disk.boundaries:
                    kept = Certified((self.disk.boundaries[epoch],))
                    world.send(self, world.nodes[int.from_bytes(peer, "big")], kept)
            case ev.Build():
                self.build(effect)
            case ev.PersistThenSign(record):
                self.sign(record)
            case ev.PersistPreference(tip):
                self.disk.preference = tip
            case ev.PersistCertificate(certificate):
                ballot = certificate.ballot
                self.disk.certificates[ballot.epoch, ballot.round, ballot.kind] = certificate
            case ev.Finalise(blocks, certificate):
                self._finalise(blocks, certificate)
            case ev.Accepted(block, height):
                world.note_accepted(self, block, height)
            case ev.AcceptedReverted():
                world.note_reverted(self)
            case ev.ReportEvidence(evidence):
                world.note_evidence(self, evidence)
            case ev.ReportDoubleHeader(author, _, first, second):
                world.note_double_header(self, author, first, second)
            case ev.PreferenceChanged() | ev.Penalise():
                world.note_other(self, effect)
            case _:
                assert_never(effect)

    def broadcast(self, packet: Packet) -> None:
        """Send to every linked node that is up."""
        for other in self.neighbours():
            if other.machine is not None:
                self.world.send(self, other, packet)

    def build(self, request: ev.Build) -> None:
        """Seal a block after recording its slot in the sign-state."""
        if self.disk.is_behind:
            return
        facts = self.make_block(request, 0)
        record = signstate.HeaderRecord(request.slot, facts.id)
        self.disk.sign_state = signstate.after(self.disk.sign_state, record)
        self._store(facts)
        self._inbox.append(ev.BlockBuilt(facts))

    def make_block(self, request: ev.Build, nonce: int) -> BlockFacts:
        """Return a block for `request`. Another nonce gives another id."""
        named = b"" if request.final_ref is None else request.final_ref.block
        author = self.keys.at(request.epoch).public
        parts = (request.parent, request.slot.to_bytes(8, "big"), author, named, bytes([nonce]))
        identity = blake2b(b"".join(parts), digest_size=32).digest()
        referenced = self.blocks[request.parent].referenced_height
        if request.final_ref is not None:
            referenced = request.final_ref.height
        slot, reference = request.slot, request.final_ref
        facts = BlockFacts(identity, request.parent, request.height, slot, author, referenced, reference)
        return self.world.seal(facts) if self.world.parameters.is_boundary(facts.height) else facts

    def sign(self, record: signstate.SignedRecord) -> None:
        """Persist the record in the sign-state, then sign it."""
        if self.disk.is_behind:
            return
        # The block must be on disk before the vote for it, and a crash can come between both.
        if isinstance(record, Ballot) and record.kind is BallotKind.NOTARISE:
            self._keep(record.block)
            if self.is_cut_off():
                return
        self.disk.sign_state = signstate.after(self.disk.sign_state, record)
        assert not isinstance(record, signstate.HeaderRecord)  # `build` seals headers
        signature = self.keys.at(record.epoch).sign(signstate.record_payload(self.world.genesis_hash, record))
        self.world.note_signed(self, record)
        self._inbox.append(ev.RecordSigned(record, signature))

    def _keep(self, block: bytes) -> None:
        """Write a block and its ancestors to disk, because a vote for it must survive a crash."""
        while block not in self.disk.blocks:
            self.disk.blocks[block] = self.blocks[block]
            block = self.blocks[block].parent

    def _finalise(self, blocks: tuple[bytes, ...], certificate: Certificate) -> None:
        disk = self.disk
        ballot = certificate.ballot
        self._keep(blocks[-1])
        for block in blocks:
            disk.ancestors[self.blocks[block].height] = block
        disk.final = self.blocks[blocks[-1]]
        disk.certificate = certificate
        if self.world.parameters.is_boundary(ballot.height):
            disk.boundaries[ballot.epoch] = certificate
        self.world.note_final(self, [self.blocks[block] for block in blocks])
        if self.is_cut_off():
            return
        # A restored database makes blocks final again that the sign-state has already recorded.
        if not disk.is_behind:
            disk.sign_state = signstate.raise_floor(disk.sign_state, ballot.epoch, ballot.round)
            disk.noted = disk.final.height
        held = disk.certificates.items()
        disk.certificates = {key: kept for key, kept in held if key[:2] > (ballot.epoch, ballot.round)}


class Follower(SimulatedNode):
    """A full node without keys: it casts no votes, and relays for its peers."""

    def session_of(self, _epoch: int) -> bytes | None:
        """Return None: it has no key."""
        return None

    def proven(self) -> tuple[bytes, ...]:
        """Return no key."""
        return ()
