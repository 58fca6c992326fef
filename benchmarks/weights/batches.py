"""Batches of 4,096 requests on the world, raced by eight who answer as they are told."""

from collections.abc import Sequence
from dataclasses import replace

from benchmarks.weights.actors import CUSTOMER, RACED, Actor
from benchmarks.weights.races import DRAW_BLOCKS, Races, attach, salt_of
from benchmarks.weights.world import World, made
from gpu_tasks.batches.leaves import Leaf
from gpu_tasks.batches.requests import REQUESTS_MAX
from gpu_tasks.batches.sum_tree import batch_root, totals_of
from gpu_tasks.market.attestations.kinds import order_key
from gpu_tasks.market.attestations.statement import SignedAttestation, signing_payload
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import RACERS_MAX, UnitState, result_commitment, unit_id_of
from runtime.cryptography.hashing import blake2_256
from runtime.frame.call import Call

BLOCKS_BEFORE = 80
Leaves = tuple[Leaf, ...]
LEAVES: Leaves = tuple(Leaf(0, 1, blake2_256(index.to_bytes(4, "little"))) for index in range(REQUESTS_MAX))


def raced(world: World, races: Races, answers: Sequence[Leaves] = (LEAVES,)) -> bytes:
    """A batch whose racers have answered, in the order of their places and over again; its unit."""
    terms = (replace(races.terms(), requests=REQUESTS_MAX, tokens_max=REQUESTS_MAX),)
    world.block(made(CUSTOMER.stash, InferenceMarket.post(service=RACED, units=terms)))
    races.posted += 1
    unit = unit_id_of(world.genesis, CUSTOMER.stash, races.posted - 1)
    world.blocks(DRAW_BLOCKS + 1)
    if world.unit(unit).state is not UnitState.RACING:
        raise RuntimeError("the batch was not drawn")
    said = [(actor, answers[place % len(answers)]) for place, actor in enumerate(races.racers(unit)[:RACERS_MAX])]
    world.block(*(made(actor.provider, _commit(world, actor, unit, leaves)) for actor, leaves in said))
    world.blocks(2)
    world.block(attach(sorted((_attested(world, races, actor, unit, leaves) for actor, leaves in said), key=order_key)))
    return unit


def _commit(world: World, actor: Actor, unit: bytes, leaves: Leaves) -> Call:
    attempt, root = world.unit(unit).attempt, batch_root(totals_of(leaves))
    sealed = result_commitment(world.genesis, unit, attempt, actor.stash, root, salt_of(actor, unit))
    return InferenceMarket.commit_result(unit=unit, attempt=attempt, commitment=sealed)


def _attested(world: World, races: Races, actor: Actor, unit: bytes, leaves: Leaves) -> SignedAttestation:
    totals = totals_of(leaves)
    statement = races.attestation(actor, unit).statement
    root = batch_root(totals)
    statement = replace(statement, totals=totals, output_root=root, proof_hash=root)
    return SignedAttestation(statement, actor.sign("provider", signing_payload(world.genesis, statement)))
