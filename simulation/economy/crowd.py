"""What the crowd sees of the chain when it chooses its next call: as a recorded chain's actors, from a list kept aside.

Always: the list is what the last block left; a step may find that something has ended since, as it does on a chain.
"""

from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from gpu_tasks.market.courts.cases import CaseStage, CourtCase
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.training.tasks import Task, is_open
from gpu_tasks.market.training.training_market import TrainingMarket
from runtime.frame.runtime import Runtime
from runtime.state.overlay import Changes
from runtime.state.written_keys import ITEM_PREFIX_BYTES
from simulation.books import keys_of
from simulation.replay.cast import Actor
from simulation.replay.world import World

RECENT_UNITS = 60
LOOKED_THROUGH = 300


@dataclass
class Directory:
    """Units with their customers, the newest last, devices with their owners, and cases that wait for an appeal."""

    runtime: Runtime
    units: dict[bytes, bytes] = field(default_factory=dict)
    devices: dict[bytes, bytes] = field(default_factory=dict)
    decided: dict[bytes, None] = field(default_factory=dict)
    tasks: dict[bytes, bytes] = field(default_factory=dict)
    """Those that have not ended, with their customers."""

    def read(self, changes: Changes) -> None:
        """Note what a block, or block 0, wrote."""
        listed = (
            (self.runtime.item(InferenceMarket.units), self.units, "customer"),
            (self.runtime.item(Devices.devices), self.devices, "owner"),
        )
        cases, tasks = self.runtime.item(Courts.cases), self.runtime.item(TrainingMarket.tasks)
        for key, raw in changes.items():
            for item, known, whose in listed:
                if key[:ITEM_PREFIX_BYTES] == item.prefix:
                    self._note(known, keys_of(item, key)[0], raw, item, whose)
            if key[:ITEM_PREFIX_BYTES] == cases.prefix:
                self._note_case(keys_of(cases, key)[0], None if raw is None else cases.decode(raw))
            if key[:ITEM_PREFIX_BYTES] == tasks.prefix:
                self._note_task(keys_of(tasks, key)[0], None if raw is None else tasks.decode(raw))

    def _note(self, known: dict[bytes, bytes], name: bytes, raw: bytes | None, item: Any, whose: str) -> None:
        if raw is None:
            known.pop(name, None)
        elif name not in known:
            known[name] = getattr(item.decode(raw), whose)

    def _note_case(self, name: bytes, case: CourtCase | None) -> None:
        if case is not None and case.stage is CaseStage.APPEALABLE:
            self.decided[name] = None
        else:
            self.decided.pop(name, None)

    def _note_task(self, name: bytes, task: Task | None) -> None:
        if task is not None and is_open(task):
            self.tasks[name] = task.customer
        else:
            self.tasks.pop(name, None)


@dataclass(frozen=True)
class Crowd(World):
    """The chain as a random caller of this season sees it."""

    directory: Directory = field(kw_only=True)

    def device(self, owner: Actor) -> bytes:
        """A device, this owner's where it has one; now and then anybody's, or one that nobody has."""
        devices = self.directory.devices
        mine = [key for key, stash in devices.items() if stash == owner.stash.account]
        known = mine if mine and self.chance.random() < 0.9 else list(devices)
        return self.chance.choice(known) if known and self.chance.random() < 0.95 else self.chance.randbytes(32)

    def unit(self, customer: bytes | None = None) -> bytes:
        """A recent unit, open or ended, of this customer where there is one; now and then none at all."""
        newest = islice(reversed(self.directory.units.items()), LOOKED_THROUGH)
        units = [unit_id for unit_id, whose in newest if customer in (None, whose)][:RECENT_UNITS]
        return self.chance.choice(units) if units and self.chance.random() < 0.9 else self.chance.randbytes(32)

    def open_tasks(self) -> list[tuple[bytes, Task]]:
        """Tasks that had not ended in the last block, and have not since."""
        found = ((task_id, self.bound[TrainingMarket].tasks[task_id]) for task_id in self.directory.tasks)
        return [(task_id, task) for task_id, task in found if task is not None and is_open(task)]

    def appealable(self) -> list[bytes]:
        """Cases whose verdict stands if nobody appeals, as far as the hooks of this block have not ended them."""
        return [case_id for case_id in self.directory.decided if case_id in self.bound[Courts].cases]
