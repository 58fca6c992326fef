"""Clearing prices of recent tasks of a kind, and the expected cost of a task.

Always: so many records at most are read, all of one final block; a price counts for a task of the same workload, the
same way of paying and a class that the task takes, scaled to its size. A price that no rival has set does not count:
it is its customer's own greatest price. The median weighs each price by its work: many small tasks, bought for little,
do not outweigh a large one. The expected price is no promise: bids are sealed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any

from gpu_tasks.client.funds import grains_of
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.training import money
from gpu_tasks.market.training.orders import TaskOrder
from gpu_tasks.market.training.rules import TaskRules
from gpu_tasks.market.training.tasks import Slot, Task
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.tasks.order import StoredInput
from gpu_tasks.tasks.plan import TaskPlan
from gpu_tasks.tasks.task_kinds import AskedTask
from wallet.amounts import Grains
from wallet.client import ChainClient
from wallet.proved.keys import map_keys

TASKS_READ_MAX = 1_000
"""The most records to read. Their order is by name and not by time, so they are a sample of a busier chain."""
SUGGESTED_TIMES = 2
"""A greatest price leaves room for bids of twice the median, and for the highest that was paid."""
UNSEALED = StoredInput(bytes(32), bytes(32), 0)
NOBODY_COMPETES = "the greatest price: no rival can set a lower one"
OF_RECENT = "the median of the recent prices"
OF_NOTHING = "no recent task of this kind and class, so no estimate"


@dataclass(frozen=True, slots=True)
class RecentPrices:
    """The prices of awarded slots of recent tasks, scaled to the size of one task. Amounts are grains."""

    prices: tuple[int, ...] = ()
    """Ascending."""
    sizes: tuple[Fraction, ...] = ()
    """The work behind each price, as a multiple of the task's."""
    customers: int = 0
    """The customers of these tasks."""
    oldest: int = 0
    """Blocks since the submission of the oldest, and of the newest."""
    newest: int = 0

    @property
    def median(self) -> int | None:
        """The middle price by work, the lower one of two."""
        half, done = sum(self.sizes) / 2, Fraction()
        for price, size in zip(self.prices, self.sizes, strict=True):
            done += size
            if done >= half:
                return price
        return None

    @property
    def suggested(self) -> int | None:
        """A greatest price with room for bids like these; one odd price does not move it."""
        return None if self.median is None else SUGGESTED_TIMES * self.median


@dataclass(frozen=True, slots=True)
class TaskEstimate:
    """The cost of a task at the expected price. Amounts are grains, for all of its devices."""

    recent: RecentPrices
    expected: int | None
    """Total cost: price, standby, premium and prepaid amounts, without fees. None: no basis for an estimate."""
    premium: int | None
    premium_most: int
    """At the greatest price."""
    comes_from: str

    def facts(self, fees: int = 0) -> dict[str, Any]:
        """The figures for people and programs; `fees` are those of sending the task."""
        recent = self.recent
        lowest, highest = (recent.prices[0], recent.prices[-1]) if recent.prices else (None, None)
        return {
            "expected": None if self.expected is None else Grains(self.expected + fees),
            "expected_from": self.comes_from,
            "premium": grains_of(self.premium),
            "premium_most": Grains(self.premium_most),
            "recent_prices": len(recent.prices),
            "recent_customers": recent.customers,
            "recent_lowest": grains_of(lowest),
            "recent_median": grains_of(recent.median),
            "recent_highest": grains_of(highest),
            "recent_age_in_blocks": f"{recent.newest} to {recent.oldest}" if recent.prices else None,
            "suggested_max_price": grains_of(recent.suggested),
        }


async def estimate_of(
    client: ChainClient, asked: AskedTask, rules: TaskRules, plan: TaskPlan, slot_ms: int, at: bytes
) -> TaskEstimate:
    """Estimate the task's cost from its plan and from recent prices on the chain."""
    order = asked.order(UNSEALED, rules, slot_ms)
    kinds = {each.device.device: each.device.kind for each in plan.devices}
    recent = recent_prices(order, await recent_tasks(client, at), kinds, await client.height(at))
    return estimate(order, rules, plan, recent)


async def recent_tasks(client: ChainClient, at: bytes) -> list[Task]:
    """Return tasks that the chain still knows, a bounded number."""
    if TrainingMarket not in client.runtime.pallets:
        return []
    known = client.runtime.item(TrainingMarket.tasks)
    keys = await client.raw_keys(known.prefix, at=at, most=TASKS_READ_MAX)
    names = [map_keys(known, key)[0] for key in keys[:TASKS_READ_MAX]]
    found = await client.read_many(TrainingMarket.tasks, names, at=at)
    return [task for task in found if task is not None]


def recent_prices(
    order: TaskOrder, tasks: Iterable[Task], kinds: Mapping[bytes, DeviceClass], height: int
) -> RecentPrices:
    """Return the prices among these tasks that compare with a task of this order; `kinds` are devices' classes."""
    found, customers, ages = list[tuple[int, Fraction]](), set(), []
    for task in tasks:
        if (task.order.workload, task.order.checked_by) != (order.workload, order.checked_by):
            continue
        for slot in task.slots:
            if _is_like(order, task, slot, kinds):
                size = _size(order, task)
                found.append((ceil(slot.price / size), size))
                customers.add(task.customer)
                ages.append(height - task.submitted_at)
    if not found:
        return RecentPrices()
    prices, sizes = zip(*sorted(found), strict=True)
    return RecentPrices(prices, sizes, len(customers), max(ages), min(ages))


def estimate(order: TaskOrder, rules: TaskRules, plan: TaskPlan, recent: RecentPrices) -> TaskEstimate:
    """Estimate a task's cost from its plan and recent prices."""
    most = order.price_max
    median = recent.median
    price, comes_from = (None, OF_NOTHING) if median is None else (min(median, most), OF_RECENT)
    if plan.is_served and not plan.has_rival:
        price, comes_from = most, NOBODY_COMPETES
    premium = None if price is None else money.premium(rules, price) * order.slots
    expected = None
    if price is not None and premium is not None:
        standby = money.standby_max(rules, price) if plan.has_standby else 0
        expected = price * order.slots + standby + premium + plan.prepaid
    return TaskEstimate(recent, expected, premium, money.premium(rules, most) * order.slots, comes_from)


def _is_like(order: TaskOrder, task: Task, slot: Slot, kinds: Mapping[bytes, DeviceClass]) -> bool:
    """Tell whether a rival set the price, and the device is of a class that the order takes."""
    kind = kinds.get(slot.device)
    return slot.price < task.terms.price_max and kind is not None and bool(order.classes >> kind & 1)


def _size(order: TaskOrder, task: Task) -> Fraction:
    """Return a task's work as a multiple of the order's: by segments of a trace, or by bought blocks."""
    of, this = (
        (task.order.segments, order.segments)
        if order.segments and task.order.segments
        else (task.order.blocks_max, order.blocks_max)
    )
    return Fraction(of * task.milestones, this * task.order.milestones)
