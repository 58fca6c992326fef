"""Providers of a random chain: they join, race, attest, and leave. Some forget, and some lie."""

from collections.abc import Iterator

from gpu_tasks.batches.sum_tree import Totals, batch_root
from gpu_tasks.market import rounds
from gpu_tasks.market.attestations.attestations import Attestations
from gpu_tasks.market.attestations.statement import VERSION, Attestation, ProofKind, SignedAttestation, signing_payload
from gpu_tasks.market.attestations.usage import Usage
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import Device, DeviceClass
from gpu_tasks.market.inference import race_clocks
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import Racer, Unit, UnitState, racer_of, result_commitment
from runtime.cryptography.hashing import blake2_256
from runtime.pallets.staking.trust_stake import TrustStake
from simulation.actors import BY_STASH, OGPU, Actor, Deed, World, portion, salt_of
from simulation.replay.answers import has_bad_input, totals_for, unit_of
from simulation.replay.budget_deeds import budget_deeds
from simulation.replay.claim_deeds import FORGETS, claim_deeds
from simulation.replay.dispute_deeds import dispute_deeds
from simulation.replay.roll_deeds import roll_deeds
from simulation.replay.session_deeds import session_deeds
from simulation.replay.task_deeds import task_deeds

LIES = 0.25
"""The share of units about which a liar lies."""
LONG, LONG_BLOCKS = 0.15, 12
"""The share of slow units, and their blocks.

Without them a commit would often come before a declined place is refilled.
"""
DECLINES, PASSES = 0.04, 0.02
"""The chances per block that a racer declines a good input, and that it passes."""
AWAY = 0.1
"""The share of draws that a provider ignores completely."""
EAGERNESS = 0.1
LEAVES, STAYS_BLOCKS = 0.3, 120
"""The share of devices that leave the market, and the least blocks before that."""
DEVICE_BOND = 100 * OGPU
ENDPOINT = b"http://127.0.0.1:1"


def deeds(world: World) -> Iterator[Deed]:
    """Yield the current duties of all providers, except for forgotten ones."""
    for stash, actor in sorted(BY_STASH.items()):
        yield from _equipped(world, actor)
        for unit_id, _ in list(world.bound[InferenceMarket].duties.under(stash)):
            unit = world.bound[InferenceMarket].units[unit_id]
            assert unit is not None
            if world.chance.random() >= FORGETS and not _is_away(actor, unit_id, b"races"):
                yield from _race(world, actor, unit_id, unit)
    yield from claim_deeds(world)
    yield from dispute_deeds(world)
    yield from task_deeds(world)
    yield from roll_deeds(world)
    yield from session_deeds(world)
    yield from budget_deeds(world)


def _equipped(world: World, actor: Actor) -> Iterator[Deed]:
    """Yield the steps by which a candidate gets a provider record and a device that is offered and not paused."""
    devices = world.bound[Devices]
    stash = actor.stash.account
    if world.chance.random() > EAGERNESS:
        return
    if not devices.stake.is_candidate(stash):
        yield from _leaving(world, actor)
        return
    if stash not in devices.providers:
        yield Deed(actor.stash, Devices.register_provider(seal_key=actor.vrf, endpoint=ENDPOINT))
    mine = [key for key, _ in devices.devices_of.under(stash)]
    if not mine:
        uuid_hash = blake2_256(actor.name.encode())
        yield Deed(actor.stash, Devices.register_device(kind=DeviceClass.CPU, uuid_hash=uuid_hash, bond=DEVICE_BOND))
    for key in mine:
        device = devices.devices[key]
        assert device is not None
        yield from _tended(world, actor, key, device)


def _leaving(world: World, actor: Actor) -> Iterator[Deed]:
    """Yield the steps by which a former candidate removes devices, provider record and bond."""
    devices, market, stash = world.bound[Devices], world.bound[InferenceMarket], actor.stash.account
    if stash in devices.stake.candidates or stash not in devices.providers:
        return
    for key, _ in list(devices.devices_of.under(stash)):
        device = devices.devices[key]
        assert device is not None
        for service in market.device_offers[key]:
            yield Deed(actor.stash, InferenceMarket.withdraw_offer(device=key, service=service))
        if device.assignment is None and not device.secured:
            yield Deed(actor.stash, Devices.unregister_device(device=key))
    if next(iter(devices.devices_of.under(stash)), None) is None:
        yield Deed(actor.stash, Devices.unregister_provider())
    bonded = devices.stake.bonds[stash]
    if bonded:
        yield Deed(actor.stash, TrustStake.unbond(value=bonded))


def _tended(world: World, actor: Actor, key: bytes, device: Device) -> Iterator[Deed]:
    """Yield the steps that keep a device on offer, or remove it after its time once it is free."""
    market = world.bound[InferenceMarket]
    if portion(key + world.genesis_hash, b"leaves") < LEAVES and world.height > device.registered_at + STAYS_BLOCKS:
        for service in market.device_offers[key]:
            yield Deed(actor.provider, InferenceMarket.withdraw_offer(device=key, service=service))
        if device.assignment is None and not device.secured:
            yield Deed(actor.stash, Devices.unregister_device(device=key))
        return
    if device.is_paused:
        yield Deed(actor.provider, Devices.resume(device=key))
    if market.offers[0, key] is None:
        yield Deed(actor.provider, InferenceMarket.offer(device=key, service=0, ask=OGPU // 100))


def _race(world: World, actor: Actor, unit_id: bytes, unit: Unit) -> Iterator[Deed]:
    market = world.bound[InferenceMarket]
    stash = actor.stash.account
    racer = racer_of(unit, stash)
    if unit.state is not UnitState.RACING or racer is None or unit.round is None or racer.has_declined:
        return
    windows = market.windows_of(unit)
    if racer.commitment is None:
        if not race_clocks.can_commit(racer, unit.round, windows, world.height):
            return
        is_unreadable = has_bad_input(unit_id) and actor.name not in world.liars
        if is_unreadable or world.chance.random() < DECLINES:
            yield Deed(actor.provider, InferenceMarket.decline(unit=unit_id, attempt=unit.attempt))
            return
        if world.chance.random() < PASSES:
            yield Deed(actor.provider, InferenceMarket.pass_unit(unit=unit_id, attempt=unit.attempt))
            return
        if portion(unit_id, b"long") < LONG and world.height <= unit.round.drawn_at + LONG_BLOCKS:
            return
        root = batch_root(_result(world, actor, unit_id))
        commitment = result_commitment(world.genesis_hash, unit_id, unit.attempt, stash, root, salt_of(actor, unit_id))
        yield Deed(
            actor.provider, InferenceMarket.commit_result(unit=unit_id, attempt=unit.attempt, commitment=commitment)
        )
    elif racer.reveal is None and rounds.can_reveal(unit.round, windows, world.height):
        signed = attestation(world, actor, unit_id, unit, racer)
        if world.chance.random() < 0.3:
            yield Deed(actor.provider, Attestations.reveal(attestation=signed))
        else:
            yield Deed(actor.provider, attestation=signed)


def attestation(world: World, actor: Actor, unit_id: bytes, unit: Unit, racer: Racer) -> SignedAttestation:
    """Return the attestation by which a racer reveals its result."""
    service = world.bound[InferenceMarket].service(unit.service).terms
    drawn_at = unit.round.drawn_at if unit.round else 0
    totals = _result(world, actor, unit_id)
    result = batch_root(totals)
    statement = Attestation(
        version=VERSION,
        unit=unit_id,
        attempt=unit.attempt,
        replica=unit.racers.index(racer),
        provider_key=actor.provider.account,
        device=racer.device,
        workload=service.workload,
        model=service.model,
        input_root=unit.terms.input_root,
        output_root=result,
        output_blob=blake2_256(result),
        totals=totals,
        salt=salt_of(actor, unit_id),
        proof_kind=ProofKind.EXACT_HASH,
        proof_hash=result,
        proof_inline=b"",
        usage=Usage(totals.tokens_out, 5, 0, 5, 6, 1_000),
        started_at=drawn_at,
        finished_at=drawn_at + 1,
    )
    return SignedAttestation(statement, actor.provider.sign(signing_payload(world.genesis_hash, statement)))


def _is_away(actor: Actor, task: bytes, label: bytes) -> bool:
    """Return whether a provider ignores a unit or a case, a random choice for each pair."""
    return portion(task + actor.stash.account, label) < AWAY


def _result(world: World, actor: Actor, unit_id: bytes) -> Totals:
    is_lie = actor.name in world.liars and portion(unit_id, b"lie") < LIES
    return totals_for(unit_id, unit_of(world, unit_id), is_right=not is_lie)
