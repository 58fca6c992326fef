"""Orders that a chain accepts as planned, and auctions repeated from its records."""

from pathlib import Path

import pytest

from gpu_tasks.client.tasks.orders import load, load_input
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.training.bids import Award, TaskBid, auction_id
from gpu_tasks.market.training.items import items_of
from gpu_tasks.market.training.life.submitting import RUN_BLOCKS_MAX
from gpu_tasks.market.training.selection import BidFate
from gpu_tasks.market.training.tasks import TaskState, task_id_of
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.tasks.canonical import PreparedTask, prepare, terms_of
from gpu_tasks.tasks.order import RUN_BLOCKS_LEAST, StoredInput, order_of, run_blocks
from gpu_tasks.tasks.plan import AuctionNumbers, plan_of
from gpu_tasks.tasks.task_check import explained_auction
from gpu_tasks.tasks.training_task import TaskFile
from simulation.chains.market_chain import CUSTOMER, GENESIS_HASH, OGPU, signed
from task_chain import COLLATERAL, TaskChain, an_offer, an_order, numbers_of, with_offers

EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*.yaml"))
STORED = StoredInput(b"r" * 32, b"b" * 32, 0)
SLOT_MS = 1_000


def prepared(path: Path) -> tuple[TaskFile, PreparedTask]:
    file = load(path)
    return file, prepare(file, load_input(path, file), bytes(32))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_a_chain_takes_every_example_with_the_terms_that_were_shown(path: Path) -> None:
    chain = TaskChain()
    file, ready = prepared(path)
    rules = chain.market.rules(an_order(segments=8))
    order = order_of(file, ready, STORED, rules, SLOT_MS)
    chain.block(signed(CUSTOMER.stash, TrainingMarket.submit(order=order)))
    task = chain.now(task_id_of(GENESIS_HASH, CUSTOMER.stash, 0))
    assert task.state is TaskState.COMMITTING
    assert task.terms == terms_of(file, ready.segments, rules, SLOT_MS)
    assert order.collateral_min == file.task.collateral, "what the rules ask for follows the price, if that is raised"
    assert (task.order.task_hash, task.order.milestones) == (ready.task_hash, ready.canonical.milestones)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_a_chain_takes_from_the_customer_what_was_planned(path: Path) -> None:
    chain = TaskChain()
    file, ready = prepared(path)
    market = chain.market
    numbers = numbers_of(market)
    terms = terms_of(file, ready.segments, numbers.rules, SLOT_MS)
    order = order_of(file, ready, STORED, numbers.rules, SLOT_MS)
    plan = plan_of(terms, file.task.classes, numbers, (), items=items_of(order, 0))
    wealth, free = chain.wealth(CUSTOMER.stash), chain.free(CUSTOMER.stash)
    chain.block(signed(CUSTOMER.stash, TrainingMarket.submit(order=order)))
    assert wealth - chain.wealth(CUSTOMER.stash) == plan.prepaid
    assert free - chain.free(CUSTOMER.stash) == plan.prepaid + plan.locked


def test_a_task_starts_when_it_was_planned_to() -> None:
    """Finality is a block behind, so the award sees the beacon a block later."""
    chain = TaskChain()
    chain.submit()
    submitted = chain.now().submitted_at
    chain.auction(with_offers(chain.keys[:3], 6 * OGPU, 7 * OGPU, 8 * OGPU))
    windows = chain.now().windows
    numbers = AuctionNumbers(chain.now().rules, windows.commit, windows.reveal, windows.start, 0, 0, 150)
    plan = plan_of(chain.now().terms, tuple(DeviceClass), numbers, ())
    assert chain.state() is TaskState.STARTING
    awarded_after = chain.height - submitted
    assert plan.starts_from <= awarded_after <= plan.starts_from + 3
    assert chain.now().deadline - submitted <= plan.starts_by + 3


def test_an_order_says_what_the_file_says() -> None:
    file, ready = prepared(next(path for path in EXAMPLES if path.stem == "gang"))
    order = order_of(file, ready, STORED, TaskChain().market.rules(an_order(segments=8)), SLOT_MS)
    assert (order.classes, order.slots) == (0b110, 2)
    assert (order.milestones, order.segments, order.check_ppm) == (4, 10, 1_000_000)
    assert (order.price_max, order.time_value, order.loss) == (OGPU, None, OGPU // 5)
    assert (order.collateral_min, order.blocks_max) == (25 * OGPU, 5_400)
    assert (order.input_root, order.input_blob, order.sealed_at) == (STORED.root, STORED.blob, STORED.sealed_at)


@pytest.mark.parametrize(
    ("blocks", "expected"),
    [(1_000, 1_000), (RUN_BLOCKS_LEAST - 1, RUN_BLOCKS_LEAST), (7_300, RUN_BLOCKS_MAX), (10**6, 500_000)],
)
def test_a_checker_has_as_long_as_the_slowest_bid(blocks: int, expected: int) -> None:
    assert run_blocks(blocks) == expected


def records(chain: TaskChain) -> tuple[Award, dict[bytes, TaskBid]]:
    auction = auction_id(chain.task, 1)
    award = chain.market.awards[auction]
    assert award is not None
    return award, {device: bid for device, bid in chain.market.bids.under(auction) if bid is not None}


def test_an_auction_is_made_again_out_of_its_records() -> None:
    chain = TaskChain()
    chain.submit()
    alice, bob, carol, dave, eve = chain.keys[:5]
    bids = {
        **with_offers([alice, bob, carol], 6 * OGPU, 7 * OGPU, 8 * OGPU),
        dave: an_offer(5 * OGPU, collateral=COLLATERAL // 10),
        eve: an_offer(1),
    }
    chain.auction(bids, unopened=(eve,))
    award, kept = records(chain)
    rows = explained_auction(award, kept)
    assert [(row.provider, row.fate) for row in rows] == [
        (alice.stash, BidFate.WON),
        (bob.stash, BidFate.STANDBY),
        (carol.stash, BidFate.OUTBID),
        (dave.stash, BidFate.COLLATERAL),
        (eve.stash, None),
    ]
    assert rows[0].pay == chain.now().slots[0].price == 7 * OGPU
    assert "its bond of 1 oGPU" in rows[4].why
