"""Nodes that break the rules: silent, equivocating, doubled, slow, withholding."""

from consensus import events as ev
from consensus import signstate
from consensus.wire import Certified, Chits, Propose, Vote
from devnet.simulation.node import SimulatedNode
from devnet.simulation.packets import BlocksSent
from runtime.blocks.votes import Ballot, BallotKind, Proposal, SignedBallot, SignedProposal, skip_ballot


class SilentNode(SimulatedNode):
    """A node that runs and sends nothing."""

    is_honest = False

    def execute(self, effect: ev.Effect) -> None:
        """Keep the disk current. Send and build nothing."""
        if isinstance(effect, ev.PersistPreference | ev.Finalise):
            super().execute(effect)


class Equivocator(SimulatedNode):
    """A node with different blocks for different peers, false chits, double votes, and finalise beside skip votes."""

    is_honest = False

    def build(self, request: ev.Build) -> None:
        """Build up to three blocks for the slot, and send a random part of them to each peer."""
        random_source = self.world.random
        made_blocks = [self.make_block(request, nonce) for nonce in range(random_source.randint(1, 3))]
        for facts in made_blocks:
            self._store_block(facts)
        for other_node in self.neighbours():
            for facts in made_blocks:
                if random_source.random() < 0.6:
                    self.world.send(self, other_node, BlocksSent((facts,)))
        self._pending_events.append(ev.BlockImported(random_source.choice(made_blocks)))

    def execute(self, effect: ev.Effect) -> None:
        """Lie in every chit."""
        match effect:
            case ev.SendTo(address, Chits() as chits) if self.machine is not None:
                recent_blocks = list(self.blocks)[-6:]
                false_tip = self.world.random.choice(recent_blocks)
                false_chits = Chits(
                    chits.request, false_tip, false_tip, false_tip, chits.accepted_height, chits.final_height
                )
                super().execute(ev.SendTo(address, false_chits))
            case _:
                super().execute(effect)

    def sign(self, record: signstate.SignedRecord) -> None:
        """Sign the record and a contradiction of it. Send each to some peers."""
        assert not isinstance(record, signstate.HeaderRecord)  # `build` seals headers
        random_source = self.world.random
        for other_node in self.neighbours():
            for statement in (record, self._contradiction(record)):
                if random_source.random() < 0.7:
                    self.world.send(self, other_node, self._signed_message(statement))
        if random_source.random() < 0.7:
            signature = self.keys.at(record.epoch).sign(signstate.record_payload(self.world.genesis_hash, record))
            self._pending_events.append(ev.RecordSigned(record, signature))

    def _contradiction(self, record: Proposal | Ballot) -> Proposal | Ballot:
        random_source = self.world.random
        other_block = self.blocks[random_source.choice(list(self.blocks)[-6:])]
        match record:
            case Proposal(vote_epoch, vote_round, parent_round):
                return Proposal(vote_epoch, vote_round, parent_round, max(1, other_block.height), other_block.id)
            case Ballot(BallotKind.NOTARISE, vote_epoch, vote_round):
                return Ballot(BallotKind.NOTARISE, vote_epoch, vote_round, max(1, other_block.height), other_block.id)
            case Ballot(BallotKind.FINALISE, vote_epoch, vote_round):
                return skip_ballot(vote_epoch, vote_round)
            case Ballot(_, vote_epoch, vote_round):
                return Ballot(BallotKind.FINALISE, vote_epoch, vote_round, max(1, other_block.height), other_block.id)

    def _signed_message(self, record: Proposal | Ballot) -> Propose | Vote:
        signature = self.keys.at(record.epoch).sign(signstate.record_payload(self.world.genesis_hash, record))
        if isinstance(record, Proposal):
            return Propose(SignedProposal(record, signature))
        return Vote(SignedBallot(record, self.keys.at(record.epoch).public, signature), None)


class Twin(SimulatedNode):
    """One of two honest machines that share a key and nothing else."""

    is_honest = False


class SlowNode(SimulatedNode):
    """A node that is honest but answers polls as late as allowed, so each poll waits for it."""

    is_honest = False

    def execute(self, effect: ev.Effect) -> None:
        """Answer just before the soft deadline."""
        match effect:
            case ev.SendTo(address, Chits() as chits):
                # The question and the answer each take up to the longest delay.
                late_ms = self.world.parameters.poll_soft_ms - 2 * self.world.weather.delay_max_ms
                asking_node = self.world.nodes[int.from_bytes(address, "big")]
                self.world.at(self.world.now_ms + max(0, late_ms), self.world.send, self, asking_node, chits)
            case _:
                super().execute(effect)


class Withholder(SimulatedNode):
    """A node that sends its votes to one victim at a time, and its certificates to no node."""

    is_honest = False

    def execute(self, effect: ev.Effect) -> None:
        """Send votes and proposals to one victim, and drop answers with certificates or votes."""
        match effect:
            case ev.Broadcast(Vote() | Propose() as message):
                neighbours = self.neighbours()
                victim = neighbours[self.world.now_ms // 5_000 % len(neighbours)]
                if victim.machine is not None:
                    self.world.send(self, victim, message)
            case ev.SendTo(_, Certified() | Vote()):
                pass
            case _:
                super().execute(effect)
