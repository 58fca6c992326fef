"""The time of a block: the first inherent of every block sets it to the exact start of the block's slot."""

from runtime.blocks.digest import find_pre_digest
from runtime.encoding.scale import DecodeError
from runtime.encoding.types import CompactMoment, Moment
from runtime.frame.errors import InvalidBlock
from runtime.frame.pallet import Constant, Pallet, StorageValue, Unsigned, call
from runtime.pallets.system import System
from runtime.pallets.weights import WEIGHTS


class Timestamp(Pallet, index=1):
    """The time of the block. SDK names, so that explorers show it."""

    system: System

    now: StorageValue[Moment] = StorageValue(default=0, doc="The start of the block's slot, in Unix milliseconds.")
    did_update: StorageValue[bool] = StorageValue(default=False, doc="True if this block has set the time.")

    minimum_period: Constant[Moment] = Constant(
        500, doc="Half a slot, in milliseconds. Clients double it for the block time."
    )

    @call(index=0, weight=WEIGHTS["Timestamp.set"])
    def set(self, origin: Unsigned, now: CompactMoment) -> None:
        """Set the time of the block. Raises InvalidBlock unless it is the start of the header's slot."""
        if self.did_update.get():
            raise InvalidBlock("time set twice")
        # Exact, so that no author can move the clock within its slot.
        if now != self.slot_start():
            raise InvalidBlock("time differs from the start of the block's slot")
        self.now.set(now)
        self.did_update.set(True)

    def on_finalize(self) -> None:
        """Raise InvalidBlock if the time was not set."""
        if not self.did_update.get():
            raise InvalidBlock("time not set")
        self.did_update.remove()

    def slot_duration(self) -> int:
        """Return the length of a slot in ms."""
        return 2 * self.minimum_period

    def slot_start(self) -> int:
        """Return the start of the block's slot in Unix ms. Slots are counted from the Unix epoch."""
        try:
            pre_digest = find_pre_digest(self.system.digest.get())
        except DecodeError as failure:
            raise InvalidBlock("malformed pre-digest") from failure
        if pre_digest is None:
            raise InvalidBlock("missing pre-digest")
        return pre_digest.slot * self.slot_duration()
