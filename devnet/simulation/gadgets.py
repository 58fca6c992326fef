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

SendMessage = Callable[["BareNode", Message, "BareNode | None"], None]
"""Sender, message and recipient. None stands for every node in reach."""


class LeaderSchedule(Leaders):
    """Leaders named by a scenario, by their place in the set. Later rounds have the default leaders."""

    def __init__(self, epoch: Epoch, leader_seats: Sequence[int]) -> None:
        """Take the places of the leaders, from round 1 on."""
        super().__init__(epoch)
        self._leader_seats = leader_seats

    def leader(self, round_: int) -> bytes:
        """Return the session key of a round's leader."""
        if round_ > len(self._leader_seats):
            return super().leader(round_)
        return self._members[self._leader_seats[round_ - 1]].session


class BareGadget(Gadget):
    """The gadget with a schedule of leaders for each epoch."""

    schedules: Sequence[Sequence[int]] = ((), ())

    def begin(self, epoch: Epoch, base: tuple[int, bytes], ended: Certificate | None = None) -> None:
        """Begin an epoch under its scheduled leaders."""
        super().begin(epoch, base, ended)
        self._heard.leaders = LeaderSchedule(epoch, self.schedules[self.members.epoch])

    def _is_wanted(self, fork_block: bytes, now_ms: int) -> bool:
        return True  # Snowflake's preference is absent here: only the lock limits the votes

    def leader(self, round_: int) -> bytes:
        """Return the leader of a round of the current epoch."""
        return self._heard.leaders.leader(round_)

    def proposed(self) -> bytes | None:
        """Return the block of the current round's proposal, or None without a proposal."""
        proposal = self._heard.proposals.get(self.rounds.current)
        return None if proposal is None else proposal.proposal.block


class BareNode:
    """One gadget, its chain, and its final blocks."""

    def __init__(
        self,
        key_number: int,
        epochs: Mapping[int, Epoch],
        schedules: Sequence[Sequence[int]],
        send_message: SendMessage,
        *,
        fork_preference: int,
    ) -> None:
        """Begin in epoch 0 with the genesis block alone. `taste` chooses between the two sides of each fork."""
        self.key = key_number
        self.fork_preference = fork_preference
        self.finals: list[bytes] = []
        self.evidence_failures: list[str] = []
        self.accused: set[bytes] = set()
        self.boundaries: dict[int, Certificate] = {}
        self._signer = fake_signer(key_number)
        self._epochs = epochs
        self._send_message = send_message
        self._effects: list[ev.Effect] = []
        self.chain = Topological(BlockTree(GENESIS_BLOCK), full_poll_thresholds(4), PARAMETERS.boundary(0))
        neighbours = Neighbours()
        ballot_relay = BallotRelay(neighbours)
        neighbours.begin(epochs[0].validators, None)
        ballot_relay.begin(epochs[0].validators, 0)
        self.gadget = BareGadget(
            PARAMETERS,
            GENESIS,
            self.chain,
            verify_fake,
            lambda _: self._signer.public,
            self._effects.append,
            ballot_relay,
        )
        self.gadget.schedules = schedules
        self.gadget.begin(epochs[0], (0, GENESIS))

    def grow(self, height: int) -> None:
        """Add blocks up to a height: two children per block, and one at the end of an epoch."""
        tree = self.chain.tree
        for fork_block in [
            facts for facts in tree.blocks.values() if facts.height < height and not tree.children[facts.id]
        ]:
            fork_sides = 1 if PARAMETERS.is_boundary(fork_block.height + 1) else 2
            for fork_side in range(fork_sides):
                fork_block_id = blake2b(fork_block.id + bytes([fork_side]), digest_size=32).digest()
                self.chain.insert(
                    ev.BlockFacts(
                        fork_block_id, fork_block.id, fork_block.height + 1, fork_block.height + 1, bytes(32), 0
                    )
                )

    def advance(self, now_ms: int) -> None:
        """Take all due steps and their immediate consequences."""
        while True:
            self._prefer_proposed()
            self.gadget.advance(now_ms)
            if not self._effects:
                return
            effects, self._effects[:] = self._effects[:], []
            for effect in effects:
                self._execute(effect)
            self._change_epoch()

    def receive(self, sender: "BareNode", message: Message, now_ms: int) -> None:
        """Take a message of a node in reach. As in the machine, only new information wakes the gadget."""
        if self._take_message(sender, message):
            self.advance(now_ms)

    def _take_message(self, sender: "BareNode", message: Message) -> bool:
        match message:
            case Propose(proposal):
                return self.gadget.receive_proposal(proposal)
            case Vote(vote, proposal):
                is_proposed = proposal is not None and self.gadget.receive_proposal(proposal)
                return self.gadget.receive_vote(vote, b"") or is_proposed
            case Certified(certificates):
                # A list, because `any` over a generator would skip the certificates after the first success.
                return any([self.gadget.receive_certificate(certificate) for certificate in certificates])  # noqa: C419
            case NeedCerts() as certificates_needed:
                self._send_certificates(sender, certificates_needed)
                return False
            case _:
                return False  # this test has no polls

    def _send_certificates(self, sender: "BareNode", certificates_needed: NeedCerts) -> None:
        if certificates_needed.epoch == self.gadget.members.epoch:
            held_certificates = self.gadget.answer(certificates_needed)
        else:
            held_certificates = tuple(
                boundary_certificate
                for epoch, boundary_certificate in self.boundaries.items()
                if epoch == certificates_needed.epoch
            )
        if held_certificates:
            self._send_message(self, Certified(held_certificates), sender)

    def _prefer_proposed(self) -> None:
        """Prefer the proposed block, else one side of each fork: only the gadget's own rules can refuse it."""
        tree, preferred_block = self.chain.tree, self.gadget.proposed()
        if preferred_block is None or preferred_block not in tree:
            preferred_block = tree.final.id
            while child_blocks := tree.children[preferred_block]:
                preferred_block = child_blocks[self.fork_preference % len(child_blocks)]
        self.chain.prefer(preferred_block)

    def _execute(self, effect: ev.Effect) -> None:
        match effect:
            case ev.Broadcast(message):
                self._send_message(self, message, None)
            case ev.PersistThenSign(sign_record):
                assert isinstance(sign_record, Proposal | Ballot)  # gadgets seal no headers
                self.gadget.signed(sign_record, self._signer.sign(record_payload(GENESIS, sign_record)))
            case ev.Finalise(blocks, certificate):
                self.finals.extend(blocks)
                if PARAMETERS.is_boundary(certificate.ballot.height):
                    self.boundaries[certificate.ballot.epoch] = certificate
            case ev.ReportEvidence(evidence):
                self.accused.add(evidence.accused)
                accused_members = self._epochs[evidence.first.epoch].validators
                if not verify_votes(evidence, accused_members, GENESIS, verify_fake):
                    self.evidence_failures.append(f"evidence of node {self.key} does not verify")
            case _:
                pass  # this test has no disks

    def _change_epoch(self) -> None:
        current_epoch, final_block = self.gadget.members.epoch, self.chain.tree.final
        if final_block.height != PARAMETERS.boundary(current_epoch) or current_epoch + 1 not in self._epochs:
            return
        self.gadget.begin(
            self._epochs[current_epoch + 1], (final_block.height, final_block.id), self.gadget.rounds.final
        )
        self.chain.restart_confidence(full_poll_thresholds(4), PARAMETERS.boundary(current_epoch + 1))
