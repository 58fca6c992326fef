"""Who acts on a random chain, how they are, and what they see of it when they choose their next call.

The actors are the accounts of the development phrase, with keys of both kinds. Their habits are the same for the same
unit, case or task.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from gpu_tasks.market.attestations.kinds import AnyAttestation
from gpu_tasks.market.capacity.capacity import Capacity
from gpu_tasks.market.courts.cases import CaseStage
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.training.tasks import Task, is_open
from gpu_tasks.market.training.training_market import TrainingMarket
from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.signatures import Scheme
from runtime.encoding.types import GRAINS_PER_OGPU
from runtime.frame.call import Call
from runtime.frame.runtime import Bound
from runtime.pallets.beacon import Beacon
from runtime.pallets.system import System
from wallet.keypair import Keypair
from wallet.suri import keypair_from_suri

VALIDATORS = ("Alice", "Bob", "Charlie", "Dave")
OUTSIDERS = ("Eve", "Ferdie")
NODES = tuple(f"Node{number}" for number in range(7, 15))
"""Who sits besides on a chain of more validators, by the names that presets give; elsewhere they come as walkers do."""
WALKERS = tuple(f"Walker{number}" for number in range(4))


@dataclass(frozen=True)
class Actor:
    """One of them: `//name`, and the ed25519 keys that a provider or validator has besides."""

    name: str
    scheme: Scheme = Scheme.SR25519

    @cached_property
    def stash(self) -> Keypair:
        """The account itself."""
        return keypair_from_suri(f"//{self.name}", self.scheme)

    @cached_property
    def provider(self) -> Keypair:
        """The key of its provider daemon."""
        return keypair_from_suri(f"//{self.name}//provider", Scheme.ED25519)

    @cached_property
    def session(self) -> Keypair:
        """The key that seals blocks."""
        return keypair_from_suri(f"//{self.name}//session", Scheme.ED25519)

    @cached_property
    def vrf(self) -> bytes:
        """The public key of its lots."""
        return keypair_from_suri(f"//{self.name}//vrf", Scheme.ED25519).public_key


ACTORS: Sequence[Actor] = (
    *(Actor(name) for name in VALIDATORS + OUTSIDERS + NODES),
    *(Actor(name, Scheme(place % 2)) for place, name in enumerate(WALKERS)),
)
BY_STASH = {actor.stash.account: actor for actor in ACTORS}


INPUT_BAD = 0.05
"""Of units and tasks."""


@dataclass(frozen=True)
class Deed:
    """What somebody wants to do in this block: a call by one of its keys, or an attestation for the author."""

    keys: Keypair
    call: Call | None = None
    attestation: AnyAttestation | None = None


def salt_of(actor: Actor, case: bytes) -> bytes:
    """An actor's own chance for what it seals."""
    return blake2_256(actor.name.encode() + case)


def portion(case: bytes, label: bytes) -> float:
    """A number from 0 to 1 that belongs to the unit, case or task."""
    return random.Random(label + case).random()


OGPU = GRAINS_PER_OGPU
AMOUNTS = (0, 1, 99_999, 100_000, OGPU // 10, OGPU, 10 * OGPU, 50 * OGPU, 3_000 * OGPU, 10**15, 2**64, 2**128 - 1)


@dataclass(frozen=True)
class World:
    """The chain as it stands, and a seeded source of chance."""

    bound: Bound
    chance: random.Random
    genesis_hash: bytes
    liars: tuple[str, ...] = ("Charlie",)
    """Who gives wrong results now and then."""

    @property
    def height(self) -> int:
        """The height of the block under construction."""
        return self.bound[System].number.get()

    def amount(self) -> int:
        """Grains: nothing, small, ordinary, far too many."""
        return self.chance.choice(AMOUNTS)

    def account(self) -> bytes:
        """Mostly somebody known."""
        return self.chance.choice(ACTORS).stash.account if self.chance.random() < 0.9 else self.chance.randbytes(32)

    def validator(self) -> bytes:
        """Mostly a validator, else anybody."""
        names = [actor for actor in ACTORS if actor.name in (*VALIDATORS, "Eve")]
        return self.chance.choice(names).stash.account if self.chance.random() < 0.8 else self.account()

    def device(self, owner: Actor) -> bytes:
        """A device, this owner's where it has one; now and then one that nobody has."""
        devices = [(key, device.owner) for key, device in self.bound[Devices].devices.items() if device is not None]
        mine = [key for key, stash in devices if stash == owner.stash.account]
        known = mine or [key for key, _ in devices]
        return self.chance.choice(known) if known and self.chance.random() < 0.9 else self.chance.randbytes(32)

    def free_devices(self, stash: bytes) -> list[bytes]:
        """Of one owner, those that may be drawn or bid with."""
        devices, capacity = self.bound[Devices], self.bound[Capacity]
        mine = ((key, devices.devices[key]) for key, _ in list(devices.devices_of.under(stash)))
        return [key for key, device in mine if device is not None and capacity.can_work(key, device)]

    def service(self) -> int:
        """Mostly one that exists."""
        return self.chance.randrange(self.bound[InferenceMarket].next_service.get() + 1)

    def unit(self, customer: bytes | None = None) -> bytes:
        """An open or ended unit, of this customer where there is one, or none at all."""
        units = [
            key
            for key, record in self.bound[InferenceMarket].units.items()
            if record is not None and customer in (None, record.customer)
        ]
        return self.chance.choice(units[-40:]) if units and self.chance.random() < 0.9 else self.chance.randbytes(32)

    def open_tasks(self) -> list[tuple[bytes, Task]]:
        """Tasks that have not ended."""
        tasks = self.bound[TrainingMarket].tasks.items()
        return [(key, task) for key, task in tasks if task is not None and is_open(task)]

    def task(self, customer: bytes | None = None) -> bytes:
        """An open task, of this customer where there is one, or none at all."""
        tasks = [key for key, task in self.open_tasks() if customer in (None, task.customer)]
        return self.chance.choice(tasks) if tasks and self.chance.random() < 0.9 else self.chance.randbytes(32)

    def appealable(self) -> list[bytes]:
        """Cases whose verdict stands if nobody appeals."""
        cases = self.bound[Courts].cases.items()
        return [case_id for case_id, case in cases if case is not None and case.stage is CaseStage.APPEALABLE]

    def final_height(self) -> int:
        """The newest final height that the chain knows of."""
        return self.bound[Beacon].final_height()


Value = Callable[[World, Actor], Any]
"""An argument of a random call: it may look at the chain, and at who calls."""


def always(value: Any) -> Value:
    """The same in every call."""
    return lambda _world, _who: value


def one_of(*values: Any) -> Value:
    """One of these, by chance."""
    return lambda world, _: world.chance.choice(values)
