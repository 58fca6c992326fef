"""Devices' proven throughput at roll calls, and the reason why one gets no work, from the state of a block."""

from __future__ import annotations

from collections.abc import Sequence

from gpu_tasks.market.capacity.capacity import Capacity
from gpu_tasks.market.capacity.roll_call import RollCall
from gpu_tasks.market.capacity.standing import ProvenRates, standing_at, standing_number
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import CLASS_NAMES, DeviceClass
from wallet.client import ChainClient

LEAST_RATES = (Capacity.cpu_rate_min, Capacity.consumer_rate_min, Capacity.datacenter_rate_min)
"""By class."""


async def proven_rates(chain: ChainClient, devices: Sequence[bytes], at: bytes) -> ProvenRates:
    """Return some devices' proven rates after a block, none if roll calls are not in force."""
    rates_min = await least_rates(chain, at)
    called: RollCall | None = await chain.read(Capacity.current, at=at)
    if called is None or not await chain.read(Capacity.is_enforced, at=at):
        return ProvenRates(False, rates_min, {})
    height = await chain.height(at)
    names = [(device, standing_number(called, height)) for device in devices]
    proofs = dict(zip(names, await chain.read_many(Capacity.proofs, names, at=at), strict=True))
    return ProvenRates(True, rates_min, {device: standing_at(called, height, proofs, device) for device in devices})


def why_no_work(rates: ProvenRates, device: bytes, kind: DeviceClass) -> str:
    """Return the reason why the chain gives a device no work, or "" if it may get work."""
    if rates.has_proven(device, kind):
        return ""
    proven, needed, class_name = rates.proven.get(device, 0), rates.rates_min[kind], tuple(CLASS_NAMES)[kind]
    return (
        f"it has proven {proven:,} of the {needed:,} thousand million operations per slot that class {class_name} needs"
    )


async def unproven(chain: ChainClient, devices: Sequence[bytes], at: bytes) -> dict[bytes, str]:
    """Return the devices that get no work, each with the reason, without those that are no longer registered."""
    rates = await proven_rates(chain, devices, at)
    if not rates.in_force:
        return {}
    stored = zip(devices, await chain.read_many(Devices.devices, devices, at=at), strict=True)
    reasons = {device: why_no_work(rates, device, record.kind) for device, record in stored if record is not None}
    return {device: reason for device, reason in reasons.items() if reason}


async def least_rates(chain: ChainClient, at: bytes | None = None) -> tuple[int, ...]:
    """Return the least rate of each class."""
    return tuple([await chain.read(parameter.item, at=at) for parameter in LEAST_RATES])
