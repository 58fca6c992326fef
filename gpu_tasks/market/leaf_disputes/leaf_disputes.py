"""LeafDisputes: racers of a batch differ, and the courts judge one leaf of it. This is the pallet: call, hook, verbs.

Each side shows its tree in two steps, and the chain finds the first leaf in which they differ; who withholds its tree
loses. Always: each window has an end that the agenda keeps; the hook is bounded by work; nothing is stored of a dispute
that is over.
"""

from gpu_tasks.batches.sum_tree import Totals
from gpu_tasks.market.block_room import KEPT_FOR_UNITS, BlockRoom
from gpu_tasks.market.ids import UnitId
from gpu_tasks.market.leaf_disputes import comparing
from gpu_tasks.market.leaf_disputes import events as ev
from gpu_tasks.market.leaf_disputes.disputes import SIDES_MAX, DisputeStage, ShownNodes, Side
from gpu_tasks.market.leaf_disputes.storage import DisputeStorage
from gpu_tasks.market.weights import WEIGHTS
from runtime.encoding.types import Weight
from runtime.frame.pallet import FREE, PostDispatch, Signed, call
from runtime.frame.weights import work

STEP_WEIGHT = WEIGHTS["LeafDisputes.on_initialize step"]
"""A dispute that is looked at: eight lists of 64 nodes compared, or all of eight sides but one out."""
BEGIN_WEIGHT = work(reads=1, writes=2, microseconds=100)
"""A window that begins."""
ALIKE = 6
"""What a look takes whoever answered, a case that opens or a batch that is paid, is as much as of so many who did."""
HEIGHT_BUDGET = work(microseconds=8_000)
FINAL_BUDGET = work(microseconds=2_000)


class LeafDisputes(DisputeStorage, index=19):
    """Disputes about batches, keyed by unit, for every pallet that has some."""

    events = (ev.NodesAsked, ev.NodesShown, ev.TreeWithheld, ev.LeafDisputed)
    errors = (ev.UnknownDispute, ev.NotASide, ev.NothingAsked, ev.WrongNodes)

    @call(index=0, weight=WEIGHTS["LeafDisputes.show_nodes"])
    def show_nodes(self, origin: Signed, unit: UnitId, totals: Totals, nodes: ShownNodes) -> PostDispatch:
        """Show the totals of the own result, and the nodes of its tree that are asked for; free when it succeeds."""
        who = self.devices.operator(origin.account)
        comparing.show(self, unit, self.open_dispute(unit), who, totals, nodes)
        return FREE

    # ----------------------------------------------------------------------------------------------- verbs for handlers

    def open(self, handler: int, unit: bytes, requests: int, sides: tuple[Side, ...]) -> None:
        """Have the sides of a batch show their trees. The handler is told what comes of it (ground.DisputeHandler)."""
        comparing.begin(self, handler, unit, requests, sides)

    def is_disputed(self, unit: bytes) -> bool:
        """Whether a dispute about the batch goes on."""
        return unit in self.disputes

    def narrow(self, unit: bytes, claim: bytes) -> None:
        """The courts have found the right claim of the leaf that they judged; the dispute goes on, or ends."""
        comparing.narrow(self, unit, self.open_dispute(unit), claim)

    def close(self, unit: bytes) -> None:
        """End a dispute that nobody could decide; its handler knows."""
        comparing.close(self, unit, self.open_dispute(unit))

    # ------------------------------------------------------------------------------------------------------------ hook

    def on_initialize(self) -> Weight:
        """Look at every dispute that is due; where an era turns and many stand for election, it waits a block."""
        room = BlockRoom(self.context.mandatory_left - KEPT_FOR_UNITS.ref_time)
        reached, final = room.budget(HEIGHT_BUDGET), room.budget(FINAL_BUDGET)
        for unit in self.final_agenda.take(self.beacon.final_height(), final, BEGIN_WEIGHT):
            comparing.begin_window(self, unit, self.open_dispute(unit))
        for unit in self.agenda.take(self.height, reached):
            dispute = self.open_dispute(unit)
            assert dispute.stage is not DisputeStage.JUDGED or dispute.found, "what the courts judge is on no agenda"
            # by who answered: if each took what eight do, three about dust would fill a block and keep others waiting
            answered = sum(len(side.accounts) for side in dispute.sides)
            reached.spend(Weight(STEP_WEIGHT.ref_time * (ALIKE + answered) // (ALIKE + SIDES_MAX), 0))
            comparing.step(self, unit, dispute)
        return reached.spent + final.spent
