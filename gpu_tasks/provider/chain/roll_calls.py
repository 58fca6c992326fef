"""The chain's data about roll calls, for a provider that answers."""

from __future__ import annotations

from collections.abc import Sequence

from gpu_tasks.data.proven_rates import least_rates
from gpu_tasks.market.capacity.capacity import Capacity
from gpu_tasks.market.capacity.proofs import OpenProof, claim_of
from gpu_tasks.market.capacity.roll_call import RollCall
from gpu_tasks.market.capacity.standing import ProvenRates, standing_rate
from gpu_tasks.provider.chain.port import RollCallView
from wallet.client import ChainClient


async def roll_call(client: ChainClient, device_ids: Sequence[bytes], block_hash: bytes | None = None) -> RollCallView:
    """Return the newest roll call, and the state of some devices at it."""
    called_roll = await newest_roll_call(client, block_hash)
    next_roll_call: int = await client.read(Capacity.next_roll_call, at=block_hash)
    in_force: bool = await client.read(Capacity.is_enforced, at=block_hash)
    rates_min = await least_rates(client, block_hash)
    if called_roll is None or not device_ids:
        rates = ProvenRates(in_force, rates_min, dict.fromkeys(device_ids, 0))
        return RollCallView(called_roll, next_roll_call, {}, {}, rates)
    proofs = await client.read_many(Capacity.proofs, list(device_ids), at=block_hash)
    height = await client.height(block_hash)
    proven = {
        device_id: standing_rate(called_roll, height, proof)
        for device_id, proof in zip(device_ids, proofs, strict=True)
    }
    claim_ids = [claim_of(device_id, called_roll.number) for device_id in device_ids]
    open_proofs = await client.read_many(Capacity.open_proofs, claim_ids, at=block_hash)
    return RollCallView(
        called_roll,
        next_roll_call,
        {device_id: proof for device_id, proof in zip(device_ids, proofs, strict=True) if proof is not None},
        {device_id: proof for device_id, proof in zip(device_ids, open_proofs, strict=True) if proof is not None},
        ProvenRates(in_force, rates_min, proven),
    )


async def newest_roll_call(client: ChainClient, block_hash: bytes | None = None) -> RollCall | None:
    """Return the newest roll call."""
    called_roll: RollCall | None = await client.read(Capacity.current, at=block_hash)
    return called_roll


async def open_proof(client: ChainClient, claim_id: bytes, block_hash: bytes | None = None) -> OpenProof | None:
    """Return the proof of an open claim, or None for a claim of another market."""
    found: OpenProof | None = await client.read(Capacity.open_proofs, claim_id, at=block_hash)
    return found
