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
        chance = self.world.random
        made = [self.make_block(request, nonce) for nonce in range(chance.randint(1, 3))]
        for facts in made:
            self._store(facts)
        for other in self.neighbours():
            for facts in made:
                if chance.random() < 0.6:
                    self.world.send(self, other, BlocksSent((facts,)))
        self._inbox.append(ev.BlockImported(chance.choice(made)))

    def execute(self, effect: ev.Effect) -> None:
        """Lie in every chit."""
        match effect:
            case ev.SendTo(peer, Chits() as chits) if self.machine is not None:
                recent = list(self.blocks)[-6:]
                lie = self.world.random.choice(recent)
                said = Chits(chits.request, lie, lie, lie, chits.accepted_height, chits.final_height)
                super().execute(ev.SendTo(peer, said))
            case _:
                super().execute(effect)

    def sign(self, record: signstate.SignedRecord) -> None:
        """Sign the record and a contradiction of it. Send each to some peers."""
        assert not isinstance(record, signstate.HeaderRecord)  # `build` seals headers
        chance = self.world.random
        for other in self.neighbours():
            for statement in (record, self._contradiction(record)):
                if chance.random() < 0.7:
                    self.world.send(self, other, self._message(statement))
        if chance.random() < 0.7:
            signature = self.keys.at(record.epoch).sign(signstate.record_payload(self.world.genesis_hash, record))
            self._inbox.append(ev.RecordSigned(record, signature))

    def _contradiction(self, record: Proposal | Ballot) -> Proposal | Ballot:
        chance = self.world.random
        other = self.blocks[chance.choice(list(self.blocks)[-6:])]
        match record:
            case Proposal(epoch, round_, parent_round):
                return Proposal(epoch, round_, parent_round, max(1, other.height), other.id)
            case Ballot(BallotKind.NOTARISE, epoch, round_):
                return Ballot(BallotKind.NOTARISE, epoch, round_, max(1, other.height), other.id)
            case Ballot(BallotKind.FINALISE, epoch, round_):
                return skip_ballot(epoch, round_)
            case Ballot(_, epoch, round_):
                return Ballot(BallotKind.FINALISE, epoch, round_, max(1, other.height), other.id)

    def _message(self, record: Proposal | Ballot) -> Propose | Vote:
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
            case ev.SendTo(peer, Chits() as chits):
                # The question and the answer each take up to the longest delay.
                late_ms = self.world.parameters.poll_soft_ms - 2 * self.world.weather.delay_max_ms
                asker = self.world.nodes[int.from_bytes(peer, "big")]
                self.world.at(self.world.now_ms + max(0, late_ms), self.world.send, self, asker, chits)
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
