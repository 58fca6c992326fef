"""Units on the world's chain: posted, drawn, raced by eight and checked, with the steps of real providers."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from benchmarks.weights.actors import CUSTOMER, PRICE_MAX, RACED, Actor
from benchmarks.weights.findings import Findings
from benchmarks.weights.world import Step, World
from gpu_tasks.batches.leaves import Leaf
from gpu_tasks.batches.requests import REQUESTS_MAX
from gpu_tasks.batches.sum_tree import Totals, batch_root, totals_of
from gpu_tasks.market import rounds
from gpu_tasks.market.attestations.attestations import Attestations
from gpu_tasks.market.attestations.kinds import order_key
from gpu_tasks.market.attestations.statement import SignedAttestation
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import RACERS_MAX, UnitState, UnitTerms, unit_id_of
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.types import Unsigned
from runtime.frame.call import Call
from runtime.pallets.beacon import Beacon
from simulation.chains.market_chain import attestation, commit_call, signed

TOKENS = 1_000
"""The tokens that a unit permits. Its price is the price per thousand."""


def answer(top: bytes) -> Totals:
    """Return the totals of an invented answer."""
    return Totals(1, 0, TOKENS, top)


RIGHT = b"R" * 32
"""The top hash of the right answer's tree."""
ROUNDS = 5
DRAW_BLOCKS = 2
"""Blocks between a post and its draw."""


class Races:
    """A driver of units: it posts them and makes their steps."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.posted = 0

    def terms(self, racers: int = RACERS_MAX, price: int = PRICE_MAX) -> UnitTerms:
        """Return the customer's terms. The default price is the highest one."""
        return UnitTerms(price, racers, b"i" * 32, b"c" * 32, self.world.now()[Beacon].final_height(), TOKENS)

    def post(self, service: int, count: int, racers: int = RACERS_MAX, price: int = PRICE_MAX) -> list[bytes]:
        """Make a block that posts `count` equal units. Return their ids."""
        terms = (self.terms(racers, price),) * count
        self.world.block(signed(CUSTOMER.stash, InferenceMarket.post(service=service, units=terms)))
        self.posted += count
        numbers = range(self.posted - count, self.posted)
        return [unit_id_of(self.world.genesis, CUSTOMER.stash, number) for number in numbers]

    def drawn(self, service: int, count: int, racers: int = RACERS_MAX) -> list[bytes]:
        """Post units, and make blocks until they race. Return their ids."""
        units = self.post(service, count, racers)
        self.world.blocks(DRAW_BLOCKS + 1)
        waiting = [unit for unit in units if self.world.unit(unit).state is not UnitState.RACING]
        if waiting:
            raise RuntimeError(f"{len(waiting)} of {count} units were not drawn")
        return units

    def racers(self, unit_id: bytes) -> list[Actor]:
        """Return a unit's racers in the order of the draw."""
        return [self.world.by_stash[racer.owner] for racer in self.world.unit(unit_id).racers]

    def commit(self, actor: Actor, unit_id: bytes, top: bytes = RIGHT) -> Call:
        """Return a racer's commitment to an output."""
        return commit_call(self.world.genesis, actor, unit_id, self.world.unit(unit_id), batch_root(answer(top)))

    def decline(self, unit_id: bytes) -> Step:
        """Return a step: the last racer of a unit declines."""
        last = self.racers(unit_id)[-1]
        return signed(last.provider, InferenceMarket.decline(unit=unit_id, attempt=self.world.unit(unit_id).attempt))

    def commits(self, units: Iterable[bytes], *, but_last: bool = False, liars: int = 0) -> list[Step]:
        """Return steps in which all racers commit, or all but the last.

        The last `liars` ones commit to a wrong output.
        """
        steps = []
        for unit_id in units:
            racers = self.racers(unit_id)
            for place, actor in enumerate(racers[:-1] if but_last else racers):
                top = bytes([place]) * 32 if place >= len(racers) - liars else RIGHT
                steps.append(signed(actor.provider, self.commit(actor, unit_id, top)))
        return steps

    def attestation(self, actor: Actor, unit_id: bytes, totals: Totals | None = None) -> SignedAttestation:
        """Return a racer's statement of these totals, as a block's author attaches it.

        The default totals are the right ones.
        """
        unit, said = self.world.unit(unit_id), totals or answer(RIGHT)
        return attestation(actor, unit_id, unit, batch_root(said), genesis=self.world.genesis, totals=said)

    def reveals(self, units: Iterable[bytes], first: int, until: int, liars: int = 0) -> list[SignedAttestation]:
        """Return the attestations of the racers at places `first` to `until`, in a block's order."""
        found = []
        for unit_id in units:
            racers = self.racers(unit_id)
            for place, actor in list(enumerate(racers))[first:until]:
                top = bytes([place]) * 32 if place >= len(racers) - liars else RIGHT
                found.append(self.attestation(actor, unit_id, answer(top)))
        return sorted(found, key=order_key)

    def reveal_deadline(self, unit_id: bytes) -> int:
        """Return the last block in which a racer may reveal. The next block's hook settles the race."""
        unit, market = self.world.unit(unit_id), self.world.now()[InferenceMarket]
        deadline = rounds.reveal_deadline(unit.round, market.windows_of(unit)) if unit.round else None
        if deadline is None:
            raise RuntimeError("no racer may open yet")
        return deadline

    def abandon(self, units: Sequence[bytes]) -> None:
        """Let racing units run to their ends, and cancel the others."""
        states = {unit_id: self.world.unit(unit_id) for unit_id in units}
        raced = [unit_id for unit_id, unit in states.items() if unit.state is UnitState.RACING]
        waiting = [unit_id for unit_id, unit in states.items() if unit.state is UnitState.QUEUED]
        cancels = [signed(CUSTOMER.stash, InferenceMarket.cancel(unit=unit_id)) for unit_id in waiting]
        self.world.block(*cancels, *self.commits(raced))
        if raced:
            self.world.blocks(2)
            self.world.block(attach(self.reveals(raced, 0, RACERS_MAX)))

    def wake_devices(self) -> None:
        """Resume every paused device."""
        now = self.world.now()[Devices]
        steps = []
        for actor in self.world.validators:
            device = now.devices[actor.device()]
            if device is not None and device.is_paused:
                steps.append(signed(actor.provider, Devices.resume(device=actor.device())))
        self.world.block(*steps)


@dataclass
class MarketCases:
    """Cases about units, with their findings."""

    world: World
    found: Findings
    races: Races

    def __post_init__(self) -> None:
        """Prepare a kind of cases. The base has nothing to prepare."""

    def least(self, work: Callable[[], object]) -> float:
        """Return the reference nanoseconds of pure work, the minimum of some rounds."""

        def once() -> float:
            started = time.process_time()
            work()
            return time.process_time() - started

        return self.found.meter.scale.least(ROUNDS, once)


def attach(attestations: Sequence[SignedAttestation]) -> Step:
    """Return a step: the inherent with these attestations."""
    return signed(Unsigned(), Attestations.attach(attestations=tuple(attestations)))


BLOCKS_BEFORE = 80
Leaves = tuple[Leaf, ...]
LEAVES: Leaves = tuple(Leaf(0, 1, blake2_256(index.to_bytes(4, "little"))) for index in range(REQUESTS_MAX))


def raced(world: World, races: Races, answers: Sequence[Leaves] = (LEAVES,)) -> bytes:
    """Return the id of a batch whose racers have answered. The racers take the answers in turn, by place."""
    terms = (replace(races.terms(), requests=REQUESTS_MAX, tokens_max=REQUESTS_MAX),)
    world.block(signed(CUSTOMER.stash, InferenceMarket.post(service=RACED, units=terms)))
    races.posted += 1
    unit = unit_id_of(world.genesis, CUSTOMER.stash, races.posted - 1)
    world.blocks(DRAW_BLOCKS + 1)
    if world.unit(unit).state is not UnitState.RACING:
        raise RuntimeError("the batch was not drawn")
    said = [(actor, answers[place % len(answers)]) for place, actor in enumerate(races.racers(unit)[:RACERS_MAX])]
    world.block(
        *(
            signed(
                actor.provider, commit_call(world.genesis, actor, unit, world.unit(unit), batch_root(totals_of(leaves)))
            )
            for actor, leaves in said
        )
    )
    world.blocks(2)
    world.block(
        attach(sorted((races.attestation(actor, unit, totals_of(leaves)) for actor, leaves in said), key=order_key))
    )
    return unit
