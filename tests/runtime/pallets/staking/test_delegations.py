"""Positions in a pool against the naive rule: any sequence of steps, and a long seeded one."""

import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.encoding.codec import codec
from runtime.pallets.staking import delegations as dl
from runtime.pallets.staking.delegations import EraPosting, Pool, Position
from runtime.pallets.staking.share_pool import SharePool, is_spent, shares_for, strike, worth
from runtime.pallets.staking.slash_factors import Factors, Liability, SlashStep, left_of, remembered
from runtime.pallets.staking.slashing import PPM
from simulation.stakes.naive import Exact, Naive

# Stakes by accumulators beside the naive rule, which loops over everybody and keeps exact fractions.
#
# Both take the same steps. After each, `check` compares every account: never a grain above the naive rule, and below it
# by less than a grain for each step of its pool and of the account; and no grain is made or lost.
Pair = tuple[int, int]
"""A delegator and a validator."""
EVIDENCE_ERAS = 3


def name(number: int) -> bytes:
    """The account of a validator."""
    return bytes([number]) * 32


@dataclass
class Chunk:
    """Stake on its way out by the accumulators, beside what the naive rule says of it."""

    delegator: int
    amount: int
    answers: tuple[Liability, ...]
    exact: Exact
    touches: int


class Books:
    """A few validators, any number of delegators, and where every grain is."""

    def __init__(self, validators: int) -> None:
        self.validators = range(validators)
        self.era = 0
        self.pools = [Pool() for _ in self.validators]
        self.factors: list[Factors] = [() for _ in self.validators]
        self.slashed = [0 for _ in self.validators]
        self.offence_era = [0 for _ in self.validators]
        self.positions: dict[Pair, Position] = {}
        self.postings: dict[Pair, EraPosting] = {}
        self.chunks: list[Chunk] = []
        self.naive = Naive()
        self.touches: dict[Pair, int] = defaultdict(int)
        self.steps = [0 for _ in self.validators]
        self.paid: dict[Pair, int] = defaultdict(int)
        self.put_in = self.rewarded = self.withdrawn = self.taken = self.dust = self.returned = 0

    # ------------------------------------------------------------------------------------------------------ the steps

    def delegate(self, pair: Pair, amount: int, moved: Liability | None = None, exact: Exact | None = None) -> None:
        self.touch(pair)
        validator = pair[1]
        standing, dust = dl.enter(self.pools[validator], self.positions[pair], amount, self.era, moved)
        self.pools[validator], self.positions[pair] = standing.pool, standing.position
        self.dust += dust
        if exact is None:
            self.put_in += amount
            self.naive.enter(pair, Fraction(amount))
        else:
            self.naive.enter(pair, exact.amount, exact.answers)

    def undelegate(self, pair: Pair, amount: int) -> None:
        self.touch(pair)
        validator = pair[1]
        amount = min(amount, self.stake(pair))
        before = self.touches[pair] + self.steps[validator]
        parts = self._take(pair, amount)
        mine = Liability(name(validator), self.era, self.factors[validator])
        for moved, part, lot in parts:
            answers = (mine,) if moved is None else (mine, moved)
            exact = Exact(lot.amount, (*lot.answers, (validator, self.era)))
            self.naive.waiting.append(exact)
            self.chunks.append(Chunk(pair[0], part, answers, exact, before + 2))

    def redelegate(self, delegator: int, source: int, target: int, amount: int) -> None:
        """Only what answers for no other validator may move, and only where there is a place to remember it."""
        here, there = (delegator, source), (delegator, target)
        self.touch(here)
        self.touch(there)
        pool, position = self.pools[source], self.positions[here]
        amount = min(amount, worth(pool.stake, dl.free_shares(position)))
        if not amount or is_spent(self.pools[target].stake) or len(self.positions[there].moved) == dl.MOVED_MAX:
            return
        ((_, freed, lot),) = self._take(here, amount, free_only=True)
        mine = Liability(name(source), self.era, self.factors[source])
        self.touches[there] += self.touches[here] + self.steps[source] + 1
        self.delegate(there, freed, mine, Exact(lot.amount, ((source, self.era),)))

    def slash(self, validator: int, era: int, wanted: int) -> None:
        """Raise what the validator's offence costs; a slash that is raised is of the same offence."""
        if not self.slashed[validator]:
            self.offence_era[validator] = min(era, self.era)
        step = SlashStep(self.slashed[validator], max(wanted, self.slashed[validator]))
        era = self.offence_era[validator]
        struck = strike(self.pools[validator].stake, step)
        self.pools[validator] = replace(self.pools[validator], stake=struck.pool)
        self.factors[validator] = remembered(self.factors[validator], era, step)
        self.slashed[validator] = step.wanted
        self.taken += struck.amount
        if step.taken < PPM:
            self.naive.slash(validator, era, step)
        for pair in self.positions:
            self.touches[pair] += 1
        for chunk in self.chunks:
            chunk.touches += 1

    def forgive(self, validator: int) -> None:
        """Root lifts the tombstone: the next offence of the validator is another one."""
        if self.offence_era[validator] < self.era:
            self.slashed[validator] = 0

    def turn(self, rewards: list[int]) -> None:
        """End the era, and share its rewards."""
        for validator, reward in zip(self.validators, rewards, strict=True):
            pool = self.pools[validator]
            standing = {
                pair: position.shares - (position.joined if position.era == self.era else 0)
                for pair, position in self.positions.items()
                if pair[1] == validator
            }
            self.pools[validator], posting, left = dl.post(pool, reward, self.era)
            if posting is not None:
                self.postings[validator, self.era] = posting
            self.rewarded += reward
            self.returned += left
            for pair, shares in standing.items():
                if shares and not left:
                    self.naive.rewards[pair] += Fraction(reward * shares, sum(standing.values()))
        self.era += 1

    def claim(self, pair: Pair) -> int:
        self.touch(pair)
        standing, paid = dl.pay(self.pools[pair[1]], self.positions[pair])
        self.pools[pair[1]], self.positions[pair] = standing.pool, standing.position
        self.paid[pair] += paid
        return paid

    def compound(self, pair: Pair) -> None:
        if not is_spent(self.pools[pair[1]].stake):
            self.delegate(pair, self.claim(pair))

    def withdraw(self, place: int) -> None:
        """What waited is reckoned and free; the naive rule's part of it ends with it."""
        chunk = self.chunks.pop(place)
        self.naive.waiting = [exact for exact in self.naive.waiting if exact is not chunk.exact]
        self._check_chunk(chunk)
        value = self.value_of(chunk)
        self.withdrawn += value
        self.taken += chunk.amount - value

    # ---------------------------------------------------------------------------------------------------- what is what

    def stake(self, pair: Pair) -> int:
        """What an account has behind a validator, had it been touched now."""
        self.touch(pair)
        return worth(self.pools[pair[1]].stake, self.positions[pair].shares)

    def value_of(self, chunk: Chunk) -> int:
        value = chunk.amount
        for answered in chunk.answers:
            value = left_of(value, answered, self.factors[answered.validator[0]])
        return value

    def touch(self, pair: Pair) -> None:
        validator = pair[1]
        position = self.positions.get(pair, Position(index=self.pools[validator].index, era=self.era))
        key = (validator, position.era)
        posting = self.postings.get(key, EraPosting())
        position, posting = dl.touched(self.pools[validator], position, posting, self.era)
        if posting.shares:
            self.postings[key] = posting
        else:
            self.postings.pop(key, None)
        self.touches[pair] += 1 + len(position.moved)
        self.steps[validator] += 1 + len(position.moved)
        place = 0
        while place < len(position.moved):
            whom = position.moved[place].answer.validator[0]
            count = len(position.moved)
            after = dl.charge(self.pools[validator], position, place, self.factors[whom], self.era)
            self.pools[validator], position = after.pool, after.position
            self.taken += sum(amount for _, amount in after.amounts)
            self.dust += after.dust
            place += len(position.moved) == count
        self.positions[pair] = position
        self._forget_moves(pair)

    def check(self) -> None:
        """Every account against the naive rule, and every grain."""
        for pair in self.positions:
            ours, exact = self.stake(pair), self.naive.stake(pair)
            steps = self.steps[pair[1]] + self.touches[pair]
            assert ours <= exact < ours + 1 + steps, f"stake of {pair}: {ours}, not {float(exact)}"
            claimed, due = self.paid[pair] + self.positions[pair].owed, self.naive.rewards[pair]
            assert claimed <= due < claimed + 1 + self.touches[pair], f"reward of {pair}: {claimed}, not {float(due)}"
        for chunk in self.chunks:
            self._check_chunk(chunk)
        self.check_sums()

    def check_sums(self) -> None:
        """No grain is made, none is lost, and the sums are what they sum up."""
        in_pools = sum(pool.stake.value for pool in self.pools) + sum(chunk.amount for chunk in self.chunks)
        assert self.put_in == in_pools + self.withdrawn + self.taken + self.dust
        owed = sum(pool.owed for pool in self.pools)
        assert self.rewarded == owed + sum(self.paid.values()) + self.returned
        for validator, pool in enumerate(self.pools):
            behind = [position for pair, position in self.positions.items() if pair[1] == validator]
            assert pool.stake.shares == sum(position.shares for position in behind)
            assert pool.delegators == sum(position.shares > 0 for position in behind)
            assert pool.owed >= sum(position.owed for position in behind)
            assert pool.stake.value * 10**6 <= pool.stake.shares
            assert all(dl.free_shares(position) >= 0 for position in behind)
        assert all(posting.shares > 0 for posting in self.postings.values())

    # ------------------------------------------------------------------------------------------------------- the parts

    def _take(self, pair: Pair, amount: int, *, free_only: bool = False) -> list[tuple[Liability | None, int, Exact]]:
        validator, position = pair[1], self.positions[pair]
        pool = self.pools[validator]
        owned = dl.free_shares(position) if free_only else position.shares
        after = dl.depart(pool, position, shares_for(pool.stake, amount, owned), self.era)
        missing = amount - sum(part for _, part in after.amounts)
        assert 0 <= missing < max(1, len(after.amounts)), "who asks for what there is gets it, but for the parts' dust"
        self.pools[validator], self.positions[pair] = after.pool, after.position
        self.dust += after.dust
        return [
            (moved, part, self.naive.leave(pair, _pairs(moved), Fraction(part) if self._is_left(pair, moved) else None))
            for moved, part in after.amounts
        ]

    def _is_left(self, pair: Pair, moved: Liability | None) -> bool:
        """Whether shares with an answer like this remain in a position."""
        position = self.positions[pair]
        if moved is None:
            return dl.free_shares(position) > 0
        return any(_pairs(move.answer) == _pairs(moved) for move in position.moved)

    def _forget_moves(self, pair: Pair) -> None:
        """Evidence grew too old: what moved stands as if it never had."""
        position = self.positions[pair]
        kept = tuple(move for move in position.moved if move.answer.era + EVIDENCE_ERAS >= self.era)
        self.positions[pair] = replace(position, moved=kept)
        self.naive.forget(pair, {(move.answer.validator[0], move.answer.era) for move in kept})

    def _check_chunk(self, chunk: Chunk) -> None:
        value, exact = self.value_of(chunk), chunk.exact.amount
        assert value <= exact < value + 2 + chunk.touches, f"waiting: {value}, not {float(exact)}"


def _pairs(answered: Liability | None) -> tuple[Pair, ...]:
    return () if answered is None else ((answered.validator[0], answered.era),)


OGPU = 10**8
VALIDATORS = 3
DELEGATORS = 4
delegators = st.integers(0, DELEGATORS - 1)
validators = st.integers(0, VALIDATORS - 1)
pairs = st.tuples(delegators, validators)
amounts = st.one_of(st.integers(1, 50), st.integers(OGPU, 10**14))
rewards = st.lists(st.integers(0, 10**12), min_size=VALIDATORS, max_size=VALIDATORS)
Step = Callable[[Books], None]


def tried_delegation(books: Books, pair: tuple[int, int], amount: int) -> None:
    if not is_spent(books.pools[pair[1]].stake):
        books.delegate(pair, amount)


def tried_withdrawal(books: Books, place: int) -> None:
    if books.chunks:
        books.withdraw(place % len(books.chunks))


steps: st.SearchStrategy[Step] = st.one_of(
    st.builds(lambda pair, amount: lambda books: tried_delegation(books, pair, amount), pairs, amounts),
    st.builds(lambda pair, amount: lambda books: tried_delegation(books, pair, amount), pairs, amounts),
    st.builds(lambda pair, amount: lambda books: books.undelegate(pair, amount), pairs, amounts),
    st.builds(
        lambda who, here, there, amount: lambda books: here != there and books.redelegate(who, here, there, amount),
        delegators, validators, validators, amounts,
    ),
    st.builds(
        lambda who, era, ppm: lambda books: books.slash(who, era, ppm),
        validators, st.integers(0, 9), st.integers(1, 10**6),
    ),
    st.builds(lambda who: lambda books: books.forgive(who), validators),
    st.builds(lambda each: lambda books: books.turn(each), rewards),
    st.builds(lambda pair: lambda books: books.claim(pair), pairs),
    st.builds(lambda pair: lambda books: books.compound(pair), pairs),
    st.builds(lambda place: lambda books: tried_withdrawal(books, place), st.integers(0, 9)),
)  # fmt: skip


@given(st.lists(steps, max_size=40))
def test_every_account_has_what_the_naive_rule_says(sequence: list[Step]) -> None:
    books = Books(VALIDATORS)
    for step in sequence:
        step(books)
        books.check()


def random_step(books: Books, chance: random.Random) -> None:
    """One of the steps, as an economy takes them: slashes are rare."""
    who, here, there = chance.randrange(20), chance.randrange(VALIDATORS), chance.randrange(VALIDATORS)
    amount = chance.randrange(OGPU, 1_000 * OGPU)
    kind = chance.choices(range(9), (8, 5, 4, 0.3, 0.2, 2, 3, 2, 3))[0]
    if kind == 0:
        tried_delegation(books, (who, here), amount)
    elif kind == 1:
        books.undelegate((who, here), amount)
    elif kind == 2 and here != there:
        books.redelegate(who, here, there, amount)
    elif kind == 3:
        books.slash(here, chance.randrange(max(0, books.era - 3), books.era + 1), chance.randrange(1, 400_000))
    elif kind == 4:
        books.forgive(here)
    elif kind == 5:
        books.turn([chance.randrange(100 * OGPU) for _ in range(VALIDATORS)])
    elif kind == 6:
        books.claim((who, here))
    elif kind == 7:
        books.compound((who, here))
    else:
        tried_withdrawal(books, chance.randrange(99))


@pytest.mark.parametrize("seed", range(4))
def test_a_long_season_ends_where_the_naive_rule_does(seed: int) -> None:
    books, chance = Books(VALIDATORS), random.Random(seed)
    for number in range(1_500):
        random_step(books, chance)
        if number % 100 == 0:
            books.check()
    books.check()
    for pair in list(books.positions):
        books.undelegate(pair, 10**18)
        books.claim(pair)
    while books.chunks:
        books.withdraw(0)
    books.check_sums()
    assert all(pool.stake == SharePool() and pool.delegators == 0 for pool in books.pools)
    assert not books.postings, "nothing is kept of eras that everybody settled"
    assert sum(pool.owed for pool in books.pools) < 20_000, "dust: less than a grain a touch"


# ------------------------------------------------------------------------------------------------------ single steps


def test_what_joins_in_an_era_earns_from_the_next() -> None:
    books = Books(1)
    books.delegate((0, 0), 100)
    books.turn([10])
    assert books.returned == 10, "nobody stood for the whole era"
    books.delegate((1, 0), 300)
    books.turn([12])
    assert (books.claim((0, 0)), books.claim((1, 0))) == (12, 0)
    books.turn([12])
    assert (books.claim((0, 0)), books.claim((1, 0))) == (3, 9)


def test_an_addition_earns_later_than_what_it_is_added_to() -> None:
    books = Books(1)
    books.delegate((0, 0), 100)
    books.delegate((1, 0), 100)
    books.turn([0])
    books.delegate((0, 0), 100)
    books.turn([20])
    assert books.postings[0, 1].shares == 100 * 10**6
    assert (books.claim((0, 0)), books.claim((1, 0))) == (10, 10)
    assert not books.postings
    books.turn([30])
    assert (books.claim((0, 0)), books.claim((1, 0))) == (20, 10)


def test_what_leaves_goes_unpaid_for_its_era_and_the_newest_first() -> None:
    books = Books(1)
    books.delegate((0, 0), 100)
    books.delegate((1, 0), 100)
    books.turn([0])
    books.delegate((0, 0), 50)
    books.undelegate((0, 0), 50)
    books.turn([20])
    assert (books.claim((0, 0)), books.claim((1, 0))) == (10, 10), "what was added and taken out again changes nothing"
    books.undelegate((0, 0), 100)
    books.turn([20])
    assert (books.claim((0, 0)), books.claim((1, 0))) == (0, 20)


def test_a_slash_reaches_who_stands_who_left_and_who_moved() -> None:
    books = Books(2)
    for who in range(4):
        books.delegate((who, 0), 100)
    books.undelegate((1, 0), 100)
    books.redelegate(2, 0, 1, 100)
    books.turn([0, 0])
    books.undelegate((3, 0), 100)
    books.slash(0, 0, 250_000)
    assert (books.stake((0, 0)), books.stake((2, 1))) == (75, 75)
    assert [books.value_of(chunk) for chunk in books.chunks] == [75, 75]
    books.slash(0, 0, 500_000)
    assert (books.stake((0, 0)), books.stake((2, 1))) == (50, 50)
    assert [books.value_of(chunk) for chunk in books.chunks] == [50, 50]


def test_an_offence_after_it_left_costs_nothing() -> None:
    books = Books(2)
    books.delegate((0, 0), 100)
    books.delegate((1, 0), 100)
    books.undelegate((0, 0), 100)
    books.redelegate(1, 0, 1, 100)
    books.turn([0, 0])
    books.slash(0, 1, 10**6)
    assert [books.value_of(chunk) for chunk in books.chunks] == [100]
    assert books.stake((1, 1)) == 100


def test_what_moved_and_left_answers_for_both() -> None:
    books = Books(2)
    books.delegate((0, 0), 100)
    books.redelegate(0, 0, 1, 100)
    books.undelegate((0, 1), 100)
    books.slash(0, 0, 500_000)
    books.slash(1, 0, 500_000)
    assert [books.value_of(chunk) for chunk in books.chunks] == [25]


def test_who_moved_after_a_slash_bears_the_rest_of_it_only() -> None:
    books = Books(2)
    books.delegate((0, 0), 100)
    books.slash(0, 0, 500_000)
    books.redelegate(0, 0, 1, 50)
    assert books.stake((0, 1)) == 50
    books.slash(0, 0, 750_000)
    assert books.stake((0, 1)) == 25


def test_what_moved_stays_until_evidence_is_too_old() -> None:
    books = Books(3)
    books.delegate((0, 0), 100)
    books.redelegate(0, 0, 1, 60)
    books.redelegate(0, 1, 2, 60)
    assert (books.stake((0, 1)), books.stake((0, 2))) == (60, 0)
    for _ in range(4):
        books.turn([0, 0, 0])
    books.redelegate(0, 1, 2, 60)
    assert (books.stake((0, 1)), books.stake((0, 2))) == (0, 60)


def test_nobody_claims_what_a_pool_did_not_earn() -> None:
    with pytest.raises(AssertionError, match="no more than their pool earned"):
        dl.pay(Pool(owed=1), Position(owed=2))


def test_nobody_gives_up_what_it_has_not() -> None:
    pool = Pool(SharePool(2, 2 * 10**6), delegators=2)
    with pytest.raises(AssertionError, match="that it gives up"):
        dl.depart(pool, Position(shares=10**6), 2 * 10**6, 0)


def test_a_move_without_a_place_is_the_callers_mistake() -> None:
    moves = tuple(dl.MovedShares(1, Liability(bytes(32), era, ())) for era in range(dl.MOVED_MAX))
    position = Position(shares=dl.MOVED_MAX, moved=moves)
    pool = Pool(SharePool(1, 10**6))
    with pytest.raises(AssertionError, match="whether there is a place"):
        dl.enter(pool, position, 1, 9, Liability(bytes(32), 99, ()))
    standing, _ = dl.enter(pool, position, 1, 9, moves[3].answer)
    assert sum(move.shares for move in standing.position.moved) == dl.MOVED_MAX + 10**6


def test_a_position_is_small() -> None:
    assert len(codec(Position).encode(Position(2**127, 2**127, 2**31, 2**127, 2**127))) == 69
    assert len(codec(EraPosting).encode(EraPosting(2**127, 2**127))) == 32


def test_no_index_of_a_pool_that_holds_everything_claims_more_than_was_paid() -> None:
    pool, everybody = Pool(stake=SharePool(7 * 10**17, 7 * 10**23)), Position(shares=7 * 10**23)
    for era in range(10):
        pool, _, left = dl.post(pool, 1, era + 1)
        assert left == 0
    assert (pool.owed, dl.earned(pool, everybody, EraPosting())) == (10, 7)
