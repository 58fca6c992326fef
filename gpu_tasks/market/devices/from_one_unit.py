"""Storage version 1 of Devices: a device may be drawn for units while it works on one.

Under the program before, it had one assignment, and the block in which that ended was its last change. Always: nothing
of a device changes but that it says so, and it is drawn for no unit for which it was not before.
"""

from gpu_tasks.market.devices.records import Device, DeviceClass
from gpu_tasks.market.ids import UnitId
from gpu_tasks.market.weights import WEIGHTS
from runtime.encoding.codec import U32, struct
from runtime.encoding.types import AccountId, Balance, BlockNumber, Hash, Weight
from runtime.frame.measured import times
from runtime.frame.storage import storage_prefix
from runtime.frame.storage_version import kept, rewritten
from runtime.state.overlay import Overlay

VERSION = 1


@struct
class OneUnitDevice:
    """`Device` as it was."""

    owner: AccountId
    kind: DeviceClass
    uuid_hash: Hash
    bond: Balance
    registered_at: BlockNumber
    changed_at: BlockNumber
    secured: Balance
    offers: U32
    assignment: UnitId | None
    is_paused: bool


def migrate(overlay: Overlay) -> Weight:
    """Bring every device into the form of now."""
    units = {key[-32:] for key in overlay.keys(storage_prefix("InferenceMarket", "Units"))}
    prefix = storage_prefix("Devices", "Devices")
    count = rewritten(overlay, prefix, OneUnitDevice, Device, lambda _, before: _device(before, units))
    return times(count, WEIGHTS["InferenceMarket.on_initialize turn"])


def _device(before: OneUnitDevice, units: set[bytes]) -> Device:
    return Device(**kept(before), is_dedicated=before.assignment is not None and before.assignment not in units)
