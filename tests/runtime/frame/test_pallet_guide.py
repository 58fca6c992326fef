"""The example of `docs/pallets.md` works unchanged."""

from pathlib import Path

from guide_code import guide_module
from runtime.pallets.balances import Balances
from runtime.pallets.hold_book import HeldAmount
from small_chain import ALICE, SmallChain, runtime_of

THING = b"x" * 32


def test_the_example_of_the_guide_is_a_pallet(tmp_path: Path) -> None:
    shelves = guide_module("docs/pallets.md", tmp_path / "shelves.py")
    chain = SmallChain(runtime_of(shelves.Shelves))
    chain.author(chain.signed(ALICE, shelves.Shelves.keep(thing=THING)))
    assert shelves.Kept(ALICE.account, THING) in chain.happened()
    assert chain.bound[shelves.Shelves].total.get() == 1
    assert chain.bound[Balances].holds[ALICE.account] == (HeldAmount(shelves.SHELF, 10**8),)
    chain.author(chain.signed(ALICE, shelves.Shelves.take(thing=THING)))
    assert chain.bound[shelves.Shelves].total.get() == 0
    assert chain.bound[Balances].holds[ALICE.account] == ()
