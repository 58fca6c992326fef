"""The chain's data about roll calls, for a provider that answers or inspects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpu_tasks.data.market_reads import entries
from gpu_tasks.data.proven_rates import least_rates
from gpu_tasks.market.capacity.capacity import Capacity
from gpu_tasks.market.capacity.proofs import (
    CapacityProof,
    Enrolment,
    device_seed,
    drawn_inspectors,
    drawn_rows,
)
from gpu_tasks.market.capacity.roll_call import RollCall
from gpu_tasks.market.capacity.standing import ProvenRates, standing_at
from gpu_tasks.provider.chain.port import Inspection, RollCallView
from gpu_tasks.workloads.matmul_chain.challenge import ChainChallenge, ChainShape
from runtime.pallets.staking.trust_stake import TrustStake
from wallet.client import ChainClient


async def roll_call(client: ChainClient, devices: Sequence[bytes], at: bytes | None = None) -> RollCallView:
    """Return the newest roll call, and the state of some devices at it."""
    called: RollCall | None = await client.read(Capacity.current, at=at)
    planned: int = await client.read(Capacity.next_roll_call, at=at)
    in_force: bool = await client.read(Capacity.is_enforced, at=at)
    rates = await least_rates(client, at)
    found = await client.read_many(Capacity.enrolments, list(devices), at=at)
    enrolled = {device: entry for device, entry in zip(devices, found, strict=True) if entry is not None}
    if called is None or not enrolled:
        return RollCallView(called, planned, enrolled, {}, ProvenRates(in_force, rates, dict.fromkeys(devices, 0)))
    # A proof of the previous roll call counts until the newest one is over, so both are read.
    names = [(device, number) for device in enrolled for number in (called.number - 1, called.number)]
    proofs = dict(zip(names, await client.read_many(Capacity.proofs, names, at=at), strict=True))
    height = await client.height(at)
    standing = {device: standing_at(called, height, proofs, device) for device in devices}
    current = {device: proof for (device, number), proof in proofs.items() if number == called.number and proof}
    return RollCallView(called, planned, enrolled, current, ProvenRates(in_force, rates, standing))


async def inspections(client: ChainClient, stash: bytes, at: bytes) -> tuple[Inspection, ...]:
    """Return the rows that a stash was drawn to inspect and has not objected to."""
    called: RollCall | None = await client.read(Capacity.current, at=at)
    seats = {seat.stash: seat.weight for seat in await client.read(TrustStake.active_set, at=at)}
    # Only members of the active set inspect, and the seed is zero until it is drawn.
    if called is None or stash not in seats or called.inspectors_seed == bytes(32):
        return ()
    enrolled = {device: entry for (device,), entry in await entries(client, Capacity.enrolments, at=at)}
    mine = [device for device, entry in enrolled.items() if is_drawn(called, device, entry, seats, stash)]
    proofs = await client.read_many(Capacity.proofs, [(device, called.number) for device in mine], at=at)
    shown = await client.read_many(Capacity.opened_rows, mine, at=at)
    return tuple(
        inspection_of(called, device, proof, digests)
        for device, proof, digests in zip(mine, proofs, shown, strict=True)
        if proof is not None and proof.is_open and stash not in proof.objections
    )


def is_drawn(called: RollCall, device: bytes, enrolled: Enrolment, seats: Mapping[bytes, int], stash: bytes) -> bool:
    """Return True if a stash was drawn to inspect a device's rows."""
    # The owner never inspects its own device. The order must be the chain's, because the draw depends on it.
    others = [(seat, weight) for seat, weight in sorted(seats.items()) if seat != enrolled.owner]
    return enrolled.since < called.at and stash in drawn_inspectors(called.inspectors_seed, device, others)


def inspection_of(called: RollCall, device: bytes, proof: CapacityProof, digests: Sequence[bytes]) -> Inspection:
    """Return the rows of a device to compute again."""
    places = tuple(drawn_rows(called.rows_seed, device, proof.shape.rows))
    return Inspection(device, called.number, challenge_of(called, device, proof), places, tuple(digests))


def challenge_of(called: RollCall, device: bytes, work: CapacityProof | Enrolment) -> ChainChallenge:
    """Return a device's work for a roll call."""
    shape = ChainShape(work.shape.size, work.shape.rows, work.shape.rounds)
    return ChainChallenge(device_seed(called.seed, device), shape)
