"""The storage of LeafDisputes: records, which block looks at which dispute, and what a handler must do.

Always: a dispute waits for a block, or for the courts, so each ends by itself; what is stored of trees is dropped with
it.
"""

from collections.abc import Sequence
from typing import ClassVar, Protocol, runtime_checkable

from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.ids import UnitId
from gpu_tasks.market.leaf_disputes.disputes import LeafDispute, ShownNodes
from gpu_tasks.market.leaf_disputes.events import UnknownDispute
from runtime.encoding.types import AccountId, BlockNumber, Hash
from runtime.frame.pallet import Hasher, Pallet, Parameter, ScheduleItem, StorageDoubleMap, StorageMap, known
from runtime.pallets.beacon import Beacon
from runtime.pallets.system import System

_HASHERS = (Hasher.TWOX_64_CONCAT, Hasher.BLAKE2_128_CONCAT)
NodeLists = StorageDoubleMap[UnitId, Hash, ShownNodes]
"""What sides have shown, by batch and root."""


DISPUTE_WINDOW_MAX = 7_200
"""No window of a dispute is longer."""


class DisputeNumbers(Pallet):
    """The windows of a dispute."""

    show_blocks: Parameter[BlockNumber] = Parameter(
        100, unit="blocks", least=4, greatest=DISPUTE_WINDOW_MAX,
        doc="For each side to show nodes of its tree: who does not loses its collateral, and customer and rivals wait.",
    )  # fmt: skip


@runtime_checkable
class DisputeHandler(Protocol):
    """A pallet whose batches are disputed. It is told in the hook of LeafDisputes, of each dispute until it ends."""

    index: ClassVar[int]

    def judge_leaf(self, unit: bytes, claims: Sequence[tuple[bytes, bytes]]) -> None:
        """Have the courts judge one leaf: each root with what it claims of that."""

    def let_fall(self, unit: bytes, roots: Sequence[bytes]) -> None:
        """Nobody showed the trees of these roots: who answered with them loses what it holds for the batch."""

    def agree(self, unit: bytes, root: bytes | None) -> None:
        """The dispute is over: one root is left, or none."""


class DisputeStorage(DisputeNumbers):
    """Disputes, what was shown in them, duties and the agenda."""

    system: System
    beacon: Beacon
    devices: Devices

    disputes: StorageMap[UnitId, LeafDispute | None] = StorageMap(doc="Batches whose racers answered differently.")
    subtrees: NodeLists = StorageDoubleMap(
        default=(), doc="The nodes above 64 leaves each, as the side of a root has shown them."
    )
    leaves: NodeLists = StorageDoubleMap(
        default=(), doc="The leaves of the subtree that is asked for, as the side of a root has shown them."
    )
    duties: StorageDoubleMap[AccountId, UnitId, bool] = StorageDoubleMap(
        default=False, doc="The disputes in which a stash, or another of its side, shows nodes now."
    )

    agenda: ScheduleItem[UnitId] = ScheduleItem("height", doc="Disputes to look at in a block.")
    final_agenda: ScheduleItem[UnitId] = ScheduleItem(
        "final", doc="Disputes whose windows begin once a height is final."
    )

    @property
    def height(self) -> int:
        """Of this block."""
        return self.system.number.get()

    def handler(self, dispute: LeafDispute) -> DisputeHandler:
        """The pallet whose batch it is."""
        pallets = self.context.members.values()
        found = next((pallet for pallet in pallets if pallet.index == dispute.handler), None)
        assert isinstance(found, DisputeHandler), "disputes are opened by pallets that can carry out what comes of them"
        return found

    def awaits_finality(self, unit: bytes) -> bool:
        """Whether what is asked for is not final, as far as this block knows."""
        return bool(self.final_agenda.places[unit])

    def open_dispute(self, unit: bytes) -> LeafDispute:
        """A dispute that is not over; UnknownDispute if there is none."""
        return known(self.disputes[unit], UnknownDispute)

    def put(self, unit: bytes, dispute: LeafDispute) -> None:
        """Write a dispute, and have it looked at in the block after its window."""
        self.disputes[unit] = dispute
        if dispute.deadline:
            self.agenda.put(dispute.deadline + 1, unit)
        else:
            self.agenda.drop(unit)
