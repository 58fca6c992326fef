"""The second example of `docs/pallets.md` works unchanged: an origin, a filter, three keys, a migration."""

from types import ModuleType

import pytest

from guide_code import guide_module
from runtime.frame.call import Call
from runtime.frame.errors import BadOrigin, CallFiltered, ErrorValue
from runtime.frame.storage import StateCorrupted, storage_prefix
from runtime.frame.storage_version import version_key, version_value
from runtime.pallets.balances import Balances
from runtime.pallets.system import ExtrinsicFailed, System
from runtime.pallets.utility import Utility
from runtime.state.trie import Trie
from small_chain import ALICE, BOB, CHARLIE, Person, SmallChain, runtime_of

THING, OTHER, RANK = b"x" * 32, b"y" * 32, 3
REMARK = System.remark(remark=b"seen")
TRANSFER = Balances.transfer_keep_alive(dest=BOB.account, value=5)


@pytest.fixture(scope="module")
def deeds(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return guide_module("docs/pallets.md", tmp_path_factory.mktemp("guide") / "deeds.py", 1)


@pytest.fixture
def chain(deeds: ModuleType) -> SmallChain:
    """Return a chain on which Bob holds a deed of Alice's for the thing."""
    chain = SmallChain(runtime_of(deeds.Deeds))
    assert made(chain, ALICE, deeds.Deeds.give(steward=BOB.account, thing=THING, rank=RANK)) is None
    return chain


def made(chain: SmallChain, person: Person, call: Call) -> ErrorValue | None:
    """Return the error of a call in its block, or None."""
    chain.author(chain.signed(person, call))
    failed = [each.dispatch_error for each in chain.happened() if isinstance(each, ExtrinsicFailed)]
    return failed[0] if failed else None


def test_a_steward_makes_the_filters_calls_and_no_others(deeds: ModuleType, chain: SmallChain) -> None:
    def acts(person: Person, inner: Call, thing: bytes = THING) -> ErrorValue | None:
        return made(chain, person, deeds.Deeds.act_for(owner=ALICE.account, thing=thing, inner=inner))

    assert acts(BOB, REMARK) is None
    assert acts(BOB, TRANSFER) == acts(BOB, Utility.batch_all(calls=(REMARK,))) == CallFiltered().value
    assert acts(CHARLIE, REMARK) == acts(BOB, REMARK, OTHER) == deeds.NoDeed().value


def test_the_origin_is_the_pallets_alone(deeds: ModuleType, chain: SmallChain) -> None:
    inspect = deeds.Deeds.inspect(thing=THING)
    assert made(chain, BOB, inspect) == BadOrigin().value
    assert made(chain, BOB, deeds.Deeds.act_as_steward(owner=ALICE.account, thing=THING, inner=inspect)) is None
    assert chain.bound[deeds.Deeds].last[THING] == deeds.Steward(RANK)


def test_deeds_are_listed_by_one_key_and_by_two(deeds: ModuleType, chain: SmallChain) -> None:
    ranks = chain.bound[deeds.Deeds].ranks
    assert list(ranks.under(ALICE.account)) == [((BOB.account, THING), RANK)]
    assert list(ranks.under(ALICE.account, BOB.account)) == [(THING, RANK)]
    assert list(ranks.under(BOB.account)) == []


def test_the_state_of_version_0_is_counted_in_the_next_block_and_once(deeds: ModuleType, chain: SmallChain) -> None:
    total, version = storage_prefix("Deeds", "Total"), version_key("Deeds")
    without(chain, total, version)
    assert chain.bound[deeds.Deeds].total.get() == 0
    chain.author()
    assert chain.bound[deeds.Deeds].total.get() == 1
    assert chain.state.values[version] == version_value(deeds.VERSION)
    without(chain, total)
    chain.author()
    assert chain.bound[deeds.Deeds].total.get() == 0, "it was counted again"


def test_a_state_of_a_newer_program_stops_the_chain(deeds: ModuleType, chain: SmallChain) -> None:
    chain.state = chain.state.updated({version_key("Deeds"): version_value(deeds.VERSION + 1)})
    with pytest.raises(StateCorrupted):
        chain.author()


def without(chain: SmallChain, *keys: bytes) -> None:
    """Remove storage, as if no program had written it."""
    chain.state = chain.state.updated(dict.fromkeys(keys))
    chain.trie = Trie(chain.state.values)
