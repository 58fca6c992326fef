"""The storage of LeafDisputes: records, the schedule of disputes, and the interface of handlers.

Invariants: a dispute waits for a block or for voters, so each ends by itself. Its shown nodes are dropped with it.
"""

from collections.abc import Sequence
from typing import ClassVar, Protocol, runtime_checkable

from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.ids import UnitId
from gpu_tasks.market.leaf_disputes.disputes import LeafDispute, ShownNodes
from gpu_tasks.market.leaf_disputes.events import UnknownLeafDispute
from runtime.encoding.types import AccountId, BlockNumber, Hash
from runtime.frame.pallet import Pallet, Parameter, ScheduleItem, StorageDoubleMap, StorageMap, known
from runtime.pallets.beacon import Beacon
from runtime.pallets.system import System

NodeLists = StorageDoubleMap[UnitId, Hash, ShownNodes]
"""The shown nodes of the sides, by batch and root."""


DISPUTE_WINDOW_MAX = 7_200
"""The longest window of a dispute, in blocks."""


class LeafDisputeNumbers(Pallet):
    """The windows of a dispute."""

    show_blocks: Parameter[BlockNumber] = Parameter(
        100, unit="blocks", least=4, greatest=DISPUTE_WINDOW_MAX,
        doc="Window for each side to show nodes of its tree. A silent side loses its collateral, while the other "
            "parties wait.",
    )  # fmt: skip


@runtime_checkable
class LeafDisputeHandler(Protocol):
    """A pallet whose batches are disputed. The hook of LeafDisputes calls it for each dispute until that ends."""

    index: ClassVar[int]

    def judge_leaf(self, unit: bytes, index: int) -> None:
        """Have voters judge one leaf, about which the sides have the claims of `LeafDisputes.claims_of`."""

    def let_fall(self, unit: bytes, roots: Sequence[bytes]) -> None:
        """Punish the answerers with these roots, whose trees no account showed: they lose their holds for the batch."""

    def agree(self, unit: bytes, root: bytes | None) -> None:
        """Accept the one remaining root as a claim, or requeue the batch if there is none."""


class DisputeStorage(LeafDisputeNumbers):
    """Disputes, their shown nodes, duties and the schedule."""

    system: System
    beacon: Beacon
    devices: Devices

    disputes: StorageMap[UnitId, LeafDispute | None] = StorageMap(doc="Batches with differing answers of their racers.")
    subtrees: NodeLists = StorageDoubleMap(
        default=(), doc="The nodes above 64 leaves each, as the side of a root showed them."
    )
    leaves: NodeLists = StorageDoubleMap(
        default=(), doc="The leaves of the requested subtree, as the side of a root showed them."
    )
    duties: StorageDoubleMap[AccountId, UnitId, bool] = StorageDoubleMap(
        default=False, doc="The disputes in which a stash, or another one of its side, shows nodes."
    )

    agenda: ScheduleItem[UnitId] = ScheduleItem("height", doc="Disputes to process at a block.")
    final_agenda: ScheduleItem[UnitId] = ScheduleItem(
        "final", doc="Disputes with windows that begin once a height is final."
    )

    @property
    def height(self) -> int:
        """The number of this block."""
        return self.system.number.get()

    def handler(self, dispute: LeafDispute) -> LeafDisputeHandler:
        """Return the pallet with the batch."""
        pallets = self.context.members.values()
        found = next((pallet for pallet in pallets if pallet.index == dispute.handler), None)
        assert isinstance(found, LeafDisputeHandler), "a pallet that opens disputes is a dispute handler"
        return found

    def awaits_finality(self, unit: bytes) -> bool:
        """Return True if this block does not yet know the request as final."""
        return bool(self.final_agenda.places[unit])

    def open_dispute(self, unit: bytes) -> LeafDispute:
        """Return a dispute that is not over. Raise UnknownLeafDispute if there is none."""
        return known(self.disputes[unit], UnknownLeafDispute)

    def put(self, unit: bytes, dispute: LeafDispute) -> None:
        """Store a dispute, and schedule its step for the block after its window."""
        self.disputes[unit] = dispute
        if dispute.deadline:
            self.agenda.put(dispute.deadline + 1, unit)
        else:
            # The ruling of the voters continues this dispute, and no block may step it before.
            self.agenda.drop(unit)
