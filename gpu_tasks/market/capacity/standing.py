"""The valid proofs of devices, for readers of the chain: the same decision as `Capacity.has_proven`."""

from collections.abc import Mapping
from dataclasses import dataclass

from gpu_tasks.market.capacity.proofs import CapacityProof, stands
from gpu_tasks.market.capacity.roll_call import RollCall, is_over
from gpu_tasks.market.devices.records import DeviceClass


@dataclass(frozen=True, slots=True)
class ProvenRates:
    """Proven throughput of some devices and the minimum of each class, in 10^9 operations a slot."""

    in_force: bool
    rates_min: tuple[int, ...]
    """The least throughput of each class."""
    proven: Mapping[bytes, int]

    def has_proven(self, device: bytes, kind: DeviceClass) -> bool:
        """Return True if a device has proven its class's minimum, or need not."""
        return not self.in_force or self.proven.get(device, 0) >= self.rates_min[kind]


NOT_ASKED = ProvenRates(in_force=False, rates_min=(0, 0, 0), proven={})
"""The rates of a chain without roll calls: every device may work."""


def standing_number(newest_call: RollCall, height: int) -> int:
    """Return the number of the roll call whose proofs count after block `height`, if `newest_call` is the newest."""
    return newest_call.number if is_over(newest_call, height) else newest_call.number - 1


def standing_at(
    newest_call: RollCall, height: int, proofs: Mapping[tuple[bytes, int], CapacityProof | None], device_id: bytes
) -> int:
    """Return the proven throughput of a device after block `height`, in 10^9 operations a slot."""
    proof = proofs.get((device_id, standing_number(newest_call, height)))
    return proof.rate if proof is not None and stands(proof) else 0
