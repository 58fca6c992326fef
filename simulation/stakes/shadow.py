"""The naive rule beside a chain: it takes the calls and their events, and computes every account's balance.

Invariant: no account exceeds the naive rule. None falls below it by more than one grain for each event of its pool and
of its own stake there.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from runtime.frame.runtime import Bound
from runtime.pallets.balances import Transfer
from runtime.pallets.beacon import Beacon
from runtime.pallets.pots import STAKING_REWARDS
from runtime.pallets.staking import delegations
from runtime.pallets.staking.delegations import EraPosting, MovedShares, Pool
from runtime.pallets.staking.holdings import value_now
from runtime.pallets.staking.share_pool import worth
from runtime.pallets.staking.slash_factors import Liability
from runtime.pallets.staking.slashing import PPM, own_part
from runtime.pallets.staking.stakers import HeldSlash, Unlocking
from runtime.pallets.staking.staking_events import EraStarted, SlashCancelled, SlashHeld, SlashTaken, Withdrawn
from runtime.pallets.staking.trust_stake import TrustStake
from simulation.stakes.naive import Answer, Exact, Naive

Stood = tuple[bytes, bytes]
"""A staker and a validator."""
Leaves = tuple[bytes, bytes, int, tuple[Answer, ...]]
"""The key of equal unlocking chunks: staker, validator, epoch of release, and liabilities."""


class RuleBroken(Exception):
    """The chain contradicts the naive rule."""


class Shadow:
    """Every account's balances by the naive rule, from a chain's events."""

    def __init__(self, bound: Bound) -> None:
        """Begin with the bonds of genesis."""
        self.naive = Naive()
        self.waiting: dict[Leaves, Exact] = {}
        self.late: Counter[Leaves] = Counter()
        """Grains that rounding may have taken from unlocking stake."""
        self.paid: Counter[Stood] = Counter()
        self.events: Counter[bytes] = Counter()
        """Events of each pool."""
        self.touches: Counter[Stood] = Counter()
        self.since: dict[Stood, int] = {}
        """The number of its pool's events at a staker's entry."""
        self.held: dict[int, tuple[bytes, HeldSlash]] = {}
        self.frozen: Counter[bytes] = Counter()
        self.struck: dict[bytes, set[int]] = defaultdict(set)
        """The eras of the offences that a validator was slashed for."""
        self.pairs: dict[bytes, dict[Stood, None]] = defaultdict(dict)
        """All stakers that ever delegated to a validator."""
        self.furthest = 0
        """The largest difference of an amount below the naive rule, in grains."""
        self.comparisons = 0
        for stash, bond in bound[TrustStake].bonds.items():
            self.bonded(stash, bond)

    # ---------------------------------------------------------------------------------------------------- calls

    def bonded(self, stash: bytes, amount: int) -> None:
        """Add a validator's own stake."""
        self._know((stash, stash))
        self.naive.enter((stash, stash), Fraction(amount))

    def delegated(self, pair: Stood, amount: int) -> None:
        """Add a delegation."""
        self._may_move(pair[1], "joined")
        self._know(pair)
        self.naive.enter(pair, Fraction(amount))

    def left(self, bound: Bound, pair: Stood, before: Counter[Leaves]) -> None:
        """Start unlocking stake, each part with its liabilities."""
        self._may_move(pair[1], "left")
        era = bound[TrustStake].current_era.get()
        grown = chunks_of(bound, pair[0])
        grown.subtract(before)
        for key, amount in grown.items():
            mine, *brought = key[3]
            if amount < 0 or (amount and (key[1] != pair[1] or mine != (pair[1], era))):
                raise RuleBroken(
                    "stake that leaves a validator waits for its slash, and is liable for it until this era"
                )
            if amount:
                lot = self.naive.leave(pair, tuple(brought), self._part(bound, pair, tuple(brought), amount))
                self._wait(key, lot.amount, self.slack(pair) + 2)

    def moved(self, bound: Bound, pair: Stood, target: bytes, amount: int) -> None:
        """Move stake without liabilities to another validator. It is now liable for the old one's offences."""
        self._may_move(pair[1], "left")
        self._may_move(target, "joined")
        there, era = (pair[0], target), bound[TrustStake].current_era.get()
        lot = self.naive.leave(pair, (), self._part(bound, pair, (), amount))
        self._know(there)
        self.touches[there] += self.slack(pair) + 1
        self.naive.enter(there, lot.amount, ((pair[1], era),))

    def withdrawn(self, bound: Bound, staker: bytes, before: Counter[Leaves], events: Iterable[Any]) -> None:
        """Release unlocked stake, and compare the payment with the naive rule."""
        gone = [key for key in before if key not in chunks_of(bound, staker)]
        epoch, due, slack = bound[Beacon].epoch(), Fraction(), 0
        for key in gone:
            if key[2] > epoch or any(self._is_struck(bound, answer) for answer in key[3]):
                raise RuleBroken(f"withdrawn in epoch {epoch}: what answers for {key[3]} and waits until {key[2]}")
            exact = self.waiting.pop(key)
            # By identity, because another staker's lot may be equal.
            self.naive.waiting = [each for each in self.naive.waiting if each is not exact]
            due, slack = due + exact.amount, slack + self.late.pop(key) + 2
        (paid,) = (event.amount for event in events if isinstance(event, Withdrawn))
        self._compare("withdrawn", (staker,), paid, due, slack)

    def was_paid(self, pair: Stood, events: Iterable[Any]) -> None:
        """Add the reward that a step paid a staker for a validator."""
        self.paid[pair] += sum(
            event.amount
            for event in events
            if isinstance(event, Transfer) and (event.from_, event.to) == (STAKING_REWARDS, pair[0])
        )

    def touched(self, bound: Bound, pair: Stood) -> None:
        """Update a touched stake: forget its liabilities that can no longer be invoked."""
        moved = moves_of(bound, pair)
        self.events[pair[1]] += 1 + len(moved)
        self.touches[pair] += 1 + len(moved)
        answers = {answer for lot in self.naive.free[pair] for answer in lot.answers}
        self.naive.forget(pair, {answer for answer in answers if self._may_be_called(bound, answer)})

    def settled(self, bound: Bound, pair: Stood) -> None:
        """Compare a touched stake's liabilities with the rule, and drop an ended position."""
        said = {_answer(each.answer) for each in moves_of(bound, pair)}
        due = {lot.answers[0]: lot.amount for lot in self.naive.free[pair] if lot.answers}
        slack, is_called = 1 + self.slack(pair), all(self._may_be_called(bound, answer) for answer in said)
        if not is_called or any(due[answer] >= slack for answer in due.keys() - said):
            raise RuleBroken(f"stake of {_told(pair)} answers for {len(said)}, not for {len(due)} that may be called")
        if pair[0] != pair[1] and pair not in bound[TrustStake].delegations:
            # a returning staker starts from zero: the rest of the rounding belongs to no account
            self.naive.free.pop(pair, None)
            self.since.pop(pair, None)

    # ------------------------------------------------------------------------------------------ events of hooks

    def heard(self, bound: Bound, events: Iterable[Any]) -> None:
        """Apply held, taken and cancelled slashes."""
        for event in events:
            if isinstance(event, SlashHeld):
                held = bound[TrustStake].unapplied_slashes[event.offender, event.number]
                assert held is not None, "nothing is taken in the block in which it was held"
                self.held[event.number] = (event.offender, held)
                self.frozen[event.offender] += 1
            elif isinstance(event, SlashCancelled):
                self.held.pop(event.number)
                self.frozen[event.offender] -= 1
            elif isinstance(event, SlashTaken):
                self._take(bound, event)

    def turned(self, before: Bound, bound: Bound, events: Iterable[Any]) -> None:
        """Apply the end of an era: divide each validator's reward among the stake of the whole era."""
        if not any(isinstance(event, EraStarted) for event in events):
            return
        then, now = before[TrustStake], bound[TrustStake]
        era = then.current_era.get()
        for entry in then.eras_reward_points[era]:
            stash, exposed = entry.stash, then.eras_exposure[era, entry.stash]
            assert exposed is not None, "only the elected have points"
            own, pooled = (
                now.pending_rewards[stash] - then.pending_rewards[stash],
                now.pools[stash].owed - then.pools[stash].owed,
            )
            standing = self._standing(before, stash, era)
            if standing and own != own_part(own + pooled, exposed):
                raise RuleBroken(f"of {own + pooled} grains a validator kept {own}")
            if not standing and pooled:
                raise RuleBroken("a reward without a receiver")
            self.naive.rewards[stash, stash] += own
            for pair, shares in standing.items():
                self.naive.rewards[pair] += Fraction(pooled * shares, sum(standing.values()))

    # ------------------------------------------------------------------------------------------------------ comparisons

    def check(self, bound: Bound, validators: Iterable[bytes], stakers: Iterable[bytes]) -> None:
        """Compare all stakes of these validators, and all unlocking stake of these stakers.

        Raise RuleBroken on a difference.
        """
        stake = bound[TrustStake]
        for validator in validators:
            pool, bond = stake.pools[validator], stake.bonds[validator]
            for pair in self.pairs[validator]:
                if pair[0] == validator:
                    ours, earned = bond, stake.pending_rewards[validator]
                else:
                    ours, earned = standing_of(stake, pool, pair)
                due, slack = self.naive.rewards[pair], 1 + self.touches[pair]
                self._compare("stake", pair, ours, self.naive.stake(pair), 1 + self.slack(pair))
                self._compare("reward", pair, self.paid[pair] + earned, due, slack)
        for staker in stakers:
            reckoned: Counter[Leaves] = Counter()
            for chunk in stake.unlocking[staker]:
                reckoned[_leaves(staker, chunk)] += value_now(stake, chunk)
            for key, exact in [(key, exact) for key, exact in self.waiting.items() if key[0] == staker]:
                self._compare("waiting", key[:2], reckoned.pop(key, 0), exact.amount, 2 + self.late[key])
            if any(reckoned.values()):
                raise RuleBroken(f"{staker.hex()[:8]} has unbonding stake that never left: {reckoned}")

    def slack(self, pair: Stood) -> int:
        """Return the number of events in which rounding may have taken a part of a grain from this stake."""
        return self.touches[pair] + self.events[pair[1]] - self.since.get(pair, 0)

    # ------------------------------------------------------------------------------------------------------ the parts

    def _compare(self, what: str, whose: tuple[bytes, ...], ours: int, exact: Fraction, slack: int) -> None:
        if not ours <= exact < ours + slack:
            by_rule = f"by the naive rule {float(exact):.3f} less {slack} at most"
            raise RuleBroken(f"{what} of {_told(whose)}: {ours} grains, and {by_rule}")
        self.furthest = max(self.furthest, int(exact) - ours)
        self.comparisons += 1

    def _know(self, pair: Stood) -> None:
        self.pairs[pair[1]][pair] = None
        self.since.setdefault(pair, self.events[pair[1]])

    def _may_move(self, validator: bytes, did: str) -> None:
        if self.frozen[validator]:
            raise RuleBroken(f"somebody {did} while a slash of {validator.hex()[:8]} waits")

    def _part(self, bound: Bound, pair: Stood, answers: tuple[Answer, ...], amount: int) -> Fraction | None:
        """Return the amount, or None if no stake with these liabilities remains."""
        stake = bound[TrustStake]
        if pair[0] == pair[1]:
            return Fraction(amount) if stake.bonds[pair[0]] else None
        position = stake.delegations[pair]
        if position is None:
            return None
        if answers:
            remains = any((_answer(each.answer),) == answers for each in position.moved)
        else:
            remains = delegations.free_shares(position) > 0
        return Fraction(amount) if remains else None

    def _wait(self, key: Leaves, amount: Fraction, slack: int) -> None:
        exact = self.waiting.get(key)
        if exact is None:
            exact = self.waiting[key] = Exact(Fraction(), key[3])
            self.naive.waiting.append(exact)
        exact.amount += amount
        self.late[key] += slack

    def _take(self, bound: Bound, event: SlashTaken) -> None:
        offender, held = self.held.pop(event.number)
        self.frozen[offender] -= 1
        if offender != event.offender or held.take_era > bound[TrustStake].current_era.get():
            raise RuleBroken(f"slash {event.number} was taken too early, or of another")
        # mostly the era before, which elected the set; `test_elections` covers the other case
        answering = bound[TrustStake].answering_era(offender, held.era)
        # If everything was taken before, the factor of `Naive.slash` would divide by zero.
        if held.step.taken < PPM:
            self.naive.slash(offender, answering, held.step)
        self.events[offender] += 1
        self.struck[offender].add(answering)
        # Liable stake may be behind any validator, and each reduction may round once.
        for pairs in self.pairs.values():
            for pair in pairs:
                self.touches[pair] += 1
        for key in self.late:
            self.late[key] += 1

    def _standing(self, before: Bound, validator: bytes, era: int) -> dict[Stood, int]:
        """Return the shares that were delegated for a whole era, by staker and validator."""
        standing = {}
        for pair in self.pairs[validator]:
            position = before[TrustStake].delegations[pair]
            shares = 0 if position is None else position.shares - (position.joined if position.era == era else 0)
            if shares:
                standing[pair] = shares
        return standing

    def _may_be_called(self, bound: Bound, answer: Answer) -> bool:
        """Return whether evidence may still come, or a slash is held or may be raised."""
        stake = bound[TrustStake]
        last_era = stake.last_answerable(_name(answer[0]), answer[1])
        last = (last_era + 1) * stake.era_epochs - 1 + stake.evidence_epochs
        return last >= bound[Beacon].epoch() or self._is_struck(bound, answer)

    def _is_struck(self, bound: Bound, answer: Answer) -> bool:
        """Return whether a slash is held, or accomplices can still raise one.

        They can until an epoch after the unbonding time of an offence.
        """
        stake, whom = bound[TrustStake], _name(answer[0])
        if self.frozen[whom]:
            return True
        since = stake.tombstones[whom]
        if since is None or all(era > answer[1] for era in self.struck[whom]):
            return False
        return (since + 1) * stake.era_epochs + stake.unbonding_epochs >= bound[Beacon].epoch()


def chunks_of(bound: Bound, staker: bytes) -> Counter[Leaves]:
    """Return a staker's unlocking stake, equal chunks added up, at their last update."""
    found: Counter[Leaves] = Counter()
    for chunk in bound[TrustStake].unlocking[staker]:
        found[_leaves(staker, chunk)] += chunk.value
    return found


def moves_of(bound: Bound, pair: Stood) -> tuple[MovedShares, ...]:
    """Return the parts of a position that came from other validators."""
    position = bound[TrustStake].delegations[pair]
    return () if position is None else position.moved


def _leaves(staker: bytes, chunk: Unlocking) -> Leaves:
    return staker, chunk.validator, chunk.until_epoch, tuple(_answer(each) for each in chunk.answers)


def _answer(liability: Liability) -> Answer:
    return liability.validator, liability.era


def _name(who: Any) -> bytes:
    assert isinstance(who, bytes), "validators of a chain are accounts"
    return who


def standing_of(stake: TrustStake, pool: Pool, pair: Stood) -> tuple[int, int]:
    """Return the worth and the earned reward of a position if it were touched now."""
    position = stake.delegations[pair]
    if position is None:
        return 0, 0
    posting = stake.era_rewards_per_share[pair[1], position.era] if position.joined else EraPosting()
    earned, place = position.owed + delegations.earned(pool, position, posting), 0
    while place < len(position.moved):
        move, count = position.moved[place], len(position.moved)
        factors = stake.slash_factors[move.answer.validator]
        if factors != move.answer.borne:
            after = delegations.charge(pool, position, place, factors, stake.current_era.get())
            pool, position = after.pool, after.position
        place += len(position.moved) == count
    return worth(pool.stake, position.shares), earned


def _told(pair: tuple[bytes, ...]) -> str:
    return " of ".join(each.hex()[:8] for each in pair)
