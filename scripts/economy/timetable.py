"""What each schedule says to the books, and that every open unit is on one, and every ended one will be dropped.

Always: every cursor that a pallet keeps belongs to a schedule here; `unlisted` names those that do not.
"""

from typing import Any, NamedTuple

from gpu_tasks.market.ages import unit_of
from gpu_tasks.market.capacity.capacity import Capacity
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import Unit, UnitState, is_open
from gpu_tasks.market.leaf_checks.checks import LeafCheck
from gpu_tasks.market.leaf_checks.leaf_checks import LeafChecks
from gpu_tasks.market.leaf_disputes.disputes import DisputeStage, LeafDispute
from gpu_tasks.market.leaf_disputes.leaf_disputes import LeafDisputes
from gpu_tasks.market.training.tasks import Task
from gpu_tasks.market.training.training_market import TrainingMarket
from runtime.frame.runtime import Runtime
from runtime.frame.storage import StorageDoubleMap, StorageMap, StorageValue
from scripts.economy.pairs import BooksBroken, Pair, both_or_none, told


class Listed(NamedTuple):
    """The three items of a schedule, as a pallet declares them."""

    waiting: StorageDoubleMap[Any, Any, bool]
    places: StorageMap[Any, Any]
    cursor: StorageValue[Any]


DRAWS = Listed(InferenceMarket.draws, InferenceMarket.draw_place, InferenceMarket.draw_cursor)
"""By age: its items are not the units themselves."""
CALLS = (
    Listed(InferenceMarket.agenda, InferenceMarket.agenda_place, InferenceMarket.agenda_cursor),
    Listed(InferenceMarket.final_agenda, InferenceMarket.final_place, InferenceMarket.final_cursor),
    DRAWS,
    Listed(InferenceMarket.rising, InferenceMarket.rising_place, InferenceMarket.rising_cursor),
)
"""What calls an open unit."""
EXPIRING = Listed(InferenceMarket.expiring, InferenceMarket.expiring_place, InferenceMarket.expiring_cursor)
COURTS = (
    Listed(Courts.heights, Courts.height_place, Courts.height_cursor),
    Listed(Courts.finals, Courts.final_place, Courts.final_cursor),
)
TASKS = (
    Listed(TrainingMarket.heights, TrainingMarket.height_place, TrainingMarket.height_cursor),
    Listed(TrainingMarket.finals, TrainingMarket.final_place, TrainingMarket.final_cursor),
)
"""What looks at a task, open or ended."""
CLEARING = Listed(TrainingMarket.clearing, TrainingMarket.clearing_place, TrainingMarket.clearing_cursor)
STIRRED = Listed(Devices.stirred, Devices.stirred_place, Devices.stirred_cursor)
RETURNING = Listed(Capacity.returning, Capacity.returning_place, Capacity.returning_cursor)
CHECKS = (
    Listed(LeafChecks.heights, LeafChecks.height_place, LeafChecks.height_cursor),
    Listed(LeafChecks.finals, LeafChecks.final_place, LeafChecks.final_cursor),
)
"""What looks at a check of a batch."""
DISPUTES = (
    Listed(LeafDisputes.heights, LeafDisputes.height_place, LeafDisputes.height_cursor),
    Listed(LeafDisputes.finals, LeafDisputes.final_place, LeafDisputes.final_cursor),
)
"""What looks at a dispute about a batch."""
SCHEDULES = (*CALLS, EXPIRING, *COURTS, *TASKS, *CHECKS, *DISPUTES, CLEARING, STIRRED, RETURNING)


def unlisted(runtime: Runtime) -> list[str]:
    """Cursors of schedules of which the books would know nothing."""
    known = {schedule.cursor.prefix for schedule in SCHEDULES}
    items = [(pallet, name, item) for pallet in runtime.pallets for name, item in runtime.items[pallet].items()]
    return [
        f"{pallet.__name__}.{name}"
        for pallet, name, item in items
        if name.endswith("_cursor") and item.prefix not in known
    ]


class Timetable:
    """Who waits where, according to both lists of each schedule, and who must."""

    def __init__(self) -> None:
        """Begin with nobody."""
        self.waits = Pair("a place, and who waits there")
        self.called = Pair("an open unit that no court has, and what calls it", both_or_none)
        self.drawn = Pair(
            "a unit in the queue that does not sleep, or a place of a race that was declined, and its draw",
            both_or_none,
        )
        self.dropped = Pair("an ended unit, and the block that drops it", both_or_none)
        self.judged = Pair("a case, and what looks at it", both_or_none)
        self.tended = Pair("a task that waits for more than a court, and what looks at it", both_or_none)
        self.checked = Pair("a check of a batch that no court has, and what looks at it", both_or_none)
        self.compared = Pair("a dispute about a batch that no court has, and what looks at it", both_or_none)
        self._at: dict[tuple[bytes, int], int] = {}
        self._cursors: dict[bytes, int] = {}

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """All books of it."""
        units = self.called, self.drawn, self.dropped
        return self.waits, *units, self.judged, self.tended, self.checked, self.compared

    def wait(self, schedule: Listed, keys: tuple[Any, ...], sign: int) -> None:
        """An item waits at a height, or no longer does; BooksBroken behind the cursor."""
        height, item = keys
        name = schedule.cursor.prefix
        if sign > 0 and height <= self._cursors.get(name, 0):
            raise BooksBroken(f"{schedule.waiting.name}, {told(item)}: waits at {height}, which has been done")
        self._at[name, height] = self._at.get((name, height), 0) + sign
        self.waits.count((schedule.places.name, item, height), sign)

    def place(self, schedule: Listed, item: bytes, height: int, sign: int) -> None:
        """An item has a place in a schedule, or no longer."""
        if not height:
            return
        self.waits.claim((schedule.places.name, item, height), sign)
        if schedule is DRAWS:
            self.called.count(unit_of(item), sign)
            self.drawn.count(unit_of(item), sign)
        elif schedule in CALLS:
            self.called.count(item, sign)
        elif schedule is EXPIRING:
            self.dropped.count(item, sign)
        elif schedule in COURTS:
            self.judged.count(item, sign)
        elif schedule in TASKS:
            self.tended.count(item, sign)
        elif schedule in CHECKS:
            self.checked.count(item, sign)
        elif schedule in DISPUTES:
            self.compared.count(item, sign)

    def reach(self, schedule: Listed, height: int, sign: int) -> None:
        """A cursor stands at a height; BooksBroken if it passed over somebody, or went back."""
        name = schedule.cursor.prefix
        if sign < 0:
            return
        before = self._cursors.get(name, 0)
        left = [passed for passed in range(before + 1, height + 1) if self._at.get((name, passed), 0)]
        if left or height < before:
            raise BooksBroken(f"{schedule.cursor.name}: from {before} to {height}, past what waits at {left}")
        self._cursors[name] = height

    def unit(self, unit_id: bytes, unit: Unit, sign: int) -> None:
        """What a unit needs: a call while it is open, a draw while it waits for one, an end of its record."""
        if not is_open(unit):
            if not unit.is_watched:
                self.dropped.claim(unit_id, sign)
            return
        if unit.state is not UnitState.JUDGING:  # then the courts come back to it
            self.called.claim(unit_id, sign)
        if unit.is_refilling or (unit.state is UnitState.QUEUED and not unit.asleep_since):
            self.drawn.claim(unit_id, sign)

    def task(self, task_id: bytes, task: Task, sign: int) -> None:
        """A task needs a look to come, until its record is dropped; while courts have its cases, they come back.

        While they judge a fraud proof the beacon still says whether there is an audit.
        """
        awaits_chance = task.challenge is not None and not task.is_checked
        if not task.cases or awaits_chance:
            self.tended.claim(task_id, sign)

    def check(self, unit: bytes, check: LeafCheck, sign: int) -> None:
        """A check needs a look to come, but while a court has its case."""
        if check.case is None:
            self.checked.claim(unit, sign)

    def dispute(self, unit: bytes, dispute: LeafDispute, sign: int) -> None:
        """A dispute needs a look to come, but while a court has its leaf."""
        if dispute.stage is not DisputeStage.JUDGED or dispute.found is not None:
            self.compared.claim(unit, sign)

    def is_due(self, case_id: bytes, sign: int) -> None:
        """A case waits for a block with room to look at it."""
        self.judged.count(case_id, sign)

    def case(self, case_id: bytes, sign: int) -> None:
        """An open case needs a block that looks at it."""
        self.judged.claim(case_id, sign)
