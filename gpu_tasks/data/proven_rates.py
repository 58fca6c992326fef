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


async def proven_rates(chain: ChainClient, device_ids: Sequence[bytes], at: bytes) -> ProvenRates:
    """Return some devices' proven rates after a block, none if roll calls are not in force."""
    rates_min = await least_rates(chain, at)
    last_call: RollCall | None = await chain.read(Capacity.current, at=at)
    if last_call is None or not await chain.read(Capacity.is_enforced, at=at):
        return ProvenRates(False, rates_min, {})
    block_height = await chain.height(at)
    proof_keys = [(device_id, standing_number(last_call, block_height)) for device_id in device_ids]
    proof_by_number = dict(zip(proof_keys, await chain.read_many(Capacity.proofs, proof_keys, at=at), strict=True))
    return ProvenRates(
        True,
        rates_min,
        {device_id: standing_at(last_call, block_height, proof_by_number, device_id) for device_id in device_ids},
    )


def why_no_work(proven_rates: ProvenRates, device_id: bytes, device_class: DeviceClass) -> str:
    """Return the reason why the chain gives a device no work, or "" if it may get work."""
    if proven_rates.has_proven(device_id, device_class):
        return ""
    proven_rate, required_rate, class_name = (
        proven_rates.proven.get(device_id, 0),
        proven_rates.rates_min[device_class],
        tuple(CLASS_NAMES)[device_class],
    )
    return (
        f"it has proven {proven_rate:,} of the {required_rate:,} thousand million operations per slot "
        f"that class {class_name} needs"
    )


async def unproven(chain: ChainClient, device_ids: Sequence[bytes], at: bytes) -> dict[bytes, str]:
    """Return the devices that get no work, each with the reason, without those that are no longer registered."""
    rates = await proven_rates(chain, device_ids, at)
    if not rates.in_force:
        return {}
    device_records = zip(device_ids, await chain.read_many(Devices.devices, device_ids, at=at), strict=True)
    idle_reasons = {
        device_id: why_no_work(rates, device_id, device_record.kind)
        for device_id, device_record in device_records
        if device_record is not None
    }
    return {device_id: idle_reason for device_id, idle_reason in idle_reasons.items() if idle_reason}


async def least_rates(chain: ChainClient, at: bytes | None = None) -> tuple[int, ...]:
    """Return the least rate of each class."""
    return tuple([await chain.read(parameter.item, at=at) for parameter in LEAST_RATES])
