"""What stands of devices, for who reads the chain: the same as `Capacity.has_proven` says in the state."""

from collections.abc import Mapping
from dataclasses import dataclass

from gpu_tasks.market.capacity.proofs import CapacityProof, stands
from gpu_tasks.market.capacity.roll_call import RollCall, is_over
from gpu_tasks.market.devices.records import CLASS_NAMES, DeviceClass


@dataclass(frozen=True, slots=True)
class ProvenRates:
    """What stands of some devices, and what they need, in thousand millions of operations a slot."""

    in_force: bool
    rates_min: tuple[int, ...]
    """The least of each class."""
    proven: Mapping[bytes, int]

    def why_not(self, device: bytes, kind: DeviceClass) -> str:
        """Why the chain gives a device no work; empty if it may."""
        has, needs, name = self.proven.get(device, 0), self.rates_min[kind], tuple(CLASS_NAMES)[kind]
        if not self.in_force or has >= needs:
            return ""
        return f"it has proven {has:,} of the {needs:,} thousand million operations a slot of class {name}"


NOT_ASKED = ProvenRates(in_force=False, rates_min=(0, 0, 0), proven={})
"""Of a chain without roll calls: everybody may work."""


def standing_number(called: RollCall, height: int) -> int:
    """The number of the roll call whose proofs stand after block `height`, where `called` is the newest."""
    return called.number if is_over(called, height) else called.number - 1


def standing_at(
    called: RollCall, height: int, proofs: Mapping[tuple[bytes, int], CapacityProof | None], device: bytes
) -> int:
    """What stands of a device's throughput after block `height`."""
    proof = proofs.get((device, standing_number(called, height)))
    return proof.rate if proof is not None and stands(proof) else 0
