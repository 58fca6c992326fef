"""What recent tasks cleared at, and what a task is expected to cost by that: as a chain says it, and as commands do."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpu_tasks.client.tasks import estimates
from gpu_tasks.client.tasks.estimates import NOBODY_COMPETES, OF_NOTHING, OF_RECENT, estimate, recent_prices
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.training import money
from gpu_tasks.market.training.orders import TaskOrder
from gpu_tasks.market.training.rules import DEFAULT_RULES
from gpu_tasks.market.training.tasks import Task
from gpu_tasks.tasks.plan import TaskPlan
from planted_state import chain_with
from planted_tasks import PlantedTask
from runtime.pallets.system import System
from simulation.chains.market_chain import OGPU, named_keys
from task_chain import TaskChain, an_order, awarded, time_order
from task_customer import ogpu
from wallet.amounts import Grains
from wallet_runner import answer

EXAMPLES = Path(__file__).parents[4] / "examples"
MINIMAL = str(EXAMPLES / "minimal.yaml")
KINDS = {keys.device: DeviceClass.CPU for keys in named_keys(7)}
HEIGHT = 1_000
FULL = 10**9


def a_task(price: int = 7 * OGPU, **changed: Any) -> Task:
    """A task with a slot of Alice's at a price that Bob has set."""
    chain, _ = awarded()
    task = chain.now()
    return replace(task, slots=(replace(task.slots[0], price=price),), **changed)


def prices_of(order: TaskOrder, *tasks: Task, kinds: Any = None) -> tuple[int, ...]:
    return recent_prices(order, tasks, KINDS if kinds is None else kinds, HEIGHT).prices


def a_plan(**changed: Any) -> TaskPlan:
    chain = TaskChain()
    chain.submit()
    fields: dict[str, Any] = {
        "terms": chain.now().terms, "devices": (), "able": 3, "is_served": True, "has_rival": True, "has_standby": True,
        "is_of_replicas": False, "locked": FULL, "prepaid": 77, "most": FULL, "starts_from": 1, "starts_by": 2,
        "ends_by": 3, **changed,
    }  # fmt: skip
    return TaskPlan(**fields)


def test_prices_count_of_tasks_that_can_be_compared() -> None:
    task = a_task()
    own = task.order
    other = replace(task, order=replace(task.order, workload=b"x" * 32))
    leased = replace(task, order=replace(task.order, **time_order()))
    alone = a_task(task.terms.price_max)
    assert prices_of(own, task, other, leased, alone, replace(task, slots=())) == (7 * OGPU,)
    assert prices_of(own, task, kinds=dict.fromkeys(KINDS, DeviceClass.CONSUMER)) == (7 * OGPU,)
    assert prices_of(replace(own, classes=1 << DeviceClass.CONSUMER), task) == ()
    assert prices_of(own, task, kinds={}) == ()


def test_a_price_is_scaled_to_the_size_of_the_task() -> None:
    task = a_task()
    assert prices_of(replace(task.order, blocks_max=3 * task.order.blocks_max), task) == (21 * OGPU,)
    traced = replace(task, order=replace(task.order, segments=20))
    assert prices_of(an_order(segments=5, blocks_max=9_999), traced) == (7 * OGPU // 4,)
    odd, short = a_task(7 * OGPU + 1), replace(task.order, blocks_max=1)
    assert prices_of(short, odd) == (-(-(7 * OGPU + 1) // odd.order.blocks_max),), "rounded up"
    rest = replace(task, milestones=task.order.milestones // 2)
    assert prices_of(task.order, rest) == (14 * OGPU,)


def test_how_old_they_are_and_whose() -> None:
    tasks = [a_task(price * OGPU, submitted_at=height) for price, height in ((6, 900), (9, 400), (7, 990), (5, 500))]
    other = replace(tasks[0], customer=b"o" * 32)
    found = recent_prices(tasks[0].order, [*tasks, other], KINDS, HEIGHT)
    assert found.prices == tuple(price * OGPU for price in (5, 6, 6, 7, 9))
    assert (found.customers, found.newest, found.oldest) == (2, 10, 600)
    assert (found.median, found.suggested) == (6 * OGPU, 12 * OGPU)
    odd = replace(found, prices=(OGPU, OGPU, 3_600 * OGPU), sizes=found.sizes[:3])
    assert odd.suggested == 2 * OGPU
    facts = estimate(tasks[0].order, DEFAULT_RULES, a_plan(), found).facts()
    assert (facts["recent_lowest"], facts["recent_highest"]) == (Grains(5 * OGPU), Grains(9 * OGPU))
    assert facts["recent_age_in_blocks"] == "10 to 600"


def test_small_tasks_do_not_outweigh_a_large_one() -> None:
    large = a_task(OGPU)
    dear = replace(large, order=replace(large.order, blocks_max=large.order.blocks_max * 9 // 100))
    cheap = replace(dear, slots=(replace(dear.slots[0], price=1),))
    for small in (dear, cheap):
        assert recent_prices(large.order, [small] * 11 + [large], KINDS, HEIGHT).median == OGPU
    assert recent_prices(large.order, [dear] * 12 + [large], KINDS, HEIGHT).median != OGPU, "they are the most work"
    assert recent_prices(large.order, [large, a_task(3 * OGPU)], KINDS, HEIGHT).median == OGPU, "the lower one of two"


def test_what_is_expected_goes_by_the_median_its_premium_by_that_and_not_by_the_greatest_price() -> None:
    order = an_order(price_max=100 * OGPU)
    found = recent_prices(order, [a_task(OGPU)], KINDS, HEIGHT)
    said = estimate(order, DEFAULT_RULES, a_plan(), found)
    premium = money.premium(DEFAULT_RULES, OGPU)
    assert (said.premium, said.premium_most) == (premium, money.premium(DEFAULT_RULES, 100 * OGPU))
    assert said.expected == OGPU + OGPU // 50 + premium + 77
    assert said.comes_from == OF_RECENT
    assert estimate(order, DEFAULT_RULES, a_plan(has_standby=False), found).expected == OGPU + premium + 77
    gang = estimate(replace(order, slots=3), DEFAULT_RULES, a_plan(has_standby=False), found)
    assert gang.expected == 3 * (OGPU + premium) + 77
    assert (gang.premium, gang.premium_most) == (3 * premium, 3 * money.premium(DEFAULT_RULES, order.price_max))
    low = estimate(replace(order, price_max=OGPU // 2), DEFAULT_RULES, a_plan(has_standby=False), found)
    assert low.expected == OGPU // 2 + money.premium(DEFAULT_RULES, OGPU // 2) + 77


def test_where_nobody_competes_the_greatest_price_is_expected() -> None:
    order = an_order()
    found = recent_prices(order, [a_task(OGPU)], KINDS, HEIGHT)
    said = estimate(order, DEFAULT_RULES, a_plan(has_rival=False, has_standby=False), found)
    assert said.comes_from == NOBODY_COMPETES
    assert said.expected == order.price_max + said.premium_most + 77
    nobody = estimate(order, DEFAULT_RULES, a_plan(is_served=False, has_rival=False, has_standby=False), found)
    assert nobody.comes_from == OF_RECENT, "whoever serves it later may have a rival"


def test_of_nothing_nothing_is_expected() -> None:
    order = an_order()
    said = estimate(order, DEFAULT_RULES, a_plan(), recent_prices(order, [], KINDS, HEIGHT))
    assert (said.expected, said.premium, said.comes_from) == (None, None, OF_NOTHING)
    facts = said.facts(5)
    assert facts["recent_prices"] == 0
    assert facts["suggested_max_price"] is facts["recent_median"] is None


def test_plan_and_submit_show_what_a_task_is_expected_to_cost(tmp_path: Path) -> None:
    def cheap(task: Task) -> Task:
        return replace(task, slots=(replace(task.slots[0], price=OGPU // 1_000),))

    planted = PlantedTask(change=cheap)
    with chain_with(tmp_path, planted) as url:
        plan = json.loads(ogpu(tmp_path, url, "plan", MINIMAL, "--key", "//Bob").stdout)
        dry = answer(ogpu(tmp_path, url, "submit", MINIMAL, "--key", "//Bob", "--dry-run", "--anyway"))
    names = {
        "expected", "expected_from", "premium", "premium_most", "recent_prices", "recent_customers", "recent_lowest",
        "recent_median", "recent_highest", "recent_age_in_blocks", "suggested_max_price",
    }  # fmt: skip
    assert names <= plan.keys() & dry.keys()
    for said in (plan, dry):
        assert (said["recent_prices"], said["recent_customers"], said["expected_from"]) == (1, 1, OF_RECENT)
        scaled = int(said["recent_median"]["grains"])
        assert int(said["suggested_max_price"]["grains"]) == 2 * scaled
        assert int(said["premium"]["grains"]) < int(said["premium_most"]["grains"])
    fees = int(dry["fees"]["grains"])
    assert int(dry["expected"]["grains"]) == int(plan["expected"]["grains"]) + fees


def test_no_more_records_are_read_than_a_plan_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimates, "TASKS_READ_MAX", 0)
    with chain_with(tmp_path, PlantedTask()) as url:
        dry = answer(ogpu(tmp_path, url, "submit", MINIMAL, "--key", "//Bob", "--dry-run", "--anyway"))
    assert (dry["recent_prices"], dry["expected"], dry["expected_from"]) == (0, None, OF_NOTHING)


def test_a_chain_that_sells_no_tasks_has_no_prices() -> None:
    client: Any = SimpleNamespace(runtime=SimpleNamespace(pallets=(System,)))
    assert asyncio.run(estimates.recent_tasks(client, bytes(32))) == []
