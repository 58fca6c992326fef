"""A node that joins by handoffs alone: no block but the newest boundary's and a few before it, and no state.

Always: it believes no set that `follow` did not prove from the one before, back to the genesis.
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
    """Knows the genesis set; asks for handoffs until nobody has more, and starts at the last one's block."""

    table: SetTable | None = None
    newest: ProvenHandoff | None = None
    followed = 0  # handoffs, and their bytes
    bytes_followed = 0
    is_joining = False

    def start(self) -> None:
        """Join, the first time; then as any other."""
        if self.table is None:
            self.table = SetTable(self.world.epochs(0).validators)
            self.is_joining = True
            self.starts += 1
            self._ask()
        elif not self.is_joining:
            super().start()

    def epochs(self, number: int) -> Epoch | None:
        """What the handoffs tell."""
        found = None if self.table is None else self.table.of(number)
        if found is None or self.disk.final.height < self.world.parameters.settled_height(number):
            return None
        return Epoch(found, seed_of(number))

    def known_set(self, epoch: int) -> ValidatorSet | None:
        """What the handoffs tell, however far ahead."""
        return None if self.table is None else self.table.of(epoch)

    def receive(self, sender: SimulatedNode, packet: Packet) -> None:
        """Handoffs count before there is a machine."""
        if isinstance(packet, HandoffsSent):
            self._follow(packet)
        else:
            super().receive(sender, packet)

    def execute(self, effect: ev.Effect) -> None:
        """An epoch that ends here is no proof of the next set: its seats must be learnt."""
        super().execute(effect)
        if isinstance(effect, ev.Finalise) and self.world.parameters.is_boundary(effect.certificate.ballot.height):
            self._ask()

    def _ask(self) -> None:
        """Ask somebody for what follows the newest known set, until it is there."""
        assert self.table is not None  # joined
        epoch = self.table.newest.epoch
        is_wanted = self.is_joining or self.disk.final.height >= self.world.parameters.boundary(epoch)
        if not is_wanted:
            return
        up = [other for other in self.neighbours() if other.machine is not None]
        if up:
            self.world.send(self, self.world.random.choice(up), HandoffsAsked(epoch))
        self.world.at(self.world.now_ms + ASK_AGAIN_MS, self._ask)

    def _follow(self, sent: HandoffsSent) -> None:
        world = self.world
        assert self.table is not None  # it asked
        for proven in sent.handoffs:
            handoff = proven.handoff
            if handoff.certificate.ballot.epoch != self.table.newest.epoch:
                continue  # an answer to an earlier question
            if not is_of(HEADER.decode(handoff.header), proven.boundary):
                world.findings.refused_handoffs.append("facts of another block")
                return
            try:
                following = follow(self.table.newest, handoff, world.parameters, world.genesis_hash, world.verify)
            except InvalidHandoffError as error:
                world.findings.refused_handoffs.append(str(error))
                return
            self.table.write(following)
            self.newest = proven
            self.followed += 1
            self.bytes_followed += len(HANDOFF.encode(handoff))
        if self.is_joining and self.newest is not None and sent.tail and sent.tail[-1] == self.newest.boundary:
            self.is_joining = False
            self._begin(self.newest, sent.tail)

    def _begin(self, newest: ProvenHandoff, tail: Sequence[ev.BlockFacts]) -> None:
        """The last boundary is the final block; those before it are only there to be named."""
        certificate = newest.handoff.certificate
        self.disk = Disk(
            newest.boundary,
            certificate,
            boundaries={certificate.ballot.epoch: certificate},
            blocks={facts.id: facts for facts in tail},
            ancestors={facts.height: facts.id for facts in tail},
        )
        super().start()
