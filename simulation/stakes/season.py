"""One chain of stakes under random steps of validators, delegators, reporters and Root, beside the naive rule.

Invariant: the same seed and number give the same steps. After each step the grains are counted, and the affected
accounts are compared with the naive rule. At each block's end all accounts are.
"""

import random
from collections import Counter
from functools import partial
from typing import Any

from runtime.encoding.types import Root, Signed
from runtime.frame.call import Call
from runtime.frame.errors import DispatchError
from runtime.frame.runtime import Bound
from runtime.pallets.balances import Balances
from runtime.pallets.beacon import Beacon
from runtime.pallets.session import Session
from runtime.pallets.staking.holdings import stake_of
from runtime.pallets.staking.trust_lock import TrustLock
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.pallets.system import System
from simulation.books import Books
from simulation.catalogue import WORLDS
from simulation.chains.evidence import double
from simulation.chains.market_chain import OGPU, Keys, MarketChain, named_keys, validates
from simulation.stakes.shadow import Shadow, Stood, chunks_of

PALLETS = (System, Balances, Beacon, TrustStake, Session, TrustLock)
RULES: tuple[dict[str, int], ...] = (
    {},
    {"TrustStake.evidence_epochs": 2, "TrustStake.unbonding_epochs": 5},
    {"TrustStake.era_epochs": 2, "TrustStake.unbonding_epochs": 8},
)
"""Parameters of a chain, one set for each season in turn. Unbonding outlasts evidence by the allowed minimum."""
SEATED, OUTSIDE, DELEGATORS = 4, 2, 8
EPOCH_BLOCKS, STEPS_MAX = 3, 20
"""The most steps of a block."""
KINDS = {
    "bond": 2, "bond_extra": 3, "unbond": 4, "withdraw_unbonded": 12, "validate": 2, "chill": 0.5,
    "announce_commission": 1, "set_profile": 1, "delegate": 20, "undelegate": 12, "redelegate": 16, "claim": 6,
    "compound": 6, "collect": 6, "report_offence": 1.5, "cancel_slashes": 0.3, "lift_tombstone": 1.2,
}  # fmt: skip
"""The steps and their relative frequencies."""
REACHES = {"undelegate", "redelegate", "claim", "compound", "collect", "delegate"}
"""Steps that touch a delegation."""


class Season:
    """A chain, and its balances by the naive rule."""

    def __init__(self, seed: int, number: int) -> None:
        """Make block 0."""
        self.chance = random.Random(f"stakes {seed}/{number}")
        seated = named_keys(SEATED)
        self.outside = [Keys(f"outside {place}") for place in range(OUTSIDE)]
        self.delegators = [Keys(f"delegator {place}") for place in range(DELEGATORS)]
        bonds = tuple(self.chance.randrange(100, 2_000) * OGPU + self.chance.randrange(OGPU) for _ in seated)
        rules = {**RULES[number % len(RULES)], "TrustLock.slash_slope": self.chance.choice((1, 1, 2, 3))}
        others = [*self.outside, *self.delegators]
        self.chain = MarketChain(
            seated, others, rules, epoch_blocks=EPOCH_BLOCKS, pallets=PALLETS, bonds=bonds, check=lambda *_: None
        )
        self.chain.chance = self.chance
        now = self.chain.now()
        self.shadow, self.books = Shadow(now), Books(now, WORLDS, self.chain.issued)
        self.done: Counter[str] = Counter()
        self.happened: Counter[str] = Counter()
        """Events, by name."""
        self.refused: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.steps = 0

    @property
    def validators(self) -> list[Keys]:
        """The validators that can be delegated to."""
        return [*self.chain.validators, *self.outside]

    @property
    def everybody(self) -> list[Keys]:
        """The signing accounts."""
        return [*self.validators, *self.delegators]

    def play(self, steps: int) -> None:
        """Make `steps` steps. Raise RuleBroken or BooksBroken if a comparison fails."""
        while self.steps < steps:
            count = min(steps - self.steps, self.chance.randrange(STEPS_MAX))
            before = self.chain.now()
            author = self.chance.choice(self.chain.validators)
            begun = partial(self._begun, before)
            self.chain.block(begun, *[self._step] * count, self._compare_all, author=author)
        self.books.compare(self.chain.now())

    # ---------------------------------------------------------------------------------------------------------- steps

    def _begun(self, before: Bound, bound: Bound) -> None:
        """Apply the hooks' events: era changes, slashes taken and raised."""
        events = [event for _, event in bound.overlay.events]
        self.happened.update(type(event).__name__ for event in events)
        self.shadow.turned(before, bound, events)
        self.shadow.heard(bound, events)
        self.books.step(bound, bound.overlay.changes())

    def _compare_all(self, bound: Bound) -> None:
        stashes = [keys.stash for keys in self.everybody]
        self.shadow.check(bound, stashes[: len(self.validators)], stashes)

    def _step(self, bound: Bound) -> None:
        """Try a random step."""
        self.steps += 1
        name = self.chance.choices(list(KINDS), list(KINDS.values()))[0]
        who = self._who(name)
        call = getattr(self, f"_{name}")(bound, who)
        is_root = name in ("cancel_slashes", "lift_tombstone")
        before, seen = chunks_of(bound, who.stash), len(bound.overlay.events)
        # The outer transaction collects the step's own writes for the books. A refusal undoes the inner one.
        with bound.overlay.transaction():
            try:
                with bound.overlay.transaction():
                    bound.dispatch(call, Root() if is_root else Signed(who.stash))
            except DispatchError as error:
                self.refused[name] += 1
                self.errors[type(error).__name__] += 1
                return
            self.books.step(bound, bound.overlay.keys_in_layers())
        self.done[name] += 1
        events = [event for _, event in bound.overlay.events[seen:]]
        self.happened.update(type(event).__name__ for event in events)
        self._tell(bound, name, who.stash, call, before, events)

    def _tell(self, bound: Bound, name: str, who: bytes, call: Call, before: Any, events: list[Any]) -> None:
        """Apply the step to the naive rule, and compare the affected accounts."""
        shadow, asked = self.shadow, call.named_arguments
        shadow.heard(bound, events)
        pairs = self._reached(name, who, asked)
        for pair in pairs:
            shadow.touched(bound, pair)
        if pairs:
            shadow.was_paid(pairs[0], events)
        if name in ("bond", "bond_extra"):
            shadow.bonded(who, asked["value"])
        elif name == "delegate":
            shadow.delegated(pairs[0], asked["value"])
        elif name == "compound":
            joined = next(event.amount for event in reversed(events) if type(event).__name__ in ("Delegated", "Bonded"))
            shadow.bonded(who, joined) if pairs[0][1] == who else shadow.delegated(pairs[0], joined)
        elif name in ("unbond", "undelegate"):
            shadow.left(bound, pairs[0], before)
        elif name == "redelegate":
            moved = next(event.amount for event in events if type(event).__name__ == "Redelegated")
            shadow.moved(bound, pairs[0], asked["target"], moved)
        elif name == "withdraw_unbonded":
            shadow.withdrawn(bound, who, before, events)
        for pair in pairs:
            shadow.settled(bound, pair)
        shadow.check(bound, {validator for _, validator in pairs}, {who, *(staker for staker, _ in pairs)})

    @staticmethod
    def _reached(name: str, who: bytes, asked: dict[str, Any]) -> list[Stood]:
        if name in ("bond", "bond_extra", "unbond"):
            return [(who, who)]
        if name == "redelegate":
            return [(who, asked["source"]), (who, asked["target"])]
        if name == "collect":
            return [(asked["staker"], asked["validator"])]
        return [(who, asked["validator"])] if name in REACHES else []

    # ---------------------------------------------------------------------------------------------------------- calls

    def _who(self, name: str) -> Keys:
        """Return a signer, mostly one that may make the call."""
        if self.chance.random() < 0.05:
            return self.chance.choice(self.everybody)
        if name in ("bond", "validate", "chill"):
            return self.chance.choice(self.outside)
        if name in ("bond_extra", "unbond", "announce_commission", "set_profile"):
            return self.chance.choice(self.validators)
        if name in ("claim", "compound", "withdraw_unbonded", "collect"):
            return self.chance.choice(self.everybody)
        return self.chance.choice(self.delegators)

    def _amount(self, there: int) -> int:
        """Return an amount: a grain, a few, some oGPU, a part, all, or one too many."""
        return self.chance.choice(
            (
                1,
                self.chance.randrange(100),
                self.chance.randrange(OGPU, 100 * OGPU),
                self.chance.randrange(OGPU, 100 * OGPU),
                there // self.chance.randrange(2, 5),
                there,
                there,
                there + 1,
            )
        )

    def _behind(self, bound: Bound, who: bytes) -> bytes:
        """Return a validator, mostly one that the account delegates to."""
        theirs = [validator for validator, _ in bound[TrustStake].delegations.under(who)]
        if theirs and self.chance.random() < 0.9:
            return self.chance.choice(theirs)
        return self.chance.choice(self.validators).stash

    def _bond(self, _: Bound, __: Keys) -> Call:
        return TrustStake.bond(value=self.chance.randrange(9 * OGPU, 300 * OGPU))

    def _bond_extra(self, _: Bound, __: Keys) -> Call:
        return TrustStake.bond_extra(value=self._amount(50 * OGPU))

    def _unbond(self, bound: Bound, who: Keys) -> Call:
        stake = bound[TrustStake]
        seat = stake.seat_of(who.stash)  # stake within the seat's weight stays bonded: the naive rule has no seats
        return TrustStake.unbond(value=self._amount(max(0, stake.bonds[who.stash] - (seat.weight if seat else 0))))

    def _withdraw_unbonded(self, _: Bound, __: Keys) -> Call:
        return TrustStake.withdraw_unbonded()

    def _validate(self, _: Bound, who: Keys) -> Call:
        asked = self.chance.choice((40_000, 50_000, 50_000, 50_000, 100_000))
        offer: Call = validates(who, commission_ppm=asked)
        return offer

    def _chill(self, _: Bound, __: Keys) -> Call:
        return TrustStake.chill()

    def _announce_commission(self, bound: Bound, who: Keys) -> Call:
        asked = bound[TrustStake].commission_of(who.stash) or 50_000
        return TrustStake.announce_commission(commission_ppm=max(0, asked + self.chance.randrange(-11_000, 11_001)))

    def _set_profile(self, _: Bound, __: Keys) -> Call:
        return TrustStake.set_profile(name=self.chance.choice((b"", b"somebody")), web=b"")

    def _delegate(self, _: Bound, __: Keys) -> Call:
        return TrustStake.delegate(validator=self.chance.choice(self.validators).stash, value=self._amount(20 * OGPU))

    def _undelegate(self, bound: Bound, who: Keys) -> Call:
        validator = self._behind(bound, who.stash)
        return TrustStake.undelegate(validator=validator, value=self._amount(self._there(bound, who, validator)))

    def _redelegate(self, bound: Bound, who: Keys) -> Call:
        source, target = self._behind(bound, who.stash), self.chance.choice(self.validators).stash
        if source == target and self.chance.random() < 0.8:
            target = self.chance.choice(self.validators).stash
        return TrustStake.redelegate(source=source, target=target, value=self._amount(self._there(bound, who, source)))

    @staticmethod
    def _there(bound: Bound, who: Keys, validator: bytes) -> int:
        return stake_of(bound[TrustStake], who.stash, validator)

    def _claim(self, bound: Bound, who: Keys) -> Call:
        return TrustStake.claim(validator=self._rewarding(bound, who))

    def _compound(self, bound: Bound, who: Keys) -> Call:
        return TrustStake.compound(validator=self._rewarding(bound, who))

    def _rewarding(self, bound: Bound, who: Keys) -> bytes:
        return self._behind(bound, who.stash) if who in self.delegators else who.stash

    def _collect(self, bound: Bound, _: Keys) -> Call:
        staker = self.chance.choice(self.everybody)
        return TrustStake.collect(staker=staker.stash, validator=self._behind(bound, staker.stash))

    def _report_offence(self, bound: Bound, _: Keys) -> Call:
        epoch = max(0, bound[Beacon].epoch() - self.chance.choice((0, 0, 1, 2, 3, 4)))
        return double(self.chance.choice(self.chain.validators), self.chance.randrange(2**32), epoch)

    def _cancel_slashes(self, bound: Bound, _: Keys) -> Call:
        held = [offender for (offender, _), _ in bound[TrustStake].unapplied_slashes.items()]
        return TrustLock.cancel_slashes(offender=self._one_of(held))

    def _lift_tombstone(self, bound: Bound, _: Keys) -> Call:
        return TrustStake.lift_tombstone(
            stash=self._one_of([stash for stash, _ in bound[TrustStake].tombstones.items()])
        )

    def _one_of(self, accounts: list[bytes]) -> bytes:
        if accounts and self.chance.random() < 0.9:
            return self.chance.choice(accounts)
        return self.chance.choice(self.validators).stash
