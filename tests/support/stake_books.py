"""Stakes by accumulators beside the naive rule, which loops over everybody and keeps exact fractions.

Both take the same steps. After each, `check` compares every account: never a grain above the naive rule, and below it
by less than a grain for each step of its pool and of the account; and no grain is made or lost.
"""

from collections import defaultdict
from dataclasses import dataclass, replace
from fractions import Fraction

from runtime.pallets.staking import delegations as dl
from runtime.pallets.staking.delegations import EraPosting, Pool, Position
from runtime.pallets.staking.share_pool import is_spent, shares_for, strike, worth
from runtime.pallets.staking.slash_factors import Factors, Liability, SlashStep, left_of, remembered
from runtime.pallets.staking.slashing import PPM
from simulation.stakes.naive import Exact, Naive

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
