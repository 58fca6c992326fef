"""The accounts that act on a random chain, their habits, and their view of the chain when they choose a call.

The actors are the accounts of the development phrase, with keys of both kinds. Their habits depend only on the unit,
case or task.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from gpu_tasks.market.attestations.kinds import AnyAttestation
from gpu_tasks.market.capacity.capacity import Capacity
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.sessions.sessions import Sessions
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
"""Further validators of a larger chain, by the presets' names.

On a smaller chain they begin without money, like `WALKERS`.
"""
# Accounts without money or keys in the presets, with both kinds of signature.
WALKERS = tuple(f"Walker{number}" for number in range(4))


@dataclass(frozen=True)
class Actor:
    """An actor: the account `//name`, and its ed25519 keys as a provider or validator."""

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
        """The public VRF key."""
        return keypair_from_suri(f"//{self.name}//vrf", Scheme.ED25519).public_key


ACTORS: Sequence[Actor] = (
    *(Actor(name) for name in VALIDATORS + OUTSIDERS + NODES),
    *(Actor(name, Scheme(place % 2)) for place, name in enumerate(WALKERS)),
)
BY_STASH = {actor.stash.account: actor for actor in ACTORS}


BESIDE_UNITS = 0.25
"""The share of looks at claims of tasks, proofs and sessions, if there are any."""
INPUT_BAD = 0.05
"""The share of units and tasks with a bad input."""


@dataclass(frozen=True)
class Deed:
    """An action in this block: a call with one of its keys, or an attestation for the author."""

    keys: Keypair
    call: Call | None = None
    attestation: AnyAttestation | None = None


def salt_of(actor: Actor, case: bytes) -> bytes:
    """Return an actor's salt for its commitments about a case."""
    return blake2_256(actor.name.encode() + case)


def portion(case: bytes, label: bytes) -> float:
    """Return a number from 0 to 1 that depends only on the unit, case or task."""
    return random.Random(label + case).random()


OGPU = GRAINS_PER_OGPU
AMOUNTS = (0, 1, 99_999, 100_000, OGPU // 10, OGPU, 10 * OGPU, 50 * OGPU, 3_000 * OGPU, 10**15, 2**64, 2**128 - 1)


@dataclass(frozen=True)
class World:
    """The newest state of the chain, and a seeded random source."""

    bound: Bound
    chance: random.Random
    genesis_hash: bytes
    liars: tuple[str, ...] = ("Charlie",)
    """The names that sometimes return wrong results."""
    has_many_sessions: bool = False
    """True if customers open one session after another."""

    @property
    def height(self) -> int:
        """The height of the block under construction."""
        return self.bound[System].number.get()

    def amount(self) -> int:
        """Return an amount of grains: zero, small, ordinary, or far too large."""
        return self.chance.choice(AMOUNTS)

    def account(self) -> bytes:
        """Return mostly a known account."""
        return self.chance.choice(ACTORS).stash.account if self.chance.random() < 0.9 else self.chance.randbytes(32)

    def validator(self) -> bytes:
        """Return mostly a validator, else any account."""
        names = [actor for actor in ACTORS if actor.name in (*VALIDATORS, "Eve")]
        return self.chance.choice(names).stash.account if self.chance.random() < 0.8 else self.account()

    def device(self, owner: Actor) -> bytes:
        """Return a device, the owner's if it has one, sometimes an unknown one."""
        devices = [(key, device.owner) for key, device in self.bound[Devices].devices.items() if device is not None]
        mine = [key for key, stash in devices if stash == owner.stash.account]
        known = mine or [key for key, _ in devices]
        return self.chance.choice(known) if known and self.chance.random() < 0.9 else self.chance.randbytes(32)

    def free_devices(self, stash: bytes) -> list[bytes]:
        """Return the devices of an owner that it may bid with."""
        devices, capacity = self.bound[Devices], self.bound[Capacity]
        mine = ((key, devices.devices[key]) for key, _ in list(devices.devices_of.under(stash)))
        return [key for key, device in mine if device is not None and capacity.is_free(key, device)]

    def service(self) -> int:
        """Return mostly an existing service."""
        return self.chance.randrange(self.bound[InferenceMarket].next_service.get() + 1)

    def unit(self, customer: bytes | None = None) -> bytes:
        """Return an open or ended unit, of this customer if it has one, or an unknown id."""
        units = [
            key
            for key, record in self.bound[InferenceMarket].units.items()
            if record is not None and customer in (None, record.customer)
        ]
        return self.chance.choice(units[-40:]) if units and self.chance.random() < 0.9 else self.chance.randbytes(32)

    def claim(self) -> bytes:
        """Return an open claim of a task, a proof or a session, or a unit, which may have one, or an unknown id."""
        tasks, proofs = self.bound[TrainingMarket].task_of_claim, self.bound[Capacity].open_proofs
        others = sorted((*tasks.keys(), *proofs.keys(), *self.bound[Sessions].period_claims.keys()))
        return self.chance.choice(others) if others and self.chance.random() < BESIDE_UNITS else self.unit()

    def open_tasks(self) -> list[tuple[bytes, Task]]:
        """Return the open tasks."""
        tasks = self.bound[TrainingMarket].tasks.items()
        return [(key, task) for key, task in tasks if task is not None and is_open(task)]

    def task(self, customer: bytes | None = None) -> bytes:
        """Return an open task, of this customer if it has one, or an unknown id."""
        tasks = [key for key, task in self.open_tasks() if customer in (None, task.customer)]
        return self.chance.choice(tasks) if tasks and self.chance.random() < 0.9 else self.chance.randbytes(32)

    def final_height(self) -> int:
        """Return the newest final height that the chain has recorded."""
        return self.bound[Beacon].final_height()


Value = Callable[[World, Actor], Any]
"""A random argument of a call. It may depend on the chain and on the caller."""


def always(value: Any) -> Value:
    """Return an argument that is the same in every call."""
    return lambda _world, _who: value


def one_of(*values: Any) -> Value:
    """Return an argument that is drawn from these values."""
    return lambda world, _: world.chance.choice(values)
