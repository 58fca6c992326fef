"""A chain with claims and the market of tasks, and books that count all its grains, devices and agenda items."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from gpu_tasks.market.capacity.capacity import Capacity
from gpu_tasks.market.claims.disputes_pallet import Disputes
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.training.bids import BidOffer, auction_id, bid_commitment
from gpu_tasks.market.training.orders import CheckedBy, TaskOrder
from gpu_tasks.market.training.tasks import Milestone, Task, TaskResult, TaskState, task_id_of
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.tasks.plan import AuctionNumbers
from runtime.cryptography.hashing import blake2_256
from runtime.frame.pallet import Pallet
from runtime.frame.runtime import Bound
from runtime.pallets.balances import Balances
from runtime.pallets.beacon import Beacon
from runtime.pallets.session import Session
from runtime.pallets.staking.trust_lock import TrustLock
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.pallets.system import System
from simulation.chains.market_chain import (
    CUSTOMER,
    GENESIS_HASH,
    OGPU,
    Keys,
    MarketChain,
    Step,
    named_keys,
    refused,
    signed,
)
from unit_cases import checker_steps

PALLETS = (
    System, Balances, Beacon, TrustStake, Session, TrustLock, Devices, Disputes, ResultClaims, Capacity,
    TrainingMarket,
)  # fmt: skip
SMALL = {
    "TrustStake.validator_count": 64,
    "TrainingMarket.commit_blocks": 4,
    "TrainingMarket.reveal_blocks": 4,
    "TrainingMarket.start_blocks": 4,
    "TrainingMarket.grace_blocks": 3,
    "TrainingMarket.ask_blocks": 4,
    "TrainingMarket.task_keep": 30,
    "TrainingMarket.check_rate": 100_000,
    "ResultClaims.duty_blocks": 8,
    "Disputes.vote_blocks": 8,
    "Disputes.open_blocks": 6,
    "Disputes.appeal_blocks": 6,
}
PRICE = 10 * OGPU
COLLATERAL = 372 * OGPU
"""The least collateral of a bid for this price, at the check rate above."""
BOND = PRICE // 20
"""The customer's bond, for a slot."""
LOOKS = 30_000 * (2 * (12 + 2) + 20)
"""The prepaid looks of a task of one slot and two auctions."""
RIGHT, WRONG = b"r" * 32, b"w" * 32
BIDDING = (TaskState.COMMITTING, TaskState.REVEALING, TaskState.AWARDING)


def an_order(**changed: Any) -> TaskOrder:
    """Return a test customer's order: one slot, four milestones, no trace."""
    fields: dict[str, Any] = {
        "task_hash": b"t" * 32,
        "workload": b"w" * 32,
        "input_root": b"i" * 32,
        "input_blob": b"b" * 32,
        "sealed_at": 0,
        "classes": 0b111,
        "milestones": 4,
        "segments": 0,
        "run_blocks": 4,
        "price_max": PRICE,
        "time_value": None,
        "loss": None,
        "blocks_max": 100,
        "collateral_min": 0,
        "slots": 1,
        "auctions": 2,
        **changed,
    }
    return TaskOrder(**fields)


def time_order(*, blocks_max: int = 12, milestones: int = 4, is_lease: bool = False) -> dict[str, Any]:
    """Return the fields of an order that pays for time, in `milestones` intervals."""
    return {
        "checked_by": CheckedBy.LEASED if is_lease else CheckedBy.METERED,
        "blocks_max": blocks_max,
        "milestones": milestones,
        "run_blocks": 0,
        "time_value": 0,
    }


def numbers_of(market: TrainingMarket) -> AuctionNumbers:
    """Return the market's numbers for the plan of a task with a trace."""
    windows = market.windows()
    return AuctionNumbers(
        market.rules(an_order(segments=8)),
        windows.commit,
        windows.reveal,
        windows.start,
        market.task_deposit,
        market.step_fee,
        market.interval_blocks_max,
    )


@dataclass
class TaskChain:
    """Tasks of one customer on a chain of `size` validators with one device each."""

    size: int = 7
    constants: dict[str, Any] = field(default_factory=dict)
    bonds: tuple[int, ...] = (1_000 * OGPU, 2_000 * OGPU, 1_500 * OGPU)
    final_lag: int = 1
    pallets: tuple[type[Pallet], ...] = PALLETS
    check: Callable[[Bound, int], None] | None = None
    task: bytes = b""

    def __post_init__(self) -> None:
        """Make block 0."""
        self.keys = named_keys(self.size)
        self.chain = MarketChain(
            self.keys,
            [Keys("stranger")],
            {**SMALL, **self.constants},
            pallets=self.pallets,
            bonds=self.bonds,
            final_lag=self.final_lag,
            check=self.check,
        )

    # --------------------------------------------------------------------------------------------------------- reading

    @property
    def alice(self) -> Keys:
        """The first validator: the cheapest bid of most tests."""
        return self.keys[0]

    @property
    def bob(self) -> Keys:
        """Return the second provider, the standby in most tests."""
        return self.keys[1]

    @property
    def height(self) -> int:
        """The newest block's."""
        return self.chain.height

    @property
    def market(self) -> TrainingMarket:
        """The pallet on the newest state."""
        return self.chain.now()[TrainingMarket]

    def now(self, task: bytes = b"") -> Task:
        """Return the task's present record."""
        found = self.market.tasks[task or self.task]
        assert found is not None
        return found

    def state(self) -> TaskState:
        """Return the task's stage."""
        return self.now().state

    def free(self, who: bytes) -> int:
        """Return an account's spendable money."""
        return self.chain.now()[Balances].free_balance(who)

    def wealth(self, who: bytes) -> int:
        """Return an account's money, held or not."""
        data = self.chain.now()[System].account[who].data
        return data.free + data.reserved

    def is_idle(self, keys: Keys) -> bool:
        """Return True if the first device of a provider may be drawn."""
        device = self.chain.now()[Devices].devices[keys.device]
        assert device is not None
        return self.chain.now()[Devices].can_work(device)

    def providers(self) -> list[Keys]:
        """Return the providers of all places, in their order."""
        return [self.chain.keys_of(slot.provider) for slot in self.now().slots]

    def happened(self, kind: type[Any]) -> list[Any]:
        """All events of a kind since block 1."""
        return self.chain.happened(kind)

    # --------------------------------------------------------------------------------------------------------- acting

    def block(self, *steps: Step) -> Bound:
        """One block with these steps."""
        return self.chain.block(*steps)

    def blocks(self, count: int) -> None:
        """Make `count` empty blocks."""
        self.chain.blocks(count)

    def blocks_to(self, height: int) -> None:
        """Make empty blocks up to a height."""
        self.chain.blocks_to(height)

    def submit(self, **changed: Any) -> bytes:
        """Make a block with an order of the customer's. Return the id of its task."""
        number = self.market.submission_counts[CUSTOMER.stash]
        self.chain.block(signed(CUSTOMER.stash, TrainingMarket.submit(order=an_order(**changed))))
        self.task = task_id_of(GENESIS_HASH, CUSTOMER.stash, number)
        return self.task

    def commit_call(self, keys: Keys, offer: BidOffer, device: bytes = b"", task: bytes = b"") -> Any:
        """Return the call that commits a provider to a bid with its first device."""
        task, device = task or self.task, device or keys.device
        auction = auction_id(task, self.now(task).auction)
        sealed = bid_commitment(GENESIS_HASH, auction, keys.stash, device, offer, bid_salt(keys, device))
        return TrainingMarket.commit_bid(task=task, device=device, commitment=sealed)

    def reveal_call(self, keys: Keys, offer: BidOffer, device: bytes = b"", task: bytes = b"") -> Any:
        """Return the call that opens a bid."""
        device = device or keys.device
        salt = bid_salt(keys, device)
        return TrainingMarket.reveal_bid(task=task or self.task, device=device, offer=offer, salt=salt)

    def auction(self, bids: dict[Keys, BidOffer], *, unopened: tuple[Keys, ...] = ()) -> None:
        """Commit and reveal bids, up to the block of the award, or to the end without one."""
        commits = [signed(keys.provider, self.commit_call(keys, offer)) for keys, offer in bids.items()]
        self.chain.block(*commits)
        self.until(TaskState.REVEALING)
        opened = {keys: offer for keys, offer in bids.items() if keys not in unopened}
        self.chain.block(*(signed(keys.provider, self.reveal_call(keys, offer)) for keys, offer in opened.items()))
        while self.state() in BIDDING:
            self.chain.block()

    def do(self, keys: Keys, call: Any, error: Any = None, *, role: str = "provider") -> None:
        """Make a block with a call of an account that succeeds, or fails with an error."""
        account = keys.public(role)
        self.chain.block(signed(account, call) if error is None else refused(account, call, error))

    def ask(self, call: Any, error: Any = None) -> None:
        """Make a block with a call of the customer's."""
        self.do(CUSTOMER, call, error, role="stash")

    def cancel(self, error: Any = None) -> None:
        """A block in which the customer cancels the task."""
        self.ask(TrainingMarket.cancel(task=self.task), error)

    def stop(self, error: Any = None) -> None:
        """A block in which the customer stops the task."""
        self.ask(TrainingMarket.stop(task=self.task), error)

    def start(self, keys: Keys, place: int = 0) -> None:
        """A block in which a provider starts."""
        self.do(keys, TrainingMarket.start(task=self.task, place=place))

    def start_all(self) -> list[Keys]:
        """Start each place's provider in a block of its own. Return the providers."""
        gang = self.providers()
        for place, keys in enumerate(gang):
            self.start(keys, place)
        return gang

    def report(self, keys: Keys, number: int, place: int = 0, root: bytes = RIGHT) -> None:
        """A block in which a provider states a milestone."""
        self.do(keys, TrainingMarket.report_milestone(task=self.task, place=place, milestone=a_milestone(number, root)))

    def count(self, number: int) -> None:
        """Make a block in which the customer acknowledges a checkpoint."""
        self.ask(hold(self, number))

    def finish(self, keys: Keys, place: int = 0, root: bytes = RIGHT) -> None:
        """A block in which a provider states its result."""
        self.do(keys, TrainingMarket.finish(task=self.task, place=place, result=a_result(keys, root)))

    def finish_all(self, root: bytes = RIGHT) -> None:
        """A block for each place, in which its provider states this result."""
        for place, keys in enumerate(self.providers()):
            self.finish(keys, place, root)

    def until(self, *states: TaskState, blocks: int = 400) -> None:
        """Make blocks, in which checkers find all results right, until the task is in one of the states."""
        for _ in range(blocks):
            if self.state() in states:
                return
            self.chain.block(*checker_steps(self.chain))
        raise AssertionError(f"the task stays in {self.state()!r}")


def hold(chain: TaskChain, number: int, root: bytes = RIGHT) -> Any:
    """Acknowledge a checkpoint."""
    return TrainingMarket.confirm_checkpoint(task=chain.task, number=number, root=root)


def an_offer(price: int, blocks: int = 40, collateral: int = COLLATERAL) -> BidOffer:
    """A bid."""
    return BidOffer(price, blocks, collateral)


def a_milestone(number: int, root: bytes = RIGHT) -> Milestone:
    """Return the statement of a milestone."""
    return Milestone(number, root, 1_000 - number, b"c" * 32)


def a_result(keys: Keys, root: bytes = RIGHT) -> TaskResult:
    """Return the statement of a result. Each provider has sealed a blob of its own."""
    return TaskResult(root, blake2_256(b"sealed by" + keys.stash), 7)


def bid_salt(keys: Keys, device: bytes) -> bytes:
    """The salt of a test bidder."""
    return blake2_256(b"bid salt" + keys.stash + device)


def with_offers(keys: list[Keys], *prices: int, **changed: Any) -> dict[Keys, BidOffer]:
    """Return bids of the first of these providers, equal except for their prices."""
    return {each: replace(an_offer(price), **changed) for each, price in zip(keys, prices, strict=False)}


class Books:
    """All accounts' money at the start, and the changes since."""

    def __init__(self, chain: TaskChain) -> None:
        self.chain = chain
        self.before = {keys: chain.wealth(keys.stash) for keys in (*chain.keys, CUSTOMER)}

    def change(self, keys: Keys) -> int:
        """Return the grains gained since, without the customer's looks."""
        won = self.chain.wealth(keys.stash) - self.before[keys]
        return won + LOOKS if keys is CUSTOMER else won

    def changes(self, *whose: Keys) -> list[int]:
        """Return the changes of each of these."""
        return [self.change(keys) for keys in whose]


def forfeit(price: int) -> int:
    """Return the forfeit of the customer's bond for a left slot of this price: half to its provider, half burned."""
    return price // 20


def net(paid: int) -> int:
    """Return a payment after the settlement fee."""
    return paid - paid // 50


def awarded(
    *prices: int,
    size: int = 7,
    constants: dict[str, Any] | None = None,
    bids: dict[str, Any] | None = None,
    **order: object,
) -> tuple[TaskChain, Books]:
    """Return a task that Alice won at the second price, with the second as standby at the third.

    `bids` changes every bid.
    """
    chain = TaskChain(size=size, constants=constants or {})
    books = Books(chain)
    chain.submit(**order)
    chain.auction(with_offers(chain.keys, *(prices or (6 * OGPU, 7 * OGPU, 8 * OGPU)), **(bids or {})))
    return chain, books


def work(chain: TaskChain, keys: Keys, *, milestones: int, counted: int | None = None, first: int = 1) -> None:
    """Start, and state `milestones` milestones. The customer acknowledges `counted` of them."""
    chain.start(keys)
    for number in range(first, first + milestones):
        chain.report(keys, number)
        if counted is None or number < first + counted:
            chain.count(number)


def finish_and_pass(chain: TaskChain, keys: Keys) -> None:
    """State the result, and let its claim pass."""
    chain.finish(keys)
    assert chain.state() is TaskState.CLAIMED
    chain.until(TaskState.ENDED)
