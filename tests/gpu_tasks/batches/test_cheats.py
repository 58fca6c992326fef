"""No lie about a batch pays: each against 1,000 batches, by the exact probability and by the draws of beacons.

Checkers are honest here. `simulation/claims_game.py` has the collateral against dishonest ones.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from itertools import accumulate
from random import Random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from devnet.stage.cheating import lies
from devnet.stage.cheating.lies import RightAnswers, ToldBatch
from gpu_tasks.batches.item_draws import BEACONS, part_length, points_by_beacon
from gpu_tasks.batches.leaf_draws import WHOLE, leaf_weight, total_weight, weight_floor
from gpu_tasks.batches.leaves import Leaf, leaves_of
from gpu_tasks.batches.outcomes import BatchOutcome, Completed, RefusedRequest
from gpu_tasks.batches.sum_tree import Totals, batch_root, totals_of
from gpu_tasks.market.claims.collateral import RATES_PPM, item_rate, least_collateral
from runtime.cryptography.hashing import blake2_256

# Batches, providers that lie about them, and the gain of each lie by the rules of `gpu_tasks.batches`, in grains.
#
# A cheat is a function from a batch to a claim. Its gain is its pay and its savings against an honest provider. On
# discovery it loses the collateral and its pay. Probabilities are exact fractions, and draws are the chain's.
PRICE = 10**12
"""The customer's greatest price, in grains."""
RATE_PPM = RATES_PPM[0]
"""The chance that an item of a small batch is drawn."""
GENESIS, SALT = bytes(32), bytes([9]) * 32
SIZES = (2, 3, 8, 31, 32, 33, 66)
SHARES = (0, 100_000, 250_000, WHOLE)


@dataclass(frozen=True)
class TrueBatch:
    """A batch with its right outcomes and the allowed output tokens of each request."""

    unit: bytes
    share: int
    tokens_in: tuple[int, ...]
    most: tuple[int, ...]
    outcomes: tuple[BatchOutcome, ...]
    leaves: tuple[Leaf, ...]

    @property
    def right(self) -> RightAnswers:
        return RightAnswers(GENESIS, self.unit, SALT, self.outcomes, self.most)

    @property
    def size(self) -> int:
        return len(self.leaves)

    @property
    def allowed(self) -> int:
        """Return the allowed work of the price, in millionths of an output token."""
        return self.work(sum(self.tokens_in), sum(self.most))

    def work(self, tokens_in: int, tokens_out: int) -> int:
        return tokens_in * self.share + tokens_out * WHOLE

    def pay(self, work: int) -> int:
        return PRICE * work // self.allowed

    def paid(self, totals: Totals) -> int:
        return self.pay(self.work(totals.tokens_in, totals.tokens_out))


@dataclass(frozen=True)
class Claim:
    """A provider's claim, the leaves that it can deliver, and its real work."""

    totals: Totals
    leaves: tuple[Leaf, ...]
    computed: int


Cheat = Callable[[TrueBatch, Random], Claim]


def seeded_batches(
    count: int, *, sizes: tuple[int, ...] = SIZES, shares: tuple[int, ...] = SHARES
) -> Iterator[TrueBatch]:
    """Yield seeded batches: short and long inputs, outputs that end early, and invalid requests (1 in 20)."""
    chance = Random("batches")
    for number in range(count):
        size = chance.choice(sizes)
        longest_in, most_out = chance.choice((0, 50, 2_000)), chance.choice((1, 20, 400))
        yield true_batch(number, size, chance.choice(shares), longest_in, most_out, chance)


def true_batch(number: int, size: int, share: int, longest_in: int, most_out: int, chance: Random) -> TrueBatch:
    unit = blake2_256(number.to_bytes(4, "little"))
    tokens_in = tuple(chance.randint(0, longest_in) for _ in range(size))
    most = tuple(chance.randint(1, most_out) for _ in range(size))
    outcomes = tuple(
        RefusedRequest() if chance.randrange(20) == 0 else Completed(b"true", read, chance.randint(0, limit))
        for read, limit in zip(tokens_in, most, strict=True)
    )
    return TrueBatch(unit, share, tokens_in, most, outcomes, leaves_of(GENESIS, unit, SALT, outcomes))


# ---------------------------------------------------------------------------------------------------------- the cheats
def honest(batch: TrueBatch, chance: Random) -> Claim:
    return claim_with(batch, {})


def one_wrong(batch: TrueBatch, chance: Random) -> Claim:
    return not_computed(batch, lies.one_wrong(batch.right, chance))


def a_tenth_wrong(batch: TrueBatch, chance: Random) -> Claim:
    return not_computed(batch, lies.a_tenth_wrong(batch.right, chance))


def all_wrong(batch: TrueBatch, chance: Random) -> Claim:
    return not_computed(batch, lies.all_wrong(batch.right, chance))


def dearest_wrong(batch: TrueBatch, chance: Random) -> Claim:
    """Return the leaf that saves most."""
    dearest = max(range(batch.size), key=lambda index: work_of(batch, batch.outcomes[index]))
    return not_computed(batch, lies.wrong_at(batch.right, [dearest]))


def all_inflation_in_one_leaf(batch: TrueBatch, chance: Random) -> Claim:
    """Compute everything, and let one leaf claim all tokens that the price allows beyond the true ones."""
    index = chance.randrange(batch.size)
    return claim_with(batch, {index: inflated(batch, index, batch.right.unused)})


def inflation_in_a_leaf_that_is_not_computed(batch: TrueBatch, chance: Random) -> Claim:
    index = chance.randrange(batch.size)
    return claim_with(batch, {index: inflated(batch, index, batch.right.unused)}, skipped=[index])


def padding(batch: TrueBatch, chance: Random) -> Claim:
    return claimed(batch, lies.padded_outputs(batch.right, chance))


def cut_short(batch: TrueBatch, chance: Random) -> Claim:
    """Compute half of each output, with half of the work."""
    claim = claimed(batch, lies.halved_outputs(batch.right, chance))
    return replace(claim, computed=batch.work(claim.totals.tokens_in, claim.totals.tokens_out))


def errors_for_good_requests(batch: TrueBatch, chance: Random) -> Claim:
    return not_computed(batch, lies.errors_for_good_requests(batch.right, chance))


def outputs_for_bad_requests(batch: TrueBatch, chance: Random) -> Claim:
    bad = [index for index, outcome in enumerate(batch.outcomes) if isinstance(outcome, RefusedRequest)]
    return claim_with(batch, {index: Completed(b"false", batch.tokens_in[index], batch.most[index]) for index in bad})


def totals_over_honest_leaves(batch: TrueBatch, chance: Random) -> Claim:
    return claimed(batch, lies.totals_over_true_leaves(batch.right, chance))


def fewer_leaves_stated_as_all(batch: TrueBatch, chance: Random) -> Claim:
    """Leave out the last request, while the totals claim a leaf for every request."""
    cut = batch.leaves[:-1]
    totals = replace(totals_of(cut), requests=batch.size)
    computed = sum(work_of(batch, outcome) for outcome in batch.outcomes[:-1])
    return Claim(totals, cut, computed)


def claimed(batch: TrueBatch, told: ToldBatch, skipped: Sequence[int] = ()) -> Claim:
    """Return a claim of a provider that computed all but the skipped leaves."""
    computed = sum(work_of(batch, outcome) for outcome in batch.outcomes)
    computed -= sum(work_of(batch, batch.outcomes[index]) for index in skipped)
    return Claim(told.totals, told.leaves, computed)


def not_computed(batch: TrueBatch, told: ToldBatch) -> Claim:
    """Return a claim of a provider that computed only its true statements."""
    pairs = enumerate(zip(told.outcomes, batch.outcomes, strict=True))
    return claimed(batch, told, [index for index, (said, true) in pairs if said != true])


def claim_with(batch: TrueBatch, changed: Mapping[int, BatchOutcome], skipped: Sequence[int] = ()) -> Claim:
    """Return a claim with some outcomes of another kind."""
    return claimed(batch, lies.batch_with(batch.right, changed), skipped)


def inflated(batch: TrueBatch, index: int, more: int) -> Completed:
    """Return a made-up output with `more` extra tokens."""
    true = batch.outcomes[index]
    tokens_out = true.tokens_out if isinstance(true, Completed) else 0
    return Completed(b"inflated", batch.leaves[index].tokens_in, tokens_out + more)


def work_of(batch: TrueBatch, outcome: BatchOutcome) -> int:
    return batch.work(outcome.tokens_in, outcome.tokens_out) if isinstance(outcome, Completed) else 0


# -------------------------------------------------------------------------------------------------------- the reckoning
@dataclass(frozen=True)
class Reckoning:
    """The balance of a claim against an honest one, in grains. Work costs a share of its pay."""

    overpaid: int
    """The pay beyond an honest claim's, negative for forgone pay."""
    skipped: int
    """The pay for work that was not done."""
    at_stake: int
    """The loss on discovery: the collateral, and all its pay."""
    chance: Fraction
    caught: tuple[bool, ...]

    def gain(self, cost_share: int) -> int:
        """Return the gain without any audit."""
        return self.overpaid + cost_share * self.skipped

    def expected(self, cost_share: int) -> Fraction:
        return self.gain(cost_share) - self.chance * self.at_stake

    def drawn(self, cost_share: int) -> Fraction:
        """The mean over the draws."""
        return self.gain(cost_share) - Fraction(self.at_stake * sum(self.caught), len(self.caught))

    @property
    def variance(self) -> Fraction:
        """Return the variance of the mean over the draws."""
        return self.chance * (1 - self.chance) * self.at_stake**2 / len(self.caught)


def reckon(batch: TrueBatch, claim: Claim, draw_count: int) -> Reckoning:
    """Evaluate the claim before `draw_count` draws."""
    floor = weight_floor(-(-batch.allowed // WHOLE), batch.size)
    line = total_weight(replace(claim.totals, requests=batch.size), floor, input_share=batch.share)
    length = part_length(line, batch.size, item_rate(batch.size, RATE_PPM))
    sound = sound_stretches(batch, claim, floor, batch.share)
    paid, true_pay = batch.paid(claim.totals), batch.pay(sum(work_of(batch, outcome) for outcome in batch.outcomes))
    return Reckoning(
        overpaid=paid - true_pay,
        skipped=true_pay - batch.pay(claim.computed),
        at_stake=least_collateral(PRICE, items=batch.size, rate_ppm=RATE_PPM, vote_fee=0) + paid,
        chance=chance_of_a_hit(sound, line, length),
        caught=tuple(
            any(
                not any(start <= point < end for start, end in sound)
                for _, point in points_by_beacon(seeds_of(number), batch.unit, line, length)
            )
            for number in range(draw_count)
        ),
    )


def chance_of_a_hit(sound: list[tuple[int, int]], line: int, length: int) -> Fraction:
    """Return the chance that a draw has a point outside the sound stretches: each part has one uniform point."""
    missed = Fraction(1)
    for begin in range(0, line, length):
        stretches = [*sound, (line, begin + length)]
        safe = sum(max(0, min(end, begin + length) - max(start, begin)) for start, end in stretches)
        missed *= Fraction(safe, length)
    return 1 - missed


def sound_stretches(batch: TrueBatch, claim: Claim, floor: int, share: int) -> list[tuple[int, int]]:
    """Return the parts of the line with right leaves. A claim without a delivery has none."""
    if totals_of(claim.leaves) != claim.totals:
        return []
    ends = list(accumulate((leaf_weight(leaf, floor, input_share=share) for leaf in claim.leaves), initial=0))
    pairs = enumerate(zip(claim.leaves, batch.leaves, strict=True))
    return [(ends[index], ends[index + 1]) for index, (told, right) in pairs if told == right]


@cache
def seeds_of(number: int) -> list[bytes]:
    return [blake2_256(b"beacon" + bytes((number, place))) for place in range(BEACONS)]


BATCHES = 1_000 if os.environ.get("HYPOTHESIS_PROFILE") in ("properties", "soak") else 100
DRAWS = 8
FREE, DEAR = 0, 1
"""Shares of the pay that work costs: nothing, and all of it, where skipped work saves most."""

LIES: list[Cheat] = [
    one_wrong,
    a_tenth_wrong,
    all_wrong,
    dearest_wrong,
    all_inflation_in_one_leaf,
    inflation_in_a_leaf_that_is_not_computed,
    totals_over_honest_leaves,
    padding,
    cut_short,
    errors_for_good_requests,
    outputs_for_bad_requests,
    fewer_leaves_stated_as_all,
]


HOPELESS = {
    (one_wrong, FREE),
    (a_tenth_wrong, FREE),
    (all_wrong, FREE),
    (dearest_wrong, FREE),
    (cut_short, FREE),
    (cut_short, DEAR),
    (errors_for_good_requests, FREE),
    (errors_for_good_requests, DEAR),
    (fewer_leaves_stated_as_all, FREE),
    (fewer_leaves_stated_as_all, DEAR),
}
"""Lies without gain even if unaudited: they save free work, or forgo as much as they save."""


@cache
def population() -> tuple[TrueBatch, ...]:
    return tuple(seeded_batches(BATCHES))


@cache
def tried(cheat: Cheat) -> list[Reckoning]:
    chance = Random(cheat.__name__)
    return [reckon(batch, cheat(batch, chance), DRAWS) for batch in population()]


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


def test_an_honest_provider_is_never_caught() -> None:
    for batch in population():
        reckoning = reckon(batch, honest(batch, Random(0)), DRAWS)
        assert (reckoning.gain(DEAR), reckoning.chance) == (0, Fraction(0))
        assert not any(reckoning.caught)


def test_fewer_leaves_than_requests_are_refused_by_their_count() -> None:
    """A true count differs from the unit's count, and a false one has another root."""
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
    """Any false leaves with any claims, also with few tokens a request, where the floor is mostly rounding."""
    chance = Random(number)
    batch = true_batch(number, len(limits), share, tokens_in, 1, chance)
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
    claim = claim_with(batch, false, list(skipped))
    assume(batch.work(claim.totals.tokens_in, claim.totals.tokens_out) <= batch.allowed)
    for cost_share in (FREE, DEAR):
        assert reckon(batch, claim, 1).expected(cost_share) <= 0
