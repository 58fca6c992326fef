"""The chain's data about roll calls, for a provider that answers or inspects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpu_tasks.data.market_reads import entries
from gpu_tasks.data.proven_rates import least_rates
from gpu_tasks.market.capacity.capacity import Capacity
from gpu_tasks.market.capacity.proofs import CapacityProof, Enrolment, device_seed, drawn_inspectors, drawn_rows
from gpu_tasks.market.capacity.roll_call import RollCall
from gpu_tasks.market.capacity.standing import ProvenRates, standing_at
from gpu_tasks.provider.chain.port import Inspection, RollCallView
from gpu_tasks.workloads.matmul_chain.challenge import ChainChallenge, ChainShape
from runtime.pallets.staking.trust_stake import TrustStake
from wallet.client import ChainClient


async def roll_call(client: ChainClient, device_ids: Sequence[bytes], block_hash: bytes | None = None) -> RollCallView:
    """Return the newest roll call, and the state of some devices at it."""
    called_roll: RollCall | None = await client.read(Capacity.current, at=block_hash)
    next_roll_call: int = await client.read(Capacity.next_roll_call, at=block_hash)
    in_force: bool = await client.read(Capacity.is_enforced, at=block_hash)
    proven_rates = await least_rates(client, block_hash)
    enrolments = await client.read_many(Capacity.enrolments, list(device_ids), at=block_hash)
    enrolled = {
        device_id: enrolment
        for device_id, enrolment in zip(device_ids, enrolments, strict=True)
        if enrolment is not None
    }
    if called_roll is None or not enrolled:
        return RollCallView(
            called_roll, next_roll_call, enrolled, {}, ProvenRates(in_force, proven_rates, dict.fromkeys(device_ids, 0))
        )
    # A proof of the previous roll call counts until the newest one is over, so both are read.
    proof_names = [
        (device_id, call_number)
        for device_id in enrolled
        for call_number in (called_roll.number - 1, called_roll.number)
    ]
    stored_proofs = dict(
        zip(proof_names, await client.read_many(Capacity.proofs, proof_names, at=block_hash), strict=True)
    )
    height = await client.height(block_hash)
    standing = {device_id: standing_at(called_roll, height, stored_proofs, device_id) for device_id in device_ids}
    current_proofs = {
        device_id: proof
        for (device_id, call_number), proof in stored_proofs.items()
        if call_number == called_roll.number and proof
    }
    return RollCallView(
        called_roll, next_roll_call, enrolled, current_proofs, ProvenRates(in_force, proven_rates, standing)
    )


async def inspections(client: ChainClient, stash: bytes, block_hash: bytes) -> tuple[Inspection, ...]:
    """Return the rows that a stash was drawn to inspect and has not objected to."""
    roll_call: RollCall | None = await client.read(Capacity.current, at=block_hash)
    seat_weights = {seat.stash: seat.weight for seat in await client.read(TrustStake.active_set, at=block_hash)}
    # Only members of the active set inspect, and the seed is zero until it is drawn.
    if roll_call is None or stash not in seat_weights or roll_call.inspectors_seed == bytes(32):
        return ()
    enrolled = {
        device_id: enrolment for (device_id,), enrolment in await entries(client, Capacity.enrolments, at=block_hash)
    }
    inspected_devices = [
        device_id
        for device_id, enrolment in enrolled.items()
        if is_drawn(roll_call, device_id, enrolment, seat_weights, stash)
    ]
    stored_proofs = await client.read_many(
        Capacity.proofs, [(device_id, roll_call.number) for device_id in inspected_devices], at=block_hash
    )
    opened_rows = await client.read_many(Capacity.opened_rows, inspected_devices, at=block_hash)
    return tuple(
        inspection_of(roll_call, device_id, proof, shown_digests)
        for device_id, proof, shown_digests in zip(inspected_devices, stored_proofs, opened_rows, strict=True)
        if proof is not None and proof.is_open and stash not in proof.objections
    )


def is_drawn(
    roll_call: RollCall, device_id: bytes, enrolled: Enrolment, seat_weights: Mapping[bytes, int], stash: bytes
) -> bool:
    """Return True if a stash was drawn to inspect a device's rows."""
    # The owner never inspects its own device. The order must be the chain's, because the draw depends on it.
    other_seats = [(seat, seat_weight) for seat, seat_weight in sorted(seat_weights.items()) if seat != enrolled.owner]
    return enrolled.since < roll_call.at and stash in drawn_inspectors(
        roll_call.inspectors_seed, device_id, other_seats
    )


def inspection_of(roll_call: RollCall, device_id: bytes, proof: CapacityProof, digests: Sequence[bytes]) -> Inspection:
    """Return the rows of a device to compute again."""
    row_indices = tuple(drawn_rows(roll_call.rows_seed, device_id, proof.shape.rows))
    return Inspection(
        device_id, roll_call.number, challenge_of(roll_call, device_id, proof), row_indices, tuple(digests)
    )


def challenge_of(roll_call: RollCall, device_id: bytes, enrolled_work: CapacityProof | Enrolment) -> ChainChallenge:
    """Return a device's work for a roll call."""
    chain_shape = ChainShape(enrolled_work.shape.size, enrolled_work.shape.rows, enrolled_work.shape.rounds)
    return ChainChallenge(device_seed(roll_call.seed, device_id), chain_shape)
