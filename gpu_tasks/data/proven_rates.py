"""Devices' proven throughput at roll calls, and the reason why one gets no work, from the state of a block."""

from __future__ import annotations

from collections.abc import Sequence

from gpu_tasks.market.capacity.capacity import Capacity
from gpu_tasks.market.capacity.proofs import proof_money
from gpu_tasks.market.capacity.roll_call import RollCall
from gpu_tasks.market.capacity.standing import ProvenRates, standing_rate
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import CLASS_NAMES, DeviceClass
from wallet.client import ChainClient

LEAST_RATES = (Capacity.cpu_rate_min, Capacity.consumer_rate_min, Capacity.datacenter_rate_min)
"""By class."""


async def proven_rates(chain: ChainClient, device_ids: Sequence[bytes], block_hash: bytes) -> ProvenRates:
    """Return some devices' proven rates after a block, none if roll calls are not in force."""
    rates_min = await least_rates(chain, block_hash)
    last_call: RollCall | None = await chain.read(Capacity.current, at=block_hash)
    if last_call is None or not await chain.read(Capacity.is_enforced, at=block_hash):
        return ProvenRates(False, rates_min, {})
    height = await chain.height(block_hash)
    proofs = await chain.read_many(Capacity.proofs, device_ids, at=block_hash)
    proven = {
        device_id: standing_rate(last_call, height, proof) for device_id, proof in zip(device_ids, proofs, strict=True)
    }
    return ProvenRates(True, rates_min, proven)


def why_no_work(rates: ProvenRates, device_id: bytes, device_class: DeviceClass) -> str:
    """Return the reason why the chain gives a device no work, or "" if it may get work."""
    if rates.has_proven(device_id, device_class):
        return ""
    proven, required, class_name = (
        rates.proven.get(device_id, 0),
        rates.rates_min[device_class],
        tuple(CLASS_NAMES)[device_class],
    )
    return (
        f"it has proven {proven:,} of the {required:,} thousand million operations per slot "
        f"that class {class_name} needs"
    )


async def unproven(chain: ChainClient, device_ids: Sequence[bytes], block_hash: bytes) -> dict[bytes, str]:
    """Return the devices that get no work, each with the reason, without those that are no longer registered."""
    rates = await proven_rates(chain, device_ids, block_hash)
    if not rates.in_force:
        return {}
    devices = zip(device_ids, await chain.read_many(Devices.devices, device_ids, at=block_hash), strict=True)
    reasons = {
        device_id: why_no_work(rates, device_id, device.kind) for device_id, device in devices if device is not None
    }
    return {device_id: reason for device_id, reason in reasons.items() if reason}


async def proof_hold(chain: ChainClient, at: bytes | None = None) -> int:
    """Return the grains that a proof holds: the collateral, and the fees of two checks."""
    stake, fee_min = [
        await chain.read(parameter.item, at=at) for parameter in (Capacity.proof_stake, ResultClaims.check_fee_min)
    ]
    return sum(proof_money(stake, fee_min))


async def least_rates(chain: ChainClient, at: bytes | None = None) -> tuple[int, ...]:
    """Return the least rate of each class."""
    return tuple([await chain.read(parameter.item, at=at) for parameter in LEAST_RATES])
