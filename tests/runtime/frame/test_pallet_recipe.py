"""The example of CONTRIBUTING.md, a pallet with an agenda item, a hold and a parameter, works as it stands there."""

from typing import Any

import pytest

from guide_code import guide_module
from runtime.frame.parameter import ParameterChange
from runtime.pallets.balances import Balances
from runtime.pallets.chain_parameters import ChainParameters
from runtime.pallets.hold_book import HeldAmount
from runtime.pallets.sudo import Sudo
from small_chain import ALICE, BOB, SmallChain, runtime_of

FIRST, SECOND = b"1" * 32, b"2" * 32
OGPU = 10**8


@pytest.fixture(scope="module")
def lockers(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return guide_module("CONTRIBUTING.md", tmp_path_factory.mktemp("recipe") / "lockers.py")


@pytest.fixture(scope="module")
def runtime(lockers: Any) -> Any:
    return runtime_of(lockers.Lockers, ChainParameters)


def test_a_thing_is_kept_for_its_term_and_the_deposit_comes_back(lockers: Any, runtime: Any) -> None:
    chain = SmallChain(runtime)
    chain.author(chain.signed(BOB, lockers.Lockers.keep(thing=FIRST)))
    assert chain.bound[Balances].holds[BOB.account] == (HeldAmount(lockers.LOCKER, OGPU),)
    for _ in range(9):
        chain.author()
        assert FIRST in chain.bound[lockers.Lockers].things
    chain.author()
    assert lockers.Returned(FIRST) in chain.happened()
    assert chain.bound[Balances].holds[BOB.account] == ()


def test_a_change_of_the_parameters_meets_only_what_is_kept_later(lockers: Any, runtime: Any) -> None:
    chain = SmallChain(runtime)
    chain.author(chain.signed(BOB, lockers.Lockers.keep(thing=FIRST)))
    for parameter, value in ((lockers.Lockers.deposit, 3 * OGPU), (lockers.Lockers.term, 2)):
        change = ParameterChange(parameter, value)
        chain.author(chain.signed(ALICE, Sudo.sudo(call=ChainParameters.set_parameter(change=change))))
    chain.author(chain.signed(BOB, lockers.Lockers.keep(thing=SECOND)))
    assert chain.bound[Balances].holds[BOB.account] == (HeldAmount(lockers.LOCKER, 4 * OGPU),)
    returned = []
    while chain.head.number < 12:
        chain.author()
        events = [event for event in chain.happened() if isinstance(event, lockers.Returned)]
        returned += [(chain.head.number, event.thing) for event in events]
    assert returned == [(6, SECOND), (11, FIRST)]
    assert chain.bound[Balances].holds[BOB.account] == ()
