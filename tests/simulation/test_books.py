"""Books that follow a chain: an extra grain is found in its block, also after a state that a test inserts."""

import pytest

from gpu_tasks.market.inference.inference import InferenceMarket
from runtime.frame.runtime import Bound
from runtime.pallets.balances import Balances
from simulation import books
from simulation.books import BooksBroken
from simulation.chains.market_chain import CUSTOMER, MarketChain, named_keys, signed, terms

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
