"""No lie about a batch earns anything: each against 1,000 batches, by the exact chance and by the draws of beacons.

docs/batches.md has the formula: a lie gains at most what its false leaves are paid, and risks at least that.
"""

import os
from dataclasses import replace
from fractions import Fraction
from functools import cache
from random import Random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import batch_cheats
from batch_cheats import PRICE, Cheat, Reckoning, Rules, TrueBatch, reckon
from gpu_tasks.batches.leaf_draws import WHOLE
from gpu_tasks.batches.outcomes import Completed, RefusedRequest
from gpu_tasks.batches.sum_tree import batch_root, totals_of

BATCHES = 1_000 if os.environ.get("HYPOTHESIS_PROFILE") in ("properties", "soak") else 100
BEACONS = 8
FREE, DEAR = 0, 1
"""Shares of the pay that work costs: nothing, and all of it, where what is saved by not working is worth most."""

LIES: list[Cheat] = [
    batch_cheats.one_wrong,
    batch_cheats.a_tenth_wrong,
    batch_cheats.all_wrong,
    batch_cheats.dearest_wrong,
    batch_cheats.all_inflation_in_one_leaf,
    batch_cheats.inflation_in_a_leaf_that_is_not_computed,
    batch_cheats.totals_over_honest_leaves,
    batch_cheats.tokens_beside_a_right_node,
    batch_cheats.padding,
    batch_cheats.cut_short,
    batch_cheats.errors_for_good_requests,
    batch_cheats.outputs_for_bad_requests,
    batch_cheats.fewer_leaves_stated_as_all,
]


HOPELESS = {
    (batch_cheats.one_wrong, FREE),
    (batch_cheats.a_tenth_wrong, FREE),
    (batch_cheats.all_wrong, FREE),
    (batch_cheats.dearest_wrong, FREE),
    (batch_cheats.cut_short, FREE),
    (batch_cheats.cut_short, DEAR),
    (batch_cheats.errors_for_good_requests, FREE),
    (batch_cheats.errors_for_good_requests, DEAR),
    (batch_cheats.fewer_leaves_stated_as_all, FREE),
    (batch_cheats.fewer_leaves_stated_as_all, DEAR),
}
"""Lies that would gain nothing if nobody looked: they save what costs nothing, or forgo as much as they save."""


@cache
def population() -> tuple[TrueBatch, ...]:
    return tuple(batch_cheats.batches(BATCHES))


@cache
def tried(cheat: Cheat) -> list[Reckoning]:
    chance = Random(cheat.__name__)
    return [reckon(batch, cheat(batch, chance), Rules(), BEACONS) for batch in population()]


@pytest.mark.parametrize("cost_share", [FREE, DEAR], ids=["free", "dear"])
@pytest.mark.parametrize("cheat", LIES, ids=lambda cheat: cheat.__name__)
def test_a_lie_earns_nothing(cheat: Cheat, cost_share: int) -> None:
    reckonings = tried(cheat)
    assert all(reckoning.expected(cost_share) <= 0 for reckoning in reckonings)
    drawn = sum(reckoning.drawn(cost_share) for reckoning in reckonings)
    expected = sum(reckoning.expected(cost_share) for reckoning in reckonings)
    assert drawn < 0
    assert (drawn - expected) ** 2 <= 16 * sum(reckoning.variance for reckoning in reckonings)
    would_gain = any(reckoning.gain(cost_share) > 0 for reckoning in reckonings)
    assert would_gain == ((cheat, cost_share) not in HOPELESS)


@pytest.mark.parametrize("cheat", LIES, ids=lambda cheat: cheat.__name__)
def test_a_fifth_of_the_looks_may_be_worth_nothing(cheat: Cheat) -> None:
    """The margin of the formula is a quarter, where what the floor is rounded up by does not count."""
    for batch, reckoning in zip(population(), tried(cheat), strict=True):
        if batch.allowed >= 40 * batch.size * WHOLE:
            assert reckoning.gain(DEAR) <= Fraction(4, 5) * reckoning.chance * reckoning.at_stake


def test_an_honest_provider_is_never_caught() -> None:
    for batch in population():
        reckoning = reckon(batch, batch_cheats.honest(batch, Random(0)), Rules(), BEACONS)
        assert (reckoning.gain(DEAR), reckoning.chance) == (0, Fraction(0))
        assert not any(reckoning.caught)


def test_fewer_leaves_than_requests_are_refused_by_their_count() -> None:
    """Stated as what they are, they are not what the unit asks for; as more, they have another root."""
    for batch in population():
        cut = totals_of(batch.leaves[:-1])
        assert cut.requests < batch.size
        assert batch_root(replace(cut, requests=batch.size)) != batch_root(cut)


@given(
    limits=st.lists(st.integers(1, 4), min_size=1, max_size=5),
    tokens_in=st.integers(0, 9),
    share=st.sampled_from([0, 100_000, WHOLE]),
    number=st.integers(0, 10_000),
    data=st.data(),
)
def test_no_lie_at_all_earns(limits: list[int], tokens_in: int, share: int, number: int, data: st.DataObject) -> None:
    """Any false leaves with any claims: at few tokens a request too, where the floor is mostly rounding."""
    chance = Random(number)
    batch = batch_cheats.true_batch(number, len(limits), share, tokens_in, 1, chance)
    batch = replace(batch, most=tuple(limits))
    false = data.draw(
        st.dictionaries(
            st.integers(0, batch.size - 1),
            st.one_of(
                st.just(RefusedRequest()),
                st.builds(
                    Completed, output=st.just(b"false"), tokens_in=st.integers(0, 9), tokens_out=st.integers(0, 20)
                ),
            ),
        )
    )
    skipped = data.draw(st.sets(st.sampled_from(sorted(false)))) if false else set()
    claim = batch_cheats.claim_with(batch, false, list(skipped))
    assume(batch.work(claim.totals.tokens_in, claim.totals.tokens_out) <= batch.allowed)
    for cost_share in (FREE, DEAR):
        assert reckon(batch, claim, Rules(), 1).expected(cost_share) <= 0


def worth(cheat: Cheat, batches: list[TrueBatch], rules: Rules) -> Fraction:
    """What a lie earns beside an honest provider, as drawn, over so many batches, in prices."""
    chance = Random(cheat.__name__)
    reckonings = [reckon(batch, cheat(batch, chance), rules, BEACONS) for batch in batches]
    return sum((reckoning.drawn(DEAR) for reckoning in reckonings), Fraction(0)) / PRICE


def early_ends(longest_in: int, share: int) -> list[TrueBatch]:
    """32 requests, so one leaf is looked at, of 400 tokens that end after a token: most is left to be claimed."""
    chance = Random("early ends")
    batches = [batch_cheats.true_batch(number, 32, share, longest_in, 1, chance) for number in range(100)]
    return [replace(batch, most=(400,) * 32) for batch in batches]


def the_same_for_all(allowed: int, requests: int) -> int:
    """A floor that leaves nothing to what a leaf claims."""
    return 10**9


BROKEN = {
    "collateral of a fourth of the price": (Rules(collateral=PRICE // 4), 0, WHOLE),
    "every leaf as likely": (Rules(floor=the_same_for_all), 0, WHOLE),
    "inputs that weigh more than they are paid": (Rules(weighs_inputs_as_paid=False), 20_000, 100_000),
}


@pytest.mark.parametrize(("rules", "longest_in", "share"), BROKEN.values(), ids=BROKEN.keys())
def test_without_a_rule_a_lie_earns(rules: Rules, longest_in: int, share: int) -> None:
    """What each rule is for: the same reckoning, with one of them broken, finds a lie that pays."""
    batches = early_ends(longest_in, share)
    assert worth(batch_cheats.all_inflation_in_one_leaf, batches, rules) > 0
    assert worth(batch_cheats.all_inflation_in_one_leaf, batches, Rules()) < 0
