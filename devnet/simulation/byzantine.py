"""Nodes that break the rules: the silent, the equivocator that does everything it must not, and twins."""

from consensus import events as ev
from consensus import signstate
from consensus.votes import Ballot, BallotKind, Proposal, SignedBallot, SignedProposal, skip_ballot
from consensus.wire import Chits, Propose, Vote
from devnet.simulation.node import SimulatedNode
from devnet.simulation.packets import BlocksSent


class SilentNode(SimulatedNode):
    """Runs and says nothing."""

    is_honest = False

    def execute(self, effect: ev.Effect) -> None:
        """Keep the state going, send nothing, build nothing."""
        if isinstance(effect, ev.PersistPreference | ev.Finalise):
            super().execute(effect)


class Equivocator(SimulatedNode):
    """Different blocks to different peers, lying chits, double votes, finalise and skip at once."""

    is_honest = False

    def build(self, request: ev.Build) -> None:
        """Up to three blocks for the slot; each peer sees a part of them."""
        chance = self.world.random
        made = [self.make_block(request, nonce) for nonce in range(chance.randint(1, 3))]
        for facts in made:
            self._store(facts)
        for other in self.world.nodes:
            for facts in made:
                if other.number != self.number and chance.random() < 0.6:
                    self.world.send(self, other, BlocksSent((facts,)))
        self._inbox.append(ev.BlockImported(chance.choice(made)))

    def execute(self, effect: ev.Effect) -> None:
        """Lie in every chit."""
        match effect:
            case ev.SendTo(peer, Chits() as chits) if self.machine is not None:
                recent = list(self.disk.blocks)[-6:]
                lie = self.world.random.choice(recent)
                said = Chits(chits.request, lie, lie, lie, chits.accepted_height, chits.final_height)
                super().execute(ev.SendTo(peer, said))
            case _:
                super().execute(effect)

    def sign(self, record: signstate.SignedRecord) -> None:
        """Sign whatever is asked for and something that contradicts it, each to some peers."""
        assert not isinstance(record, signstate.HeaderRecord)  # headers are sealed by build
        chance = self.world.random
        for other in self.world.nodes:
            if other.number == self.number:
                continue
            for statement in (record, self._contradiction(record)):
                if chance.random() < 0.7:
                    self.world.send(self, other, self._message(statement))
        if chance.random() < 0.7:
            signature = self.signer.sign(signstate.record_payload(self.world.genesis_hash, record))
            self._inbox.append(ev.RecordSigned(record, signature))

    def _contradiction(self, record: Proposal | Ballot) -> Proposal | Ballot:
        chance = self.world.random
        other = self.disk.blocks[chance.choice(list(self.disk.blocks)[-6:])]
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
        signature = self.signer.sign(signstate.record_payload(self.world.genesis_hash, record))
        if isinstance(record, Proposal):
            return Propose(SignedProposal(record, signature))
        return Vote(SignedBallot(record, self.signer.public, signature), None)


class Twin(SimulatedNode):
    """One of two honest machines that share a key and nothing else."""

    is_honest = False
