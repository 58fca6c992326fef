"""A replicated task on a separate chain: ordered, offered, committed, opened."""

from typing import Any

from gpu_tasks.market.training.life.submitting import looks
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.orders import CheckedBy
from gpu_tasks.market.training.replicas import replica_commitment
from gpu_tasks.market.training.tasks import TaskState
from gpu_tasks.market.training.training_market import TrainingMarket
from simulation.chains.market_chain import CUSTOMER, GENESIS_HASH, OGPU, Keys, signed
from task_chain import LOOKS, PRICE, RIGHT, Books, TaskChain, a_result, with_offers

PAY = 7 * OGPU
"""The pay of each replica: the second price of the auction."""
COLLATERAL = PRICE
"""The least: the greatest price."""
LOST = PAY // 4
"""The loss of a replica that commits to nothing in time."""
SALT = b"s" * 32


def ordered(size: int = 10, **order: Any) -> tuple[TaskChain, Books]:
    """Order three replicas. Alice has the first place, and the others are open."""
    chain = TaskChain(size=size)
    books = Books(chain)
    fields = {"checked_by": CheckedBy.REPLICATED, "slots": 3, "milestones": 1, "run_blocks": 0, "auctions": 1}
    chain.submit(**{**fields, **order})
    least = chain.now().terms.collateral_min
    chain.auction(with_offers(chain.keys, 6 * OGPU, PAY, collateral=least))
    assert chain.state() is TaskState.VOLUNTEERING
    chain.block()  # Bob, who did not win, is released
    return chain, books


def offer(chain: TaskChain, *whose: Keys) -> None:
    """Make a block in which these offer their first devices."""
    calls = [TrainingMarket.volunteer(task=chain.task, device=keys.device) for keys in whose]
    chain.block(*(signed(keys.provider, call) for keys, call in zip(whose, calls, strict=True)))


def workers(chain: TaskChain) -> list[Keys]:
    """Return the providers of the working places."""
    return [next(keys for keys in chain.keys if keys.stash == slot.provider) for slot in chain.now().slots]


def replicated(size: int = 10, **order: Any) -> tuple[TaskChain, Books, list[Keys]]:
    """Return three started replicas."""
    chain, books = ordered(size, **order)
    offer(chain, *chain.keys[1:7])
    chain.until(TaskState.STARTING)
    return chain, books, begin(chain)


def begin(chain: TaskChain) -> list[Keys]:
    """Start all drawn replicas."""
    found = workers(chain)
    calls = [TrainingMarket.start(task=chain.task, place=place) for place in range(len(found))]
    chain.block(*(signed(keys.provider, call) for keys, call in zip(found, calls, strict=True)))
    assert chain.state() is TaskState.RUNNING
    return found


def bind_call(chain: TaskChain, keys: Keys, place: int, root: bytes = RIGHT) -> Any:
    """Return the call that commits a provider to a result."""
    sealed = replica_commitment(GENESIS_HASH, chain.task, place, keys.stash, a_result(keys, root), SALT)
    return TrainingMarket.finish(task=chain.task, place=place, result=a_result(keys, sealed))


def bind(chain: TaskChain, keys: Keys, place: int, root: bytes = RIGHT) -> None:
    """Make a block in which a provider commits."""
    chain.do(keys, bind_call(chain, keys, place, root))


def open_call(chain: TaskChain, keys: Keys, place: int, root: bytes = RIGHT, salt: bytes = SALT) -> Any:
    """Return the call that opens a commitment."""
    return TrainingMarket.open_result(task=chain.task, place=place, result=a_result(keys, root), salt=salt)


def compute(chain: TaskChain, whose: list[Keys], *roots: bytes) -> None:
    """Let all commit, and open."""
    for call in (bind_call, open_call):
        each = enumerate(zip(whose, roots, strict=True))
        chain.block(*(signed(keys.provider, call(chain, keys, place, root)) for place, (keys, root) in each))
    chain.block()


def open_all(chain: TaskChain, *whose: tuple[int, Keys]) -> None:
    """Open these in one block, which compares their results."""
    chain.block(*(signed(keys.provider, open_call(chain, keys, place)) for place, keys in whose))
    chain.until(TaskState.ENDED)


def spent(books: Books) -> int:
    """Return the customer's spending without the prepaid looks of one auction."""
    return books.change(CUSTOMER) - LOOKS + looks(1, 3) * 30_000


def outcomes(chain: TaskChain) -> list[TaskOutcome | None]:
    """Return the outcomes of all places."""
    return [slot.outcome for slot in chain.now().slots]
