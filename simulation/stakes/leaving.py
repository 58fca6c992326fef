"""A delegator leaves during an offence, in every order around the deadlines: none escapes, and none pays for another.

Each interleaving is a chain without rewards. The leaver tries its next step in each block, as early as possible, and
withdraws all free stake. The naive rule gives the balance that must remain at the end.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

from runtime.encoding.types import Signed
from runtime.frame.call import Call
from runtime.frame.errors import DispatchError
from runtime.frame.runtime import Bound
from runtime.pallets.balances import Balances
from runtime.pallets.staking import held_slashes
from runtime.pallets.staking.holdings import stake_of, value_now
from runtime.pallets.staking.slash_factors import SlashStep
from runtime.pallets.staking.slashing import PPM
from runtime.pallets.staking.staking_events import Bonded, Delegated, Redelegated, SlashTaken, Unbonded
from runtime.pallets.staking.trust_stake import TrustStake
from simulation.chains.evidence import double
from simulation.chains.market_chain import BOND, OGPU, Keys, MarketChain, Step, named_keys, validates
from simulation.stakes.naive import Exact, Naive
from simulation.stakes.season import PALLETS

EPOCH_BLOCKS, OFFENCE_EPOCH, EVIDENCE_EPOCHS, BLOCKS_MAX = 2, 4, 3, 120
GIVES_UP_AT = 70
"""The block after which a leaver gives up, because its step may have become impossible."""
LEAVER, STAYER, REPORTER, OUTSIDER = Keys("leaver"), Keys("stayer"), Keys("reporter"), Keys("outsider")
FIRST, SECOND, THIRD = named_keys(3)
STAKE = 700 * OGPU + 7
GRAINS_MAX = 40
"""The most that rounding may take from a leaver: a grain for each event of its pools."""


@dataclass(frozen=True)
class Interleaving:
    """A way and time of leaving, and the time of the report."""

    way: str
    leaves_at: int
    """The first block in which the leaver tries."""
    reported_at: int
    is_reported_first: bool
    """The order, if both are in one block."""
    era_epochs: int
    is_dusty: bool
    """True if an earlier slash of a millionth has made shares fractional."""
    raised_at: int | None
    """The block in which an accomplice is reported, which raises the slash."""
    is_touched: bool
    """True if the leaver's stake is updated in each block, so that its liabilities are forgotten early."""


def interleavings(seed: int, count: int) -> list[Interleaving]:
    """Return `count` random interleavings for a seed, with each way of leaving equally often."""
    chance, chosen = random.Random(f"leaving {seed}"), []
    first = OFFENCE_EPOCH * EPOCH_BLOCKS + 1
    for number in range(count):
        reported = first + chance.randrange((EVIDENCE_EPOCHS + 1) * EPOCH_BLOCKS)
        # from an era before the offence to an era after the slash
        leaves = chance.randrange(first - 3 * EPOCH_BLOCKS, reported + 3 * EPOCH_BLOCKS)
        chosen.append(
            Interleaving(
                list(WAYS)[number % len(WAYS)],
                leaves,
                reported,
                chance.random() < 0.5,
                chance.choice((1, 1, 2)),
                chance.random() < 0.5,
                reported + chance.randrange(12 * EPOCH_BLOCKS) if chance.random() < 0.5 else None,
                chance.random() < 0.5,
            )
        )
    return chosen


class Leaving:
    """One interleaving, played to the end."""

    def __init__(self, case: Interleaving) -> None:
        """Make the chain, and delegate all stake to the offender."""
        self.case = case
        rules = {
            "TrustStake.evidence_epochs": EVIDENCE_EPOCHS,
            "TrustStake.era_epochs": case.era_epochs,
            "TrustStake.unbonding_epochs": EVIDENCE_EPOCHS + 2 * case.era_epochs + 1,
            "TrustStake.emission_validators": 0,
        }
        others = [LEAVER, STAYER, REPORTER, OUTSIDER]
        self.chain = MarketChain(
            named_keys(6), others, rules, epoch_blocks=EPOCH_BLOCKS, pallets=PALLETS, check=lambda *_: None
        )
        self.naive, self.held = Naive(), dict[int, Any]()
        self.furthest = 0
        """The largest difference of an account below the naive rule, in grains."""
        self.put_in, self.did = Counter[bytes](), Counter[str]()
        self.had = {keys.stash: owned(self.chain.now(), keys.stash) for keys in others}
        self.way = WAYS[case.way](self)
        self.is_out_of_office = case.way.startswith("chilled")
        self.offender = OUTSIDER if self.is_out_of_office else FIRST

    def play(self) -> None:
        """Play to the end. Raise AssertionError if an account differs from the naive rule."""
        case, last = self.case, max(self.case.reported_at, self.case.leaves_at, self.case.raised_at or 0)
        self._block(*self._begin())
        while self.chain.height < last + 4 * self.case.era_epochs * EPOCH_BLOCKS or not self._is_settled():
            assert self.chain.height < BLOCKS_MAX, "everybody gets out in the end"
            if self.chain.height >= GIVES_UP_AT:
                self.way.clear()
            height, steps = self.chain.height + 1, list[Step]()
            if case.is_dusty and height == 2:
                steps.append(partial(self._held, part=SlashStep(0, 1)))
            if height >= case.leaves_at:
                steps += [self._try, self._withdraw]
            if case.is_touched:
                steps.append(self._collect)
            if height == case.reported_at:
                steps.insert(0 if case.is_reported_first else len(steps), self._report)
            if height == case.raised_at:
                steps.append(self._said(REPORTER.stash, double(SECOND, 9, height_epoch(height))))
            self._block(*steps)
        self._block(self._collect)
        self._check()

    # ----------------------------------------------------------------------------------------------------- actions

    def _begin(self) -> list[Step]:
        steps = []
        if self.is_out_of_office:
            steps.append(self._said(OUTSIDER.stash, TrustStake.bond(value=BOND)))
            steps.append(self._said(OUTSIDER.stash, validates(OUTSIDER)))
        behind = self.offender.stash
        for who, value in ((LEAVER, STAKE), (STAYER, STAKE - 3)):
            steps.append(self._said(who.stash, TrustStake.delegate(validator=behind, value=value)))
        if self.case.way == "own bond":
            steps.append(self._said(FIRST.stash, TrustStake.bond_extra(value=STAKE)))
        return steps

    def _report(self, bound: Bound) -> None:
        if self.is_out_of_office:
            # no evidence can be reported today against a validator without a seat, so the slash is held directly
            self._held(bound, SlashStep(0, 300_000))
            bound[TrustStake].tombstone(self.offender.stash)
        else:
            self._said(REPORTER.stash, double(FIRST, 7, OFFENCE_EPOCH))(bound)

    def _held(self, bound: Bound, part: SlashStep) -> None:
        stake = bound[TrustStake]
        era = min(stake.current_era.get(), OFFENCE_EPOCH // self.case.era_epochs)
        held_slashes.hold_back(stake, self.offender.stash, era, part, REPORTER.stash)

    def _try(self, bound: Bound) -> None:
        """Try the leaver's next step. If it fails, it remains for the next block."""
        if self.way and dispatched(bound, *self.way[0](bound)):
            self.way.pop(0)
            self.did[self.case.way] += 1

    def _withdraw(self, bound: Bound) -> None:
        for who in (LEAVER.stash, self.offender.stash):
            dispatched(bound, who, TrustStake.withdraw_unbonded())

    def _collect(self, bound: Bound) -> None:
        for validator, _ in list(bound[TrustStake].delegations.under(LEAVER.stash)):
            dispatched(bound, REPORTER.stash, TrustStake.collect(staker=LEAVER.stash, validator=validator))

    def _said(self, who: bytes, call: Call) -> Step:
        return lambda bound: self.did.update({call.name: dispatched(bound, who, call)})

    # -------------------------------------------------------------------------------------------- requirements

    def _block(self, *steps: Step) -> None:
        """Make a block, and apply its events to the naive rule, those of the hooks first."""
        seen = 0

        def heard(bound: Bound) -> None:
            nonlocal seen
            events = [event for _, event in bound.overlay.events[seen:]]
            seen += len(events)
            self._hear(bound, events)

        each = [one for step in steps for one in (step, heard)]
        self.chain.block(heard, *each)
        self.held = {number: held for (_, number), held in self.chain.now()[TrustStake].unapplied_slashes.items()}

    def _hear(self, bound: Bound, events: Iterable[Any]) -> None:
        stake, naive = bound[TrustStake], self.naive
        era = stake.current_era.get()
        for event in events:
            if isinstance(event, Bonded | Delegated):
                validator = event.stash if isinstance(event, Bonded) else event.validator
                staker = event.stash if isinstance(event, Bonded) else event.delegator
                self.put_in[staker] += event.amount
                naive.enter((staker, validator), Fraction(event.amount))
            elif isinstance(event, Unbonded):
                for lot in self._out(stake, (event.staker, event.validator), event.amount):
                    # The pair (staker, -1) marks the owner: no offence has so early an era.
                    naive.waiting.append(Exact(lot.amount, (*lot.answers, (event.validator, era), (event.staker, -1))))
            elif isinstance(event, Redelegated):
                for lot in self._out(stake, (event.delegator, event.source), event.amount):
                    answers = (*lot.answers, (event.source, era))
                    naive.enter((event.delegator, event.target), lot.amount, answers)
            elif isinstance(event, SlashTaken):
                held = self.held[event.number]
                self.did["taken"] += 1
                self.did["raised"] += held.step.taken > 0
                if held.step.taken < PPM:
                    naive.slash(event.offender, stake.answering_era(event.offender, held.era), held.step)

    def _out(self, stake: TrustStake, pair: tuple[bytes, bytes], amount: int) -> list[Exact]:
        """Return the lots that leave: all, or a part of the lot without liabilities."""
        lots = list(self.naive.free[pair])
        if stake_of(stake, *pair):
            return [self.naive.leave(pair, (), Fraction(amount))]
        return [self.naive.leave(pair, lot.answers, None) for lot in lots]

    def _is_settled(self) -> bool:
        stake = self.chain.now()[TrustStake]
        waits = any(stake.unlocking[who] for who in (LEAVER.stash, self.offender.stash))
        return not (self.way or waits or any(True for _ in stake.unapplied_slashes.items()))

    def _check(self) -> None:
        now = self.chain.now()
        for who in (LEAVER.stash, STAYER.stash, OUTSIDER.stash):
            lots = [lot for (staker, _), behind in self.naive.free.items() if staker == who for lot in behind]
            lots += [lot for lot in self.naive.waiting if (who, -1) in lot.answers]
            exact = self.had[who] - self.put_in[who] + sum(lot.amount for lot in lots)
            ours = owned(now, who)
            assert ours <= exact, f"{_told(who)} has {float(ours - exact):.0f} grains more than it must: {self.case}"
            self.furthest = max(self.furthest, int(exact) - ours)
            assert exact < ours + GRAINS_MAX, f"{_told(who)} lacks {float(exact - ours):.0f} grains: {self.case}"


def owned(bound: Bound, who: bytes) -> int:
    """Return all grains of an account, wherever they are."""
    stake = bound[TrustStake]
    behind = [validator for validator, _ in stake.delegations.under(who)]
    placed = stake.bonds[who] + sum(stake_of(stake, who, validator) for validator in behind)
    waiting = sum(value_now(stake, chunk) for chunk in stake.unlocking[who])
    return bound[Balances].free_balance(who) + placed + waiting


def dispatched(bound: Bound, who: bytes, call: Call) -> bool:
    """Return whether a call succeeded."""
    try:
        with bound.overlay.transaction():
            bound.dispatch(call, Signed(who))
    except DispatchError:
        return False
    return True


def height_epoch(height: int) -> int:
    """Return the epoch of a block."""
    return (height - 1) // EPOCH_BLOCKS


def _told(who: bytes) -> str:
    return next(keys.name for keys in (LEAVER, STAYER, OUTSIDER) if keys.stash == who)


Asked = Callable[[Bound], tuple[bytes, Call]]


def _off(validator: Keys, parts: int = 1) -> Asked:
    """Return a call that undelegates a part of the stake, by default all of it."""

    def asked(bound: Bound) -> tuple[bytes, Call]:
        there = reckoned(bound, validator)
        return LEAVER.stash, TrustStake.undelegate(validator=validator.stash, value=there // parts)

    return asked


def _over(source: Keys, target: Keys, parts: int = 1) -> Asked:
    def asked(bound: Bound) -> tuple[bytes, Call]:
        there = reckoned(bound, source)
        return LEAVER.stash, TrustStake.redelegate(source=source.stash, target=target.stash, value=there // parts)

    return asked


def reckoned(bound: Bound, validator: Keys) -> int:
    """Return the leaver's stake behind a validator, after all its liabilities are applied."""
    dispatched(bound, REPORTER.stash, TrustStake.collect(staker=LEAVER.stash, validator=validator.stash))
    return stake_of(bound[TrustStake], LEAVER.stash, validator.stash)


def _own(bound: Bound) -> tuple[bytes, Call]:
    stake = bound[TrustStake]
    seat = stake.seat_of(FIRST.stash)
    extra = max(0, stake.bonds[FIRST.stash] - (seat.weight if seat else 0))
    return FIRST.stash, TrustStake.unbond(value=extra)


def _chills(_: Bound) -> tuple[bytes, Call]:
    return OUTSIDER.stash, TrustStake.chill()


def _all_own(bound: Bound) -> tuple[bytes, Call]:
    return OUTSIDER.stash, TrustStake.unbond(value=bound[TrustStake].bonds[OUTSIDER.stash])


WAYS: dict[str, Callable[[Any], list[Asked]]] = {
    "undelegate": lambda _: [_off(FIRST)],
    "in three chunks": lambda _: [_off(FIRST, 3), _off(FIRST, 2), _off(FIRST)],
    "redelegate": lambda _: [_over(FIRST, SECOND)],
    "redelegate to an idle validator": lambda _: [_over(FIRST, THIRD)],
    "redelegate, then undelegate": lambda _: [_over(FIRST, SECOND), _off(SECOND)],
    "redelegate, then on, then undelegate": lambda _: [_over(FIRST, THIRD), _over(THIRD, SECOND), _off(SECOND)],
    "a part each way": lambda _: [
        _off(FIRST, 3),
        _over(FIRST, THIRD, 2),
        _over(FIRST, SECOND),
        _off(SECOND),
        _off(THIRD),
    ],
    "there and back": lambda _: [_over(FIRST, SECOND), _over(SECOND, FIRST), _off(FIRST)],
    "own bond": lambda _: [_own],
    "chilled, the bond": lambda _: [_chills, _all_own],
    "chilled, a delegator": lambda _: [_chills, _off(OUTSIDER)],
    "chilled, a delegator who redelegates": lambda _: [_over(OUTSIDER, SECOND), _chills, _off(SECOND)],
}
