"""Expected costs of a task, and the providers that claim to run it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpu_tasks.client.commands import tasks
from gpu_tasks.client.offers.listing import HeardInventories
from gpu_tasks.client.tasks import estimates
from gpu_tasks.client.tasks import estimates as asking
from gpu_tasks.client.tasks.estimates import (
    NOBODY_COMPETES,
    OF_NOTHING,
    OF_RECENT,
    RUNS_IT,
    Willingness,
    estimate,
    recent_prices,
    why_unfit,
    willingness,
)
from gpu_tasks.client.tasks.orders import load_any
from gpu_tasks.data import market_reads
from gpu_tasks.data.blob_client import BlobClient, BlobError, TransferRates
from gpu_tasks.data.inventory import (
    CONTAINER_KIND,
    DEVICES_MAX,
    IMAGES_MAX,
    INVENTORY_BYTES_MAX,
    KINDS_MAX,
    ClaimedDevice,
    ClaimedMachine,
    ClaimedPolicy,
    ClaimedPrograms,
    MachineInventory,
    read_inventory,
    sign_inventory,
)
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.training.orders import TaskOrder
from gpu_tasks.market.training.rules import DEFAULT_RULES
from gpu_tasks.market.training.tasks import Task
from gpu_tasks.provider.chain.port import Identity
from gpu_tasks.provider.programs.means import ProgramMeans
from gpu_tasks.provider.tasks.policy import BidPolicy
from gpu_tasks.provider.tasks.policy_file import PolicySource, set_draining, write_policy
from gpu_tasks.provider.told_inventory import ToldInventory, claimed_policy
from gpu_tasks.tasks.container_order import prepare_container
from gpu_tasks.tasks.plan import BiddingDevice, Hindrance, PlannedDevice, TaskPlan, plan_of
from gpu_tasks.tasks.quantities import PPM, Rate, TimeSpan
from gpu_tasks.tasks.task_kinds import AskedTask, ContainerSource, read_any_task
from offered import name
from planted_state import chain_with
from planted_tasks import PlantedTask
from played_node import DevChain
from runtime.cryptography.signatures import Scheme
from runtime.pallets.system import System
from simulation.chains.market_chain import OGPU, named_keys
from task_chain import TaskChain, an_order, awarded, time_order
from task_customer import ogpu, refusal
from wallet.amounts import Grains
from wallet.keypair import Keypair
from wallet.suri import keypair_from_suri
from wallet_runner import answer, chain

# What providers say that they bid for: told at a door, heard by customers' commands, and compared with a task.


EXAMPLES = Path(__file__).parents[4] / "examples"
MINIMAL = str(EXAMPLES / "minimal.yaml")
SLOT_MS = 1_000
DIGEST = "ab" * 32
IMAGE = "ghcr.io/acme/lora"
JOB = f"""apiVersion: ogpu/v1
kind: Job
metadata: {{name: least}}
spec:
  run: {{image: {IMAGE}@sha256:{DIGEST}}}
  market: {{maxPrice: 2 oGPU}}
"""
MEANS = ProgramMeans(images=(IMAGE,))
BIDS = BidPolicy(kinds=("train-int8", CONTAINER_KIND), containers=MEANS)
ALICE = keypair_from_suri("//Alice//provider", Scheme.ED25519)


def told(policy: BidPolicy = BIDS, why_not: str = "") -> ClaimedPolicy:
    return claimed_policy(policy, policy.containers, why_not)


def job(more: str = "", text: str = JOB) -> AskedTask:
    source = read_any_task((text + more).encode(), "task.yaml")
    assert isinstance(source, ContainerSource)
    return prepare_container(source.file, {}, SLOT_MS)


def unfit(policy: ClaimedPolicy, asked: AskedTask) -> str:
    return why_unfit(policy, asked, asked.terms(DEFAULT_RULES, SLOT_MS), DEFAULT_RULES, SLOT_MS)


def training() -> AskedTask:
    return load_any(Path(MINIMAL)).asked(bytes(32), SLOT_MS)


def means(**changes: Any) -> ClaimedPolicy:
    return told(replace(BIDS, containers=replace(MEANS, **changes)))


# -------------------------------------------------------------------------------------------------------- a pure check


def test_a_provider_that_bids_for_the_kind_runs_it() -> None:
    assert unfit(told(), training()) == ""
    assert unfit(told(), job()) == ""
    assert unfit(ClaimedPolicy(), training()) == "no policy for train-int8"
    assert unfit(ClaimedPolicy(), job()) == "no policy for container"
    assert unfit(told(why_not="no engine"), job()) == "no engine"
    assert unfit(told(why_not="\x1b[2J\n"), job()) == "[2J", "nothing that a terminal takes for a command"


@pytest.mark.parametrize(
    ("policy", "more", "why"),
    [
        (told(), "  resources: {memory: 64Gi}\n", "2 GiB of memory at most"),
        (means(memory_bytes=100 << 20), "", "100 MiB of memory at most"),
        (told(), "  resources: {disk: 9Gi}\n", "8 GiB of disk at most"),
        (means(disk_bytes=(64 << 20) - 1), "", "63 MiB of disk at most"),
        (told(), "  resources: {cpu: 2.5}\n", "2 cores at most"),
        (means(processes=127), "", "127 processes at most"),
        (means(images=("ghcr.io/acme/other",)), "", "another list of images"),
        (means(images=(f"{IMAGE}@sha256:{DIGEST}",)), "", ""),
        (means(images=(f"{IMAGE}@sha256:{'cd' * 32}",)), "", "another list of images"),
        (means(images=(), any_archive=True), "", "another list of images"),
        (means(memory_bytes=512 << 20, disk_bytes=64 << 20, cpu_thousandths=1_000, processes=128), "", ""),
    ],
)
def test_a_program_that_its_policy_leaves_no_room_for(policy: ClaimedPolicy, more: str, why: str) -> None:
    assert unfit(policy, job(more)) == why


def test_a_workspace_is_kept_as_long_as_the_policy_allows() -> None:
    lease = job("  limits: {keep: 1m}\n", JOB.replace("kind: Job", "kind: Lease"))
    assert unfit(means(keep_seconds=59), lease) == "59 s of a kept workspace at most"
    assert unfit(means(keep_seconds=60), lease) == ""


def test_network_price_and_gangs() -> None:
    open_job = job(text=JOB.replace("}\n  market", ", network: outbound}\n  market"))
    assert unfit(told(), open_job) == "no network for containers"
    assert unfit(means(outbound=True), open_job) == ""
    for price, is_dear in ((2 * OGPU, True), (OGPU, False)):
        asks = told(replace(BIDS, least_price=Rate(price, TimeSpan(milliseconds=3_600_000))))
        assert bool(unfit(asks, job())) is is_dear, "an hour at this price, and the fee"
    timeless = replace(told(), price=1, price_ms=0, price_blocks=0)
    assert unfit(timeless, job()) == "", "a claim of a price for no time divides by nothing"
    by_block = told(replace(BIDS, least_price=Rate(OGPU, TimeSpan(blocks=1))))
    assert "at least" in unfit(by_block, job())
    gang = load_any(EXAMPLES / "gang.yaml").asked(bytes(32), SLOT_MS)
    terms = gang.terms(DEFAULT_RULES, SLOT_MS)
    assert (terms.slots > 1, terms.time_value > 0) == (True, True)
    assert unfit(told(), gang)
    assert unfit(told(replace(BIDS, gangs=True)), gang) == ""
    valueless = replace(terms, time_value=0)
    assert why_unfit(told(), gang, valueless, DEFAULT_RULES, SLOT_MS) == "", "its blocks have no value"


def test_a_price_that_is_asked_may_be_the_greatest() -> None:
    asked = job()
    terms = asked.terms(DEFAULT_RULES, SLOT_MS)
    policy = told(replace(BIDS, least_price=Rate(OGPU, TimeSpan(milliseconds=3_600_000))))
    price = OGPU * PPM // (PPM - DEFAULT_RULES.settlement_fee) + 1
    for most, is_dear in ((price, False), (price - 1, True)):
        said = why_unfit(policy, asked, replace(terms, price_max=most), DEFAULT_RULES, SLOT_MS)
        assert bool(said) is is_dear, said


def test_an_archive_runs_where_any_does_or_its_id_is_listed() -> None:
    asked = job(text=JOB.replace(f"image: {IMAGE}@sha256:{DIGEST}", f"image: sha256:{DIGEST}, archive: image.tar"))
    assert unfit(told(), asked) == "another list of images"
    assert unfit(means(any_archive=True), asked) == unfit(means(images=(f"sha256:{DIGEST}",)), asked) == ""


def planned(*owners: int) -> list[PlannedDevice]:
    return [
        PlannedDevice(
            BiddingDevice(
                name(number), name(owner), DeviceClass.CPU, 10, 10,
                is_provider=True, is_candidate=True, is_paused=False, is_busy=False, spendable=1_000,
            ),
            None,
        )
        for number, owner in enumerate(owners)
    ]  # fmt: skip


def test_six_could_bid_of_which_four_say_so() -> None:
    reasons = {name(1): "", name(2): "", name(3): "no policy for train-int8"}
    said = willingness(planned(1, 1, 1, 2, 3, 3), reasons, {})
    assert (said.able, said.willing, said.unwilling, said.unheard) == (6, 4, {"no policy for train-int8": 2}, 0)
    assert said.sentence == "6 (4 say that they run this; 2 do not: no policy for train-int8)"
    assert said.answers[name(1)] == RUNS_IT
    assert (said.why_too_few(4), bool(said.why_too_few(5))) == ("", True)


def test_of_many_reasons_the_commonest_are_shown_and_all_are_counted() -> None:
    owners = range(1, asking.REASONS_SHOWN + 3)
    reasons = {name(owner): f"reason {owner}" for owner in owners}
    last = owners[-1]
    said = willingness(planned(*owners, *owners, last), reasons, {})
    assert next(iter(said.unwilling.items())) == (f"reason {last}", 3)
    assert [f"reason {owner}" in said.said for owner in owners] == [owner in {1, 2, 3, last} for owner in owners]
    assert "4 do not for" in said.said


def test_who_does_not_answer_counts_neither_for_nor_against_it() -> None:
    said = willingness(planned(1, 2, 3), {name(1): "no"}, {name(2): "was too slow"})
    assert (said.willing, said.unheard, said.may_bid) == (0, 2, 2)
    assert "was too slow" in said.answers[name(2)]
    assert said.why_too_few(2) == ""
    assert Willingness(0, 0, {}, 0, {}).why_too_few(1) == "", "why nobody could bid is the plan's to say"


def test_each_owner_of_an_eligible_device_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []

    async def heard(_client: object, _blobs: object, owners: list[bytes], _at: bytes) -> HeardInventories:
        asked.extend(owners)
        return HeardInventories(policies={name(1): told()}, left_out={name(2): "was too slow"})

    monkeypatch.setattr(asking, "heard_inventories", heard)
    monkeypatch.setattr(market_reads, "is_development", lambda _: False)
    task, devices = training(), planned(1, 1, 2, 3)
    busy = replace(devices[-1], hindrance=Hindrance.BUSY)
    plan: Any = SimpleNamespace(devices=[*devices[:-1], busy], terms=task.terms(DEFAULT_RULES, SLOT_MS))
    client: Any = None
    said = asyncio.run(asking.willingness_of(client, task, DEFAULT_RULES, plan, SLOT_MS, bytes(32)))
    assert asked == [name(1), name(2)]
    assert (said.able, said.willing, said.unheard) == (3, 2, 1)
    assert "was too slow" in said.answers[name(2)]


# ---------------------------------------------------------------------------------------------------------- at the door


def test_the_longest_policy_fits_beside_the_longest_machine() -> None:
    text = "x" * 80
    device = ClaimedDevice(bytes(32), text, text, 1, text, text, text, is_processor=False)
    programs = ClaimedPrograms(why_not=text, images=(bytes(32),) * IMAGES_MAX)
    policy = ClaimedPolicy(kinds=(text,) * KINDS_MAX, programs=programs)
    machine = ClaimedMachine(text, 1, 1, 1, 1, 1)
    inventory = MachineInventory(2, ALICE.public_key, 1, machine, (device,) * DEVICES_MAX, policy)
    assert len(sign_inventory(inventory, bytes(32), ALICE.sign)) <= INVENTORY_BYTES_MAX


def test_a_policy_with_more_than_is_told_is_told_as_far_as_it_goes() -> None:
    images = tuple(f"{IMAGE}{number}" for number in range(40))
    huge = replace(MEANS, images=images, memory_bytes=1 << 70, cpu_thousandths=1 << 40, processes=1 << 40)
    found = told(BidPolicy(kinds=("train-int8",) * 20, containers=huge))
    assert (found.kinds, len(found.programs.images)) == (("train-int8",), IMAGES_MAX)
    assert found.programs.memory_bytes == (1 << 64) - 1


def test_a_door_tells_the_policy_that_bids_go_by_as_soon_as_it_changes(tmp_path: Path) -> None:
    write_policy(tmp_path, BIDS)
    source = PolicySource(tmp_path, BIDS.kinds)
    key = Keypair.from_seed(Scheme.ED25519, bytes(range(32)))
    door = ToldInventory(
        Identity.of(name(1), key, bytes(32)), [], tmp_path, TransferRates(),
        lambda: claimed_policy(source.policy(), MEANS, ""),
    )  # fmt: skip

    def said() -> ClaimedPolicy:
        return read_inventory(asyncio.run(door.told()), bytes(32), time.time_ns() // 1_000_000).policy

    assert said() == told()
    set_draining(tmp_path, drains=True)
    assert said().kinds == (), "who drains bids for nothing"


# ------------------------------------------------------------------------------------------------------------- commands


@pytest.fixture
def says(monkeypatch: pytest.MonkeyPatch) -> Callable[[ClaimedPolicy | None], None]:
    """Have the one provider of the chain say this; None: its store is too slow."""
    answers: list[ClaimedPolicy | None] = []
    genesis = DevChain().genesis_hash

    async def inventory_of(self: BlobClient, endpoint: str) -> bytes:
        policy = answers[-1]
        if policy is None:
            raise BlobError("was too slow")
        made_at = time.time_ns() // 1_000_000
        machine = ClaimedMachine("EPYC", 16, 65_536, 500_000, 0, 0)
        return sign_inventory(MachineInventory(2, ALICE.public_key, made_at, machine, (), policy), genesis, ALICE.sign)

    monkeypatch.setattr(BlobClient, "inventory_of", inventory_of)
    return answers.append


def test_plan_says_who_runs_it(tmp_path: Path, says: Callable[[ClaimedPolicy | None], None]) -> None:
    words = ("task", "plan", MINIMAL, "--key", "//Bob")
    with chain(tmp_path) as url:
        says(told())
        plan = answer(ogpu(tmp_path, url, *words))
        assert (plan["could_bid"], plan["say_they_run_it"], plan["say_they_do_not"]) == (1, 1, [])
        assert plan["devices_known"][0]["policy"] == RUNS_IT
        says(ClaimedPolicy())
        refused = ogpu(tmp_path, url, *words)
        assert refused.exit_code == 1
        plan = json.loads(refused.stdout)
        assert plan["served"] is True
        assert plan["say_they_do_not"] == [{"devices": 1, "why": "no policy for train-int8"}]
        assert "no policy for train-int8" in ogpu(tmp_path, url, *words, as_json=False).stdout
        says(None)
        slow = answer(ogpu(tmp_path, url, *words))
        assert (slow["say_they_run_it"], slow["did_not_answer"]) == (0, 1)


def test_too_few_of_a_gang_are_too_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slots: list[int] = []

    def too_few(self: Willingness, wanted: int) -> str:
        slots.append(wanted)
        return "too few run it"

    monkeypatch.setattr(Willingness, "why_too_few", too_few)
    monkeypatch.setattr(tasks, "plan_of", lambda *given: replace(plan_of(*given), is_served=True))
    gang = str(EXAMPLES / "gang.yaml")
    with chain(tmp_path) as url:
        for command in ("plan", "submit"):
            dry = ["--dry-run"] if command == "submit" else []
            assert ogpu(tmp_path, url, "task", command, gang, "--key", "//Bob", *dry).exit_code == 1
    assert (len(slots), min(slots) > 1) == (2, True)


def test_submit_and_run_refuse_what_nobody_says_that_it_runs(
    tmp_path: Path, says: Callable[[ClaimedPolicy | None], None]
) -> None:
    program = ["--image", f"{IMAGE}@sha256:{DIGEST}", "--max-price", "2 oGPU", "--memory", "64Gi"]
    run = ["run", "--key", "//Bob", "--dry-run", *program]
    with chain(tmp_path) as url:
        says(told())
        assert "2 GiB of memory at most" in refusal(ogpu(tmp_path, url, *run, "--", "true"), 1)
        dry = answer(ogpu(tmp_path, url, *run, "--anyway", "--", "true"))
        assert dry["say_they_do_not"] == [{"devices": 1, "why": "2 GiB of memory at most"}]
        says(ClaimedPolicy())
        submit = ("task", "submit", MINIMAL, "--key", "//Bob", "--dry-run")
        assert "no policy for train-int8" in refusal(ogpu(tmp_path, url, *submit), 1)
        assert answer(ogpu(tmp_path, url, *submit, "--anyway"))["say_they_run_it"] == 0


# What recent tasks cleared at, and what a task is expected to cost by that: as a chain says it, and as commands do.


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
        "is_of_replicas": False, "locked": FULL, "locks": (), "prepaid": 77, "most": FULL, "starts_from": 1,
        "starts_by": 2, "ends_by": 3, **changed,
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


def test_what_is_expected_goes_by_the_median_its_checks_by_that_and_not_by_the_greatest_price() -> None:
    order = an_order(price_max=100 * OGPU)
    # One item, drawn in one of three cases, and a second check of one in four of these.
    checks = round(OGPU * 6 / 5 * 0.333333 * 5 / 4)
    found = recent_prices(order, [a_task(OGPU)], KINDS, HEIGHT)
    said = estimate(order, DEFAULT_RULES, a_plan(), found)
    assert (said.check_fees, said.check_fees_max) == (checks, 240 * OGPU)
    assert said.expected == OGPU + OGPU // 50 + checks + 77
    assert said.comes_from == OF_RECENT
    assert estimate(order, DEFAULT_RULES, a_plan(has_standby=False), found).expected == OGPU + checks + 77
    gang = estimate(replace(order, slots=3), DEFAULT_RULES, a_plan(has_standby=False), found)
    assert gang.expected == 3 * (OGPU + checks) + 77
    assert (gang.check_fees, gang.check_fees_max) == (3 * checks, 720 * OGPU)
    low = estimate(replace(order, price_max=OGPU // 2), DEFAULT_RULES, a_plan(has_standby=False), found)
    assert low.expected == OGPU // 2 + checks // 2 + 77
    unchecked = estimate(order, replace(DEFAULT_RULES, check_rate_ppm=0), a_plan(has_standby=False), found)
    assert (unchecked.check_fees, unchecked.check_fees_max, unchecked.expected) == (0, 0, OGPU + 77)


def test_where_nobody_competes_the_greatest_price_is_expected() -> None:
    order = an_order()
    found = recent_prices(order, [a_task(OGPU)], KINDS, HEIGHT)
    said = estimate(order, DEFAULT_RULES, a_plan(has_rival=False, has_standby=False), found)
    assert said.comes_from == NOBODY_COMPETES
    assert said.check_fees is not None
    assert said.expected == order.price_max + said.check_fees + 77
    nobody = estimate(order, DEFAULT_RULES, a_plan(is_served=False, has_rival=False, has_standby=False), found)
    assert nobody.comes_from == OF_RECENT, "whoever serves it later may have a rival"


def test_of_nothing_nothing_is_expected() -> None:
    order = an_order()
    said = estimate(order, DEFAULT_RULES, a_plan(), recent_prices(order, [], KINDS, HEIGHT))
    assert (said.expected, said.check_fees, said.comes_from) == (None, None, OF_NOTHING)
    facts = said.facts(5)
    assert facts["recent_prices"] == 0
    assert facts["suggested_max_price"] is facts["recent_median"] is None


def test_plan_and_submit_show_what_a_task_is_expected_to_cost(tmp_path: Path) -> None:
    def cheap(task: Task) -> Task:
        return replace(task, slots=(replace(task.slots[0], price=OGPU // 1_000),))

    planted = PlantedTask(change=cheap)
    with chain_with(tmp_path, planted) as url:
        plan = json.loads(ogpu(tmp_path, url, "task", "plan", MINIMAL, "--key", "//Bob").stdout)
        dry = answer(ogpu(tmp_path, url, "task", "submit", MINIMAL, "--key", "//Bob", "--dry-run", "--anyway"))
    names = {
        "expected", "expected_from", "check_fees", "check_fees_max", "recent_prices", "recent_customers",
        "recent_lowest", "recent_median", "recent_highest", "recent_age_in_blocks", "suggested_max_price",
    }  # fmt: skip
    assert names <= plan.keys() & dry.keys()
    for said in (plan, dry):
        assert (said["recent_prices"], said["recent_customers"], said["expected_from"]) == (1, 1, OF_RECENT)
        scaled = int(said["recent_median"]["grains"])
        assert int(said["suggested_max_price"]["grains"]) == 2 * scaled
        assert int(said["check_fees"]["grains"]) <= int(said["check_fees_max"]["grains"])
    fees = int(dry["fees"]["grains"])
    assert int(dry["expected"]["grains"]) == int(plan["expected"]["grains"]) + fees


def test_no_more_records_are_read_than_a_plan_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimates, "TASKS_READ_MAX", 0)
    with chain_with(tmp_path, PlantedTask()) as url:
        dry = answer(ogpu(tmp_path, url, "task", "submit", MINIMAL, "--key", "//Bob", "--dry-run", "--anyway"))
    assert (dry["recent_prices"], dry["expected"], dry["expected_from"]) == (0, None, OF_NOTHING)


def test_a_chain_that_sells_no_tasks_has_no_prices() -> None:
    client: Any = SimpleNamespace(runtime=SimpleNamespace(pallets=(System,)))
    assert asyncio.run(estimates.recent_tasks(client, bytes(32))) == []
