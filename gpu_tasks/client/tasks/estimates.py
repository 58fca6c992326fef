"""The expected cost of a task by recent clearing prices, and the number of eligible providers that claim to run it.

Invariants:

* A bounded number of records is read, all of one final block.
* A price counts for tasks of the same workload, the same way of paying and an accepted class, scaled to the task's
  size. A price without a rival does not count, because it is its customer's own greatest price.
* The median weighs each price by its work, so many small cheap tasks do not outweigh a large one.
* The expected price is no promise, because bids are sealed.
* Each owner is asked once, in parallel, within the limits of inventories. An owner without a readable answer counts
  neither for nor against the task.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any

from gpu_tasks.client.offers.listing import heard_inventories
from gpu_tasks.client.offers.outlook import grains_of
from gpu_tasks.client.units.costs import expected_check_fees
from gpu_tasks.data import market_reads
from gpu_tasks.data.blob_client import BlobClient
from gpu_tasks.data.inventory import CONTAINER_KIND, ClaimedPolicy, ClaimedPrograms, claim_text, image_mark
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.training import money
from gpu_tasks.market.training.items import items_of
from gpu_tasks.market.training.orders import TaskOrder
from gpu_tasks.market.training.rules import TaskRules
from gpu_tasks.market.training.tasks import Slot, Task
from gpu_tasks.market.training.terms import TaskTerms
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.tasks.container_order import PreparedContainer
from gpu_tasks.tasks.container_request import REQUEST, ContainerNetwork, ContainerRequest, RegistryImage
from gpu_tasks.tasks.order import StoredInput
from gpu_tasks.tasks.plan import PlannedDevice, TaskPlan
from gpu_tasks.tasks.quantities import Rate, TimeSpan
from gpu_tasks.tasks.task_kinds import AskedTask, AskedTraining
from wallet.amounts import SYMBOL, Grains, counted, format_amount
from wallet.client import ChainClient
from wallet.proved.keys import map_keys

MIB = 1 << 20
RUNS_IT = "says that it runs this"
REASONS_SHOWN = 4
"""The most reasons shown for providers that do not run a task."""


@dataclass(frozen=True, slots=True)
class Willingness:
    """The answers of eligible devices' owners about a task."""

    able: int
    """The number of eligible devices; the other fields are about them."""
    willing: int
    unwilling: Mapping[str, int]
    """Counts of devices by their owners' reason against the task."""
    unheard: int
    answers: Mapping[bytes, str]
    """The answers by owner, for people."""

    @property
    def may_bid(self) -> int:
        """The number of devices whose owners run the task, or have not refused it."""
        return self.willing + self.unheard

    def why_too_few(self, slots: int) -> str:
        """Return the reason why too few devices will bid; empty if enough may."""
        if self.able < slots or self.may_bid >= slots:
            return ""
        return f"it takes {counted(slots, 'device')}, and too few run it: of {self.able} eligible devices, {self.said}"

    @property
    def sentence(self) -> str:
        """The eligible devices, and their owners' answers."""
        return f"{self.able} ({self.said})" if self.able else "0"

    @property
    def said(self) -> str:
        """The owners' answers, the willing first."""
        runs_it = counted(self.willing, "says that it runs this", "say that they run this")
        parts = [runs_it] if self.willing or not self.unheard else []
        shown = list(self.unwilling.items())[:REASONS_SHOWN]
        parts += [f"{count} {'does' if count == 1 else 'do'} not: {why}" for why, count in shown]
        more = sum(self.unwilling.values()) - sum(count for _, count in shown)
        parts += [f"{more} do not for other reasons"] if more else []
        parts += [f"{self.unheard} did not answer"] if self.unheard else []
        return "; ".join(parts)

    def facts(self) -> dict[str, Any]:
        """Return the facts for programs."""
        return {
            "say_they_run_it": self.willing,
            "say_they_do_not": [{"devices": count, "why": why} for why, count in self.unwilling.items()],
            "did_not_answer": self.unheard,
        }


async def willingness_of(
    client: ChainClient, asked: AskedTask, rules: TaskRules, plan: TaskPlan, slot_ms: int, block_hash: bytes
) -> Willingness:
    """Ask the owners of all eligible devices."""
    able = [each for each in plan.devices if each.hindrance is None]
    owners = list(dict.fromkeys(each.device.owner for each in able))
    async with BlobClient(private=market_reads.is_development(client)) as blobs:
        heard = await heard_inventories(client, blobs, owners, block_hash)
    reasons = {owner: why_unfit(policy, asked, plan.terms, rules, slot_ms) for owner, policy in heard.policies.items()}
    return willingness(able, reasons, heard.left_out)


def willingness(able: list[PlannedDevice], reasons: Mapping[bytes, str], left_out: Mapping[bytes, str]) -> Willingness:
    """Count eligible devices: `reasons` are empty if the owner runs the task, `left_out` explains missing answers."""
    owners = [each.device.owner for each in able]
    unwilling = Counter(reasons[owner] for owner in owners if reasons.get(owner))
    answers = {owner: f"not known: it {left_out.get(owner, 'did not answer')}" for owner in owners}
    answers |= {owner: reason or RUNS_IT for owner, reason in reasons.items()}
    return Willingness(
        able=len(able),
        willing=sum(reasons.get(owner) == "" for owner in owners),
        unwilling=dict(unwilling.most_common()),
        unheard=sum(owner not in reasons for owner in owners),
        answers=answers,
    )


def why_unfit(policy: ClaimedPolicy, asked: AskedTask, terms: TaskTerms, rules: TaskRules, slot_ms: int) -> str:
    """Return the reason why a provider with this policy would not bid; empty if its policy allows the task."""
    kind = asked.file.task.workload if isinstance(asked, AskedTraining) else CONTAINER_KIND
    if kind not in policy.kinds:
        return f"no policy for {kind}"
    if isinstance(asked, PreparedContainer):
        request = REQUEST.decode(asked.request)
        # A claim of 0 ms must not cause a division by zero.
        rate = Rate(policy.price, TimeSpan(max(1, policy.price_ms), policy.price_blocks))
        price = rate.price_with_fee(terms.blocks_max, slot_ms, rules.settlement_fee)
        dear = f"it asks for {format_amount(price)} {SYMBOL} at least" if price > terms.price_max else ""
        return claim_text(policy.programs.why_not) or _why_no_program(policy.programs, request, slot_ms) or dear
    is_bound = terms.slots > 1 and terms.time_value > 0
    return "no policy for gangs whose blocks have a value" if is_bound and not policy.gangs else ""


def _why_no_program(means: ClaimedPrograms, request: ContainerRequest, slot_ms: int) -> str:
    """Return the reason why a provider does not run this program; empty if it does."""
    limits, keep = request.limits, request.keep_blocks * slot_ms // 1_000
    reasons = (
        (limits.memory_bytes > means.memory_bytes, f"{_size_text(means.memory_bytes)} of memory at most"),
        (limits.workspace_bytes > means.disk_bytes, f"{_size_text(means.disk_bytes)} of disk at most"),
        (limits.cpu_thousandths > means.cpu_thousandths, f"{means.cpu_thousandths / 1_000:g} cores at most"),
        (limits.processes > means.processes, f"{means.processes:,} processes at most"),
        (request.network is ContainerNetwork.OUTBOUND and not means.outbound, "no network for containers"),
        (not _has_image(means, request), "another list of images"),
        (keep > means.keep_seconds, f"{means.keep_seconds:,} s of a kept workspace at most"),
    )
    return next((why for is_so, why in reasons if is_so), "")


def _has_image(means: ClaimedPrograms, request: ContainerRequest) -> bool:
    image = request.image
    digest = image.sha256.hex()
    if isinstance(image, RegistryImage):
        names = (image.repository, f"{image.repository}@sha256:{digest}")
        return any(image_mark(name) in means.images for name in names)
    return means.any_archive or image_mark(f"sha256:{digest}") in means.images


def _size_text(size: int) -> str:
    return f"{size >> 30} GiB" if size >= 1 << 30 else f"{size // MIB} MiB"


TASKS_READ_MAX = 1_000
"""The most records to read. They are in the order of names, not of times, so on a busier chain they are a sample."""
SUGGESTED_TIMES = 2
"""The factor from the median to a suggested greatest price. It leaves room for bids of twice the median."""
UNSEALED = StoredInput(bytes(32), bytes(32), 0)
NOBODY_COMPETES = "the greatest price: no rival can set a lower one"
OF_RECENT = "the median of the recent prices"
OF_NOTHING = "no recent task of this kind and class, so no estimate"


@dataclass(frozen=True, slots=True)
class RecentPrices:
    """The prices of awarded slots of recent tasks, scaled to the size of one task. Amounts are grains."""

    prices: tuple[int, ...] = ()
    """The prices in ascending order."""
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
        """The suggested greatest price, with room for bids like these. One odd price does not move it."""
        return None if self.median is None else SUGGESTED_TIMES * self.median


@dataclass(frozen=True, slots=True)
class TaskEstimate:
    """The cost of a task at the expected price. Amounts are grains, for all of its devices."""

    recent: RecentPrices
    expected: int | None
    """The total cost: price, standby, checks and prepaid amounts, without fees. None: no basis for an estimate."""
    check_fees: int | None
    """The mean cost of the checks at the expected price."""
    check_fees_max: int
    """The most for checks, which the customer locks: two of the whole result of each slot, at the greatest price."""
    comes_from: str

    def facts(self, fees: int = 0) -> dict[str, Any]:
        """Return the figures for people and programs. `fees` are those of sending the task."""
        recent = self.recent
        lowest, highest = (recent.prices[0], recent.prices[-1]) if recent.prices else (None, None)
        return {
            "expected": None if self.expected is None else Grains(self.expected + fees),
            "expected_from": self.comes_from,
            "check_fees": grains_of(self.check_fees),
            "check_fees_max": Grains(self.check_fees_max),
            "recent_prices": len(recent.prices),
            "recent_customers": recent.customers,
            "recent_lowest": grains_of(lowest),
            "recent_median": grains_of(recent.median),
            "recent_highest": grains_of(highest),
            "recent_age_in_blocks": f"{recent.newest} to {recent.oldest}" if recent.prices else None,
            "suggested_max_price": grains_of(recent.suggested),
        }


async def estimate_of(
    client: ChainClient, asked: AskedTask, rules: TaskRules, plan: TaskPlan, slot_ms: int, block_hash: bytes
) -> TaskEstimate:
    """Estimate the task's cost from its plan and from recent prices on the chain."""
    order = asked.order(UNSEALED, rules, slot_ms)
    kinds = {each.device.device: each.device.kind for each in plan.devices}
    recent = recent_prices(order, await recent_tasks(client, block_hash), kinds, await client.height(block_hash))
    return estimate(order, rules, plan, recent)


async def recent_tasks(client: ChainClient, block_hash: bytes) -> list[Task]:
    """Return a bounded number of tasks that the chain still knows."""
    if TrainingMarket not in client.runtime.pallets:
        return []
    known = client.runtime.item(TrainingMarket.tasks)
    keys = await client.raw_keys(known.prefix, at=block_hash, most=TASKS_READ_MAX)
    # Keys come in pages, and the last page may exceed the limit.
    names = [map_keys(known, key)[0] for key in keys[:TASKS_READ_MAX]]
    found = await client.read_many(TrainingMarket.tasks, names, at=block_hash)
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
                size = _relative_size(order, task)
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
    items = items_of(order, 0)
    check_fees = None if price is None else expected_check_fees(rules, price, items) * order.slots
    expected = None
    if price is not None and check_fees is not None:
        standby = money.standby_max(rules, price) if plan.has_standby else 0
        expected = price * order.slots + standby + check_fees + plan.prepaid
    check_fees_max = money.check_fees_max(rules, most, items) * order.slots
    return TaskEstimate(recent, expected, check_fees, check_fees_max, comes_from)


def _is_like(order: TaskOrder, task: Task, slot: Slot, kinds: Mapping[bytes, DeviceClass]) -> bool:
    """Return True if a rival set the price and the order accepts the device's class."""
    kind = kinds.get(slot.device)
    return slot.price < task.terms.price_max and kind is not None and bool(order.classes >> kind & 1)


def _relative_size(order: TaskOrder, task: Task) -> Fraction:
    """Return a task's work as a multiple of the order's: by segments of a trace, or by bought blocks."""
    of, this = (
        (task.order.segments, order.segments)
        if order.segments and task.order.segments
        else (task.order.blocks_max, order.blocks_max)
    )
    return Fraction(of * task.milestones, this * task.order.milestones)
