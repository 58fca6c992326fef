"""What an actor of a recorded chain sees when it chooses its next call: the state under construction, and chance."""

import random
from dataclasses import dataclass

from gpu_tasks.market.capacity.capacity import Capacity
from gpu_tasks.market.courts.cases import CaseStage
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.training.tasks import Task, is_open
from gpu_tasks.market.training.training_market import TrainingMarket
from runtime.encoding.types import GRAINS_PER_OGPU
from runtime.frame.runtime import Bound
from runtime.pallets.beacon import Beacon
from runtime.pallets.system import System
from simulation.replay.cast import ACTORS, VALIDATORS, Actor

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
