"""The valid proofs of devices, for readers of the chain: the same decision as `Capacity.has_proven`."""

from collections.abc import Mapping
from dataclasses import dataclass

from gpu_tasks.market.capacity.proofs import ProvenRate
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


def standing_rate(newest_call: RollCall, height: int, proof: ProvenRate | None) -> int:
    """Return the throughput that a device has proven at block `height`, in 10^9 operations a slot.

    A proof of the roll call before counts until the newest one is over.
    """
    if proof is None:
        return 0
    number = newest_call.number if is_over(newest_call, height) else newest_call.number - 1
    return {proof.number: proof.rate, proof.number - 1: proof.rate_before}.get(number, 0)
