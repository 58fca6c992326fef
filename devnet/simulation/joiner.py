"""A node that joins by handoffs alone: with the newest boundary block and a few blocks before it, and no state.

Invariant: it accepts a set only if `follow` proved it from the previous set, back to the genesis.
"""

from collections.abc import Sequence

from consensus import events as ev
from consensus.handoffs import HANDOFF, InvalidHandoffError, follow
from consensus.sets import SetTable
from consensus.validators import Epoch, ValidatorSet
from devnet.simulation.elections import seed_of
from devnet.simulation.node import Disk, Follower, SimulatedNode
from devnet.simulation.packets import HandoffsAsked, HandoffsSent, Packet, ProvenHandoff, is_of
from runtime.blocks.block import HEADER

ASK_AGAIN_MS = 500


class Joiner(Follower):
    """A node that knows the genesis set, follows all handoffs of its peers, and starts at the last one's block."""

    table: SetTable | None = None
    newest: ProvenHandoff | None = None
    followed = 0  # number of handoffs; their bytes are below
    bytes_followed = 0
    is_joining = False

    def start(self) -> None:
        """Join at the first start. Later starts are those of any node."""
        if self.table is None:
            self.table = SetTable(self.world.epochs(0).validators)
            self.is_joining = True
            self.starts += 1
            self._ask_for_handoffs()
        elif not self.is_joining:
            super().start()

    def epochs(self, number: int) -> Epoch | None:
        """Return an epoch that the handoffs have proven and that this node's final block has settled, else None."""
        proven_set = None if self.table is None else self.table.of(number)
        if proven_set is None or self.disk.final.height < self.world.parameters.settled_height(number):
            return None
        return Epoch(proven_set, seed_of(number))

    def known_set(self, epoch: int) -> ValidatorSet | None:
        """Return a proven set, even one of a far later epoch."""
        return None if self.table is None else self.table.of(epoch)

    def receive(self, sender: SimulatedNode, packet: Packet) -> None:
        """Take handoffs before the machine exists. Pass other packets on."""
        if isinstance(packet, HandoffsSent):
            self._follow_handoffs(packet)
        else:
            super().receive(sender, packet)

    def execute(self, effect: ev.Effect) -> None:
        """Ask for a handoff at each boundary: without state the node must learn the next set from it."""
        super().execute(effect)
        if isinstance(effect, ev.Finalise) and self.world.parameters.is_boundary(effect.certificate.ballot.height):
            self._ask_for_handoffs()

    def _ask_for_handoffs(self) -> None:
        """Ask a random peer for the handoffs after the newest known set, again and again until they arrive."""
        assert self.table is not None  # set by `start`
        epoch = self.table.newest.epoch
        is_wanted = self.is_joining or self.disk.final.height >= self.world.parameters.boundary(epoch)
        if not is_wanted:
            return
        running_peers = [node for node in self.neighbours() if node.machine is not None]
        if running_peers:
            self.world.send(self, self.world.random.choice(running_peers), HandoffsAsked(epoch))
        # The answer may be lost, and the asked peer may be down.
        self.world.at(self.world.now_ms + ASK_AGAIN_MS, self._ask_for_handoffs)

    def _follow_handoffs(self, handoffs_sent: HandoffsSent) -> None:
        world = self.world
        assert self.table is not None  # set by `start`
        for proven_step in handoffs_sent.handoffs:
            handoff = proven_step.handoff
            if handoff.certificate.ballot.epoch != self.table.newest.epoch:
                continue  # an answer to an earlier question
            # The certificate covers only the header, and the facts come from the peer.
            if not is_of(HEADER.decode(handoff.header), proven_step.boundary):
                world.findings.refused_handoffs.append("facts of another block")
                return
            try:
                next_set = follow(self.table.newest, handoff, world.parameters, world.genesis_hash, world.verify)
            except InvalidHandoffError as refusal:
                world.findings.refused_handoffs.append(str(refusal))
                return
            self.table.write(next_set)
            self.newest = proven_step
            self.followed += 1
            self.bytes_followed += len(HANDOFF.encode(handoff))
        if (
            self.is_joining
            and self.newest is not None
            and handoffs_sent.tail
            and handoffs_sent.tail[-1] == self.newest.boundary
        ):
            self.is_joining = False
            self._begin_at_boundary(self.newest, handoffs_sent.tail)

    def _begin_at_boundary(self, newest_handoff: ProvenHandoff, tail_blocks: Sequence[ev.BlockFacts]) -> None:
        """Start with the last boundary as the final block. Later headers may name the blocks before it."""
        certificate = newest_handoff.handoff.certificate
        self.disk = Disk(
            newest_handoff.boundary,
            certificate,
            boundaries={certificate.ballot.epoch: certificate},
            blocks={facts.id: facts for facts in tail_blocks},
            ancestors={facts.height: facts.id for facts in tail_blocks},
        )
        super().start()
