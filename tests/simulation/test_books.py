"""Books that follow a chain: an extra grain is found in its block, and so is money that a claim lacks."""

from collections.abc import Callable

import pytest

from claimed_tasks import FEE, PAID, K, claimed
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.training.purses import slot_hold
from gpu_tasks.market.training.tasks import TASK_ESCROW, slot_case
from gpu_tasks.market.training.training_market import TrainingMarket
from runtime.frame.holds import Hold
from runtime.frame.runtime import Bound
from runtime.pallets.balances import Balances
from simulation import books, catalogue
from simulation.books import BooksBroken
from simulation.chains.market_chain import CUSTOMER, MarketChain, named_keys, signed, terms
from task_chain import TaskChain

POST = signed(CUSTOMER.stash, InferenceMarket.post(service=0, units=(terms(),)))


def too_rich(bound: Bound) -> None:
    """Add a grain that was never issued."""
    bound[Balances].credit(CUSTOMER.stash, 1)


@pytest.fixture
def chain() -> MarketChain:
    """Return a chain whose books were counted once."""
    made = MarketChain(named_keys(3))
    made.block(POST)
    return made


def test_a_grain_too_many_breaks_the_books_in_its_block(chain: MarketChain, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(books, "Books", None)  # counted once, not again
    chain.blocks(20)
    chain.block(POST)
    with pytest.raises(BooksBroken):
        chain.block(too_rich)


def test_books_that_broke_are_counted_anew(chain: MarketChain) -> None:
    for step in (too_rich, POST):
        with pytest.raises(BooksBroken):
            chain.block(step)


def test_a_state_that_was_put_there_is_counted_anew(chain: MarketChain) -> None:
    before = chain.state
    bound = chain.now()
    too_rich(bound)
    chain.state = before.updated(bound.overlay.changes())
    with pytest.raises(BooksBroken):
        chain.block(POST)
    chain.state = before
    chain.block(POST)


def collateral_of(chain: TaskChain) -> tuple[bytes, Hold]:
    slot = chain.now().slots[0]
    return slot.provider, slot_hold(chain.task, chain.now(), slot)


def escrow_of(chain: TaskChain) -> tuple[bytes, Hold]:
    return CUSTOMER.stash, Hold(TASK_ESCROW, slot_case(chain.task, 0))


@pytest.mark.parametrize(("hold_of", "left"), [(collateral_of, K - 1), (escrow_of, PAID + 2 * FEE - 1)])
def test_money_that_a_claim_of_a_task_needs_is_held(
    hold_of: Callable[[TaskChain], tuple[bytes, Hold]], left: int
) -> None:
    chain, _ = claimed()
    bound, (who, hold) = chain.chain.now(), hold_of(chain)
    catalogue.check_books(bound, chain.chain.issued)
    lock = bound[TrainingMarket].lock
    lock.unlock(who, hold, lock.locked(who, hold) - left)
    with pytest.raises(AssertionError):
        catalogue.check_books(bound, chain.chain.issued)
