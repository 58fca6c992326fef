"""What a chain in memory says of roll calls, as `ChainPort` says it."""

from collections.abc import Sequence

from gpu_tasks.market.capacity.capacity import Capacity
from gpu_tasks.market.capacity.standing import NOT_ASKED, ProvenRates
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.provider.chain.port import Inspection, RollCallView
from gpu_tasks.provider.chain.roll_calls import inspection_of, is_drawn
from runtime.pallets.staking.trust_stake import TrustStake
from simulation.chains.market_chain import MarketChain


def roll_call_of(chain: MarketChain, devices: Sequence[bytes]) -> RollCallView:
    if Capacity not in chain.pallets:
        return RollCallView(None, 0, {}, {}, NOT_ASKED)
    capacity = chain.now()[Capacity]
    called, found = capacity.current.get(), {device: capacity.enrolments[device] for device in devices}
    enrolled = {device: entry for device, entry in found.items() if entry is not None}
    shown = {} if called is None else {device: capacity.proofs[device, called.number] for device in enrolled}
    proofs = {device: proof for device, proof in shown.items() if proof is not None}
    rates = tuple(capacity.rate_min(kind) for kind in DeviceClass)
    proven = {device: capacity.proven(device) for device in devices}
    standings = ProvenRates(capacity.in_force.get(), rates, proven)
    return RollCallView(called, capacity.planned.get(), enrolled, proofs, standings)


def inspections_of(chain: MarketChain, stash: bytes) -> tuple[Inspection, ...]:
    capacity = chain.now()[Capacity]
    called, seats = capacity.current.get(), {seat.stash: seat.weight for seat in chain.now()[TrustStake].seats.get()}
    if called is None or called.inspectors_seed == bytes(32):
        return ()
    found = []
    for device, entry in capacity.enrolments.items():
        proof = capacity.proofs[device, called.number]
        if entry is None or proof is None or not is_drawn(called, device, entry, seats, stash):
            continue
        if proof.is_open and stash not in proof.objections:
            found.append(inspection_of(called, device, proof, capacity.shown[device]))
    return tuple(found)
