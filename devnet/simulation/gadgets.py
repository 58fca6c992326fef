"""Bare finality gadgets of two epochs, without Snowflake, polls and node shells: the subjects of Twins.

Invariant: each gadget is the real one over a real tree with forks, and votes for every block that its own rules allow.
So only those rules keep two conflicting checkpoints from becoming final. A key may have two gadgets without a common
state: unmodified nodes that together break the rules of a validator.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b

from consensus import events as ev
from consensus.blocktree import BlockTree
from consensus.certificates import Certificate, verify_votes
from consensus.finality.gadget import Gadget
from consensus.finality.relay import BallotRelay
from consensus.neighbours import Neighbours
from consensus.parameters import DEVNET, full_poll_thresholds
from consensus.polling.topological import Topological
from consensus.signstate import record_payload
from consensus.validators import Epoch, Leaders
from consensus.wire import Certified, Message, NeedCerts, Propose, Vote
from devnet.simulation.keys import fake_signer, verify_fake
from runtime.blocks.votes import Ballot, Proposal

# A leader proposes its preferred block without waiting.
PARAMETERS = replace(DEVNET, epoch_blocks=3, soft_wait_ms=0)
GENESIS = blake2b(b"twins", digest_size=32).digest()
GENESIS_BLOCK = ev.BlockFacts(GENESIS, bytes(32), 0, 0, bytes(32), 0)
LAST_HEIGHT = PARAMETERS.boundary(1)

Utter = Callable[["BareNode", Message, "BareNode | None"], None]
"""Sender, message and recipient. None stands for every node in reach."""


class LeaderSchedule(Leaders):
    """Leaders named by a scenario, by their place in the set. Later rounds have the default leaders."""

    def __init__(self, epoch: Epoch, places: Sequence[int]) -> None:
        """Take the places of the leaders, from round 1 on."""
        super().__init__(epoch)
        self._places = places

    def leader(self, round_: int) -> bytes:
        """Return the session key of a round's leader."""
        if round_ > len(self._places):
            return super().leader(round_)
        return self._members[self._places[round_ - 1]].session


class BareGadget(Gadget):
    """The gadget with a schedule of leaders for each epoch."""

    schedules: Sequence[Sequence[int]] = ((), ())

    def begin(self, epoch: Epoch, base: tuple[int, bytes], ended: Certificate | None = None) -> None:
        """Begin an epoch under its scheduled leaders."""
        super().begin(epoch, base, ended)
        self._heard.leaders = LeaderSchedule(epoch, self.schedules[self.members.epoch])

    def _is_wanted(self, block: bytes, now_ms: int) -> bool:
        return True  # Snowflake's preference is absent here: only the lock limits the votes

    def leader(self, round_: int) -> bytes:
        """Return the leader of a round of the current epoch."""
        return self._heard.leaders.leader(round_)

    def proposed(self) -> bytes | None:
        """Return the block of the current round's proposal, or None without a proposal."""
        signed = self._heard.proposals.get(self.rounds.current)
        return None if signed is None else signed.proposal.block


class BareNode:
    """One gadget, its chain, and its final blocks."""

    def __init__(
        self, key: int, epochs: Mapping[int, Epoch], schedules: Sequence[Sequence[int]], say: Utter, *, taste: int
    ) -> None:
        """Begin in epoch 0 with the genesis block alone. `taste` chooses between the two sides of each fork."""
        self.key = key
        self.taste = taste
        self.finals: list[bytes] = []
        self.evidence_failures: list[str] = []
        self.accused: set[bytes] = set()
        self.boundaries: dict[int, Certificate] = {}
        self._signer = fake_signer(key)
        self._epochs = epochs
        self._say = say
        self._effects: list[ev.Effect] = []
        self.chain = Topological(BlockTree(GENESIS_BLOCK), full_poll_thresholds(4), PARAMETERS.boundary(0))
        neighbours = Neighbours()
        relay = BallotRelay(neighbours)
        neighbours.begin(epochs[0].validators, None)
        relay.begin(epochs[0].validators, 0)
        self.gadget = BareGadget(
            PARAMETERS, GENESIS, self.chain, verify_fake, lambda _: self._signer.public, self._effects.append, relay
        )
        self.gadget.schedules = schedules
        self.gadget.begin(epochs[0], (0, GENESIS))

    def grow(self, height: int) -> None:
        """Add blocks up to a height: two children per block, and one at the end of an epoch."""
        tree = self.chain.tree
        for block in [facts for facts in tree.blocks.values() if facts.height < height and not tree.children[facts.id]]:
            sides = 1 if PARAMETERS.is_boundary(block.height + 1) else 2
            for side in range(sides):
                name = blake2b(block.id + bytes([side]), digest_size=32).digest()
                self.chain.insert(ev.BlockFacts(name, block.id, block.height + 1, block.height + 1, bytes(32), 0))

    def advance(self, now_ms: int) -> None:
        """Take all due steps and their immediate consequences."""
        while True:
            self._prefer()
            self.gadget.advance(now_ms)
            if not self._effects:
                return
            effects, self._effects[:] = self._effects[:], []
            for effect in effects:
                self._execute(effect)
            self._change_epoch()

    def receive(self, sender: "BareNode", message: Message, now_ms: int) -> None:
        """Take a message of a node in reach. As in the machine, only new information wakes the gadget."""
        if self._hear(sender, message):
            self.advance(now_ms)

    def _hear(self, sender: "BareNode", message: Message) -> bool:
        match message:
            case Propose(proposal):
                return self.gadget.receive_proposal(proposal)
            case Vote(vote, proposal):
                is_proposed = proposal is not None and self.gadget.receive_proposal(proposal)
                return self.gadget.receive_vote(vote, b"") or is_proposed
            case Certified(certificates):
                # A list, because `any` over a generator would skip the certificates after the first success.
                return any([self.gadget.receive_certificate(certificate) for certificate in certificates])  # noqa: C419
            case NeedCerts() as need:
                self._help(sender, need)
                return False
            case _:
                return False  # this test has no polls

    def _help(self, sender: "BareNode", need: NeedCerts) -> None:
        if need.epoch == self.gadget.members.epoch:
            held = self.gadget.answer(need)
        else:
            held = tuple(found for epoch, found in self.boundaries.items() if epoch == need.epoch)
        if held:
            self._say(self, Certified(held), sender)

    def _prefer(self) -> None:
        """Prefer the proposed block, else one side of each fork: only the gadget's own rules can refuse it."""
        tree, block = self.chain.tree, self.gadget.proposed()
        if block is None or block not in tree:
            block = tree.final.id
            while children := tree.children[block]:
                block = children[self.taste % len(children)]
        self.chain.prefer(block)

    def _execute(self, effect: ev.Effect) -> None:
        match effect:
            case ev.Broadcast(message):
                self._say(self, message, None)
            case ev.PersistThenSign(record):
                assert isinstance(record, Proposal | Ballot)  # gadgets seal no headers
                self.gadget.signed(record, self._signer.sign(record_payload(GENESIS, record)))
            case ev.Finalise(blocks, certificate):
                self.finals.extend(blocks)
                if PARAMETERS.is_boundary(certificate.ballot.height):
                    self.boundaries[certificate.ballot.epoch] = certificate
            case ev.ReportEvidence(evidence):
                self.accused.add(evidence.accused)
                members = self._epochs[evidence.first.epoch].validators
                if not verify_votes(evidence, members, GENESIS, verify_fake):
                    self.evidence_failures.append(f"evidence of node {self.key} does not verify")
            case _:
                pass  # this test has no disks

    def _change_epoch(self) -> None:
        number, final = self.gadget.members.epoch, self.chain.tree.final
        if final.height != PARAMETERS.boundary(number) or number + 1 not in self._epochs:
            return
        self.gadget.begin(self._epochs[number + 1], (final.height, final.id), self.gadget.rounds.final)
        self.chain.restart_confidence(full_poll_thresholds(4), PARAMETERS.boundary(number + 1))
