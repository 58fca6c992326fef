"""The pallet LeafDisputes: racers of a batch differ, and voters judge one leaf of it.

Each side shows its tree in two steps, and the chain finds the first leaf in which they differ. A side that withholds
its tree loses.

Invariants: each window has a scheduled end. The work of the hook is bounded. Nothing is stored of a dispute that is
over.
"""

from gpu_tasks.batches.sum_tree import Totals
from gpu_tasks.market.block_room import KEPT_FOR_UNITS, BlockRoom
from gpu_tasks.market.ids import UnitId
from gpu_tasks.market.leaf_disputes import comparing
from gpu_tasks.market.leaf_disputes import events as ev
from gpu_tasks.market.leaf_disputes.disputes import SIDES_MAX, LeafDisputeStage, ShownNodes, Side
from gpu_tasks.market.leaf_disputes.storage import DisputeStorage
from gpu_tasks.market.weights import WEIGHTS
from runtime.encoding.types import Weight
from runtime.frame.pallet import FREE, PostDispatch, Signed, call
from runtime.frame.weights import work

STEP_WEIGHT = WEIGHTS["LeafDisputes.on_initialize step"]
"""The weight of a dispute's step: eight lists of 64 nodes compared, or seven of eight sides removed."""
BEGIN_WEIGHT = work(reads=1, writes=2, microseconds=100)
"""The weight of beginning a window."""
ALIKE = 6
"""The fixed part of a step, a vote opened or a result claimed, costs as much as this many answerers."""
HEIGHT_BUDGET = work(microseconds=8_000)
FINAL_BUDGET = work(microseconds=2_000)


class LeafDisputes(DisputeStorage, index=19):
    """Disputes about batches, keyed by unit, for every pallet."""

    events = (ev.NodesAsked, ev.NodesShown, ev.TreeWithheld, ev.LeafDisputed)
    errors = (ev.UnknownLeafDispute, ev.NotASide, ev.NothingAsked, ev.WrongNodes)

    @call(index=0, weight=WEIGHTS["LeafDisputes.show_nodes"])
    def show_nodes(self, origin: Signed, unit: UnitId, totals: Totals, nodes: ShownNodes) -> PostDispatch:
        """Show the totals of your result, and the requested nodes of its tree. Free if it succeeds."""
        who = self.devices.operator(origin.account)
        comparing.show(self, unit, self.open_dispute(unit), who, totals, nodes)
        return FREE

    # --------------------------------------------------------------------------------------------- methods for handlers

    def open(self, handler: int, unit: bytes, requests: int, sides: tuple[Side, ...]) -> None:
        """Open a dispute: the sides of a batch show their trees. The handler is a `storage.DisputeHandler`."""
        comparing.begin(self, handler, unit, requests, sides)

    def is_disputed(self, unit: bytes) -> bool:
        """Return True if there is an open dispute about the batch."""
        return unit in self.disputes

    def claims_of(self, unit: bytes) -> dict[bytes, bytes]:
        """Return the claim of each remaining root about the judged leaf."""
        return comparing.claims_of(self, unit, self.open_dispute(unit))

    def narrow(self, unit: bytes, claim: bytes) -> None:
        """Record the right claim of the judged leaf. The dispute continues, or ends."""
        comparing.narrow(self, unit, self.open_dispute(unit), claim)

    def close(self, unit: bytes) -> None:
        """Close a dispute in which no side can be right. Its handler already has the ruling."""
        comparing.close(self, unit, self.open_dispute(unit))

    # ------------------------------------------------------------------------------------------------------------ hook

    def on_initialize(self) -> Weight:
        """Step every due dispute. At an era's turn with many candidates, disputes may wait a block."""
        room = BlockRoom(self.context.mandatory_left - KEPT_FOR_UNITS.ref_time)
        reached, final = room.budget(HEIGHT_BUDGET), room.budget(FINAL_BUDGET)
        for unit in self.final_agenda.take(self.beacon.final_height(), final, BEGIN_WEIGHT):
            comparing.begin_window(self, unit, self.open_dispute(unit))
        for unit in self.agenda.take(self.height, reached):
            dispute = self.open_dispute(unit)
            assert dispute.stage is not LeafDisputeStage.JUDGED or dispute.found, "a judged dispute is on no agenda"
            # Charged by answerers: charged as eight answerers, three cheap disputes would fill a block and delay
            # others.
            answered = sum(len(side.accounts) for side in dispute.sides)
            reached.spend(Weight(STEP_WEIGHT.ref_time * (ALIKE + answered) // (ALIKE + SIDES_MAX), 0))
            comparing.step(self, unit, dispute)
        return reached.spent + final.spent
