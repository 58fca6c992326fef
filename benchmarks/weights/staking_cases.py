"""Staking at its limits: 4,096 candidates, delegators behind each elected validator, 32 unlocking chunks."""

from collections.abc import Sequence
from dataclasses import replace

from benchmarks.weights.actors import FLEETS, Actor
from benchmarks.weights.findings import Findings, line
from benchmarks.weights.world import Step, World
from runtime.blocks.evidence import DoubleHeader
from runtime.encoding.types import Root, Unsigned
from runtime.frame.call import Call
from runtime.frame.errors import known
from runtime.frame.runtime import Bound
from runtime.pallets.beacon import Beacon
from runtime.pallets.session import Session
from runtime.pallets.staking import held_slashes
from runtime.pallets.staking.delegations import MOVED_MAX, MovedShares
from runtime.pallets.staking.offences import Offender
from runtime.pallets.staking.slash_factors import FACTORS_MAX, WHOLE, Factors, Liability, OffenceFactor, SlashStep
from runtime.pallets.staking.slashing import PPM
from runtime.pallets.staking.stakers import CANDIDATES_MAX, NAME_BYTES_MAX, UNLOCKING_MAX, WEB_BYTES_MAX
from runtime.pallets.staking.staking_events import NotCandidate
from runtime.pallets.staking.trust_lock import PROOFS_MAX, TrustLock
from runtime.pallets.staking.trust_stake import TrustStake
from simulation.chains.evidence import sealed
from simulation.chains.market_chain import OGPU, signed

ELECTED = 16
DELEGATORS = 256
"""Delegators behind each elected validator. A test shows that their number makes no difference."""
PLACES_LEFT = 8
"""Candidate places left for later cases."""
COMMISSION = 50_000
TO_LEAVE = UNLOCKING_MAX - 1
RECEIVERS_FROM = 40
"""The first validator with small delegations, so that one account can leave many validators."""


class Staking:
    """The staking part of the world.

    No delegation goes to the fleets, which must still work after offenders lose their seats.
    """

    def __init__(self, world: World, found: Findings) -> None:
        self.world, self.found = world, found
        self.backed = world.validators[FLEETS:][:ELECTED]
        self.delegators = [world.others[1_000 + place * DELEGATORS :][:DELEGATORS] for place in range(ELECTED)]
        self.newcomers = world.senders[100:]
        self.leaver = world.others[500]

    def measure_all(self) -> None:
        """Fill the state, measure its calls, then measure the calls that must wait."""
        self.fill()
        self.measure()
        self.measure_leaving()

    def fill(self) -> None:
        """Turn eras while candidates and delegators grow to their limits, and measure each turn."""
        world, found = self.world, self.found
        turns, paid = [], []
        self._to_the_end_of_an_epoch()
        turns.append(self._turn("an era's turn, few"))
        candidates = [
            step for actor in self.newcomers[: self._free_places()] for step in candidacy(world.genesis, actor)
        ]
        world.block(*candidates)
        for validator, behind in zip(self.backed, self.delegators, strict=True):
            call = TrustStake.delegate(validator=validator.stash, value=5 * OGPU)
            world.block(*(signed(who, call) for who in behind))
        self._to_the_end_of_an_epoch(self.backed[0])
        world.block(author=self.backed[0])
        # in the second era all delegators earn, except for one behind each elected validator, which adds to its
        # delegation
        self._to_the_end_of_an_epoch(self.backed[0])
        paid.append(self._authors())
        turns.append(self._turn("an era's turn, candidates"))
        for validator, behind in zip(self.backed, self.delegators, strict=True):
            call = TrustStake.delegate(validator=validator.stash, value=5 * OGPU)
            world.block(signed(behind[0], call), author=validator)
        self._to_the_end_of_an_epoch(self.backed[0])
        paid.append(self._authors())
        turns.append(self._turn("an era's turn, many paid"))
        grown = line("candidates", "each", {len(world.validators): turns[0], CANDIDATES_MAX - PLACES_LEFT: turns[1]})
        many = line("elected", "each", dict(zip(paid, turns[1:], strict=True)))
        row = "TrustStake.on_initialize"
        found.rows[f"{row} candidate"] = grown["candidates each"]
        found.rows[f"{row} elected"] = many["elected each"]
        found.rows[f"{row} era"] = max(0.0, grown["candidates"] - paid[0] * many["elected each"])
        for _ in range(ELECTED):
            world.block(author=self.backed[1])
        self._leave_many()
        self._to_the_end_of_an_epoch()
        world.block()

    def _turn(self, name: str) -> float:
        return self.found.hooks(name)["TrustStake"][0]

    def _authors(self) -> int:
        stake = self.world.now()[TrustStake]
        return len(stake.eras_reward_points[stake.current_era.get()])

    def measure(self) -> None:
        """Measure every call of TrustStake and TrustLock."""
        world, found = self.world, self.found
        fresh, candidate = self.newcomers[-1], self.newcomers[0]
        delegator, validator = self.delegators[1][0], self.backed[1].stash
        found.call(fresh.stash, TrustStake.bond(value=20 * OGPU))
        found.call(candidate.stash, TrustStake.bond_extra(value=OGPU))
        other = Actor("other keys")
        found.call(candidate.stash, offer_of(world.genesis, candidate, other))
        found.call(candidate.stash, Session.set_keys(other.node_keys(), other.proof(world.genesis, candidate.stash)))
        found.call(candidate.stash, TrustStake.chill())
        world.block(jailed(candidate.stash))
        found.call(candidate.stash, TrustStake.unjail())
        found.call(candidate.stash, TrustStake.announce_commission(commission_ppm=COMMISSION + 10_000))
        found.call(candidate.stash, TrustStake.set_profile(name=b"n" * NAME_BYTES_MAX, web=b"w" * WEB_BYTES_MAX))
        found.call(fresh.stash, TrustStake.delegate(validator=world.validators[RECEIVERS_FROM].stash, value=OGPU))
        world.block(struck(candidate.stash, self._sources()))
        found.call(candidate.stash, TrustStake.unbond(value=OGPU))
        self._moves(delegator, validator)
        self._much_to_collect(self.delegators[2][1], self.backed[2].stash)
        self._offences()

    def _moves(self, delegator: bytes, validator: bytes) -> None:
        """Measure a delegator with the most moves, each affected by slashes of its old validator."""
        world, found = self.world, self.found
        target = self.backed[2].stash
        world.block(signed(delegator, TrustStake.delegate(validator=target, value=5 * OGPU)))
        world.block(moved(delegator, validator, self._sources()))
        for call in (
            TrustStake.delegate(validator=validator, value=OGPU),
            TrustStake.undelegate(validator=validator, value=OGPU),
            TrustStake.redelegate(source=validator, target=target, value=OGPU),
            TrustStake.claim(validator=validator),
            TrustStake.compound(validator=validator),
            TrustStake.collect(staker=delegator, validator=validator),
        ):
            found.call(delegator, call)

    def _much_to_collect(self, delegator: bytes, validator: bytes) -> None:
        """Measure the collection from the most moves and the most chunks behind one validator, all of them slashed."""
        leave = signed(delegator, TrustStake.undelegate(validator=validator, value=2 * OGPU))
        sources = self._sources()
        steps = (leave, parted(delegator), moved(delegator, validator, sources), struck(delegator, sources))
        self.world.block(*steps)
        self.found.call(delegator, TrustStake.collect(staker=delegator, validator=validator))

    def _sources(self) -> list[bytes]:
        return [actor.stash for actor in self.world.validators[RECEIVERS_FROM:]]

    def measure_leaving(self) -> None:
        """Measure withdrawals, after some hundreds of blocks, when the chunks are free."""
        world, found = self.world, self.found
        until = max(chunk.until_epoch for chunk in world.now()[TrustStake].unlocking[self.leaver])
        while world.now()[Beacon].epoch_of(world.height + 1) < until:
            world.block()
        few, many = world.others[501], self.leaver
        waited = world.now()[TrustStake].unbonding_epochs
        world.block(*(struck(who, self._sources(), eras_ago=waited) for who in (few, many)))
        found.growing_by_signer("validator", TrustStake.withdraw_unbonded(), {1: few, TO_LEAVE: many})

    def _leave_many(self) -> None:
        """Make an account, and every delegator of one validator, leave enough validators to fill its list."""
        world = self.world
        receivers = world.validators[RECEIVERS_FROM:][:TO_LEAVE]
        few = world.others[501]
        world.block(*delegate_and_leave(few, receivers[:1]))
        world.block(*delegate_and_leave(self.leaver, receivers))
        world.block(*delegate_and_leave(self.newcomers[0].stash, receivers))
        world.block(*(step for who in self.delegators[1] for step in delegate_and_leave(who, receivers)))

    def _offences(self) -> None:
        """Measure one offence and a second one, and both when all others have offended too and lose everything."""
        world, found = self.world, self.found
        reporter = world.senders[1].stash
        first, second = self.backed[1], self.backed[2]
        accomplices = [actor for actor in world.validators if actor is not first]
        found.call(reporter, self._report(first), rounds=3)
        world.block(offended(accomplices))
        found.call(reporter, self._report(first), rounds=3)
        world.block(offended(()), signed(reporter, self._report(first)), signed(reporter, self._report(second)))
        self._attached()
        found.call(Root(), TrustLock.cancel_slashes(offender=first.stash))
        found.call(Root(), TrustStake.lift_tombstone(stash=first.stash))
        world.block(due(first.stash))
        strikes = [found.hooks("an earlier offender raised, a slash taken", rounds=3)]
        world.block()
        world.block(offended([*accomplices, first], is_raised=True), due(second.stash))
        strikes.append(found.hooks("an offender among 128 raised, a slash taken", rounds=3))
        world.block()
        world.block(offended(()))
        found.rows["TrustLock.on_initialize strike"] = max(hooks["TrustLock"][0] for hooks in strikes)

    def _report(self, offender: Actor) -> Call:
        return TrustLock.report_offence(evidence=self._evidence(offender))

    def _attached(self) -> None:
        """Measure evidence against a few seated validators, when all others have offended too."""
        world, stake = self.world, self.world.now()[TrustStake]
        guilty = [actor for actor in world.validators if stake.seat_of(actor.stash) is not None][-PROOFS_MAX:]
        world.block(offended([actor for actor in world.validators if actor not in guilty]))
        proofs = tuple(self._evidence(actor) for actor in guilty)
        calls = {count: TrustLock.attach_evidence(proofs=proofs[:count]) for count in (1, PROOFS_MAX)}
        self.found.growing(Unsigned(), "proof", calls)
        world.block(offended(()))

    def _evidence(self, offender: Actor) -> DoubleHeader:
        world = self.world
        epoch = world.now()[Beacon].epoch_of(world.height + 1)
        first, second = (sealed(offender, 9, epoch, parent, genesis=world.genesis) for parent in (b"p" * 32, b"q" * 32))
        return DoubleHeader(first, second)

    def _free_places(self) -> int:
        return CANDIDATES_MAX - PLACES_LEFT - self.world.now()[TrustStake].candidate_count.get()

    def _to_the_end_of_an_epoch(self, author: Actor | None = None) -> None:
        self.world.block(author=author)
        while not self.world.now()[Beacon].is_epoch_end(self.world.height):
            self.world.block(author=author)


def jailed(stash: bytes) -> Step:
    """Return a step that jails a validator."""

    def step(bound: Bound) -> None:
        bound[TrustStake].jailed[stash] = bound[TrustStake].current_era.get()

    return step


def candidacy(genesis: bytes, actor: Actor) -> tuple[Step, Step]:
    """Return the steps that make an account a candidate."""
    bond = signed(actor.stash, TrustStake.bond(value=20 * OGPU))
    return bond, signed(actor.stash, offer_of(genesis, actor, actor))


def offer_of(genesis: bytes, actor: Actor, keys: Actor) -> Call:
    """Return an actor's offer to validate, with the keys of another name."""
    proof = keys.proof(genesis, actor.stash)
    return TrustStake.validate(keys.node_keys(), proof, keys.public("provider"), COMMISSION)


def delegate_and_leave(who: bytes, validators: list[Actor]) -> list[Step]:
    """Return steps that leave one unlocking chunk for each validator."""
    steps = []
    for validator in validators:
        steps.append(signed(who, TrustStake.delegate(validator=validator.stash, value=OGPU)))
        steps.append(signed(who, TrustStake.undelegate(validator=validator.stash, value=OGPU)))
    return steps


def moved(delegator: bytes, validator: bytes, sources: Sequence[bytes]) -> Step:
    """Return a step: a position's shares all came from other validators, each of which was slashed later."""

    def step(bound: Bound) -> None:
        stake = bound[TrustStake]
        position = known(stake.delegations[delegator, validator], NotCandidate)
        era, each = stake.current_era.get(), position.shares // (2 * MOVED_MAX)
        moves = tuple(MovedShares(each, Liability(source, era, ())) for source in sources[:MOVED_MAX])
        stake.delegations[delegator, validator] = replace(position, moved=moves)
        for source in sources[:MOVED_MAX]:
            stake.slash_factors[source] = offences(era)

    return step


def offences(era: int) -> Factors:
    """Return as many slash factors as the chain remembers, or as many as can exist by this era."""
    return tuple(OffenceFactor(era - past, WHOLE - 10**12) for past in reversed(range(min(FACTORS_MAX, era + 1))))


def parted(staker: bytes) -> Step:
    """Return a step that splits an account's unlocking stake into the most chunks."""

    def step(bound: Bound) -> None:
        stake = bound[TrustStake]
        (chunk,) = stake.unlocking[staker]
        part = replace(chunk, value=chunk.value // UNLOCKING_MAX)
        stake.unlocking[staker] = tuple(
            replace(part, until_epoch=chunk.until_epoch + place) for place in range(UNLOCKING_MAX)
        )

    return step


def struck(staker: bytes, sources: Sequence[bytes], eras_ago: int = 0) -> Step:
    """Return a step: stake that left `eras_ago` eras ago is liable for two validators each, both slashed later."""

    def step(bound: Bound) -> None:
        stake = bound[TrustStake]
        era, chunks = stake.current_era.get() - eras_ago, stake.unlocking[staker]
        pairs = [(chunk.validator, source) for chunk, source in zip(chunks, sources, strict=False)]
        for pair in pairs:
            for validator in pair:
                stake.slash_factors[validator] = offences(era)
        stake.unlocking[staker] = tuple(
            replace(chunk, answers=tuple(Liability(validator, era, ()) for validator in pair))
            for chunk, pair in zip(chunks, pairs, strict=True)
        )

    return step


def due(offender: bytes) -> Step:
    """Return a step: a slash of the validator is due in the next block."""

    def step(bound: Bound) -> None:
        stake = bound[TrustStake]
        number = stake.next_slash_number.get()
        held_slashes.hold_back(stake, offender, stake.current_era.get(), SlashStep(0, 10_000), offender)
        held = stake.unapplied_slashes[offender, number]
        assert held is not None
        # Due at once, without the usual wait.
        stake.unapplied_slashes[offender, number] = replace(held, take_era=0)
        stake.first_slash_number.set(number)

    return step


def offended(actors: Sequence[Actor], is_raised: bool = False) -> Step:
    """Return a step that records offences without losses.

    If `is_raised` is True, all offenders but the last have lost everything, and the raise of the last is due.
    """

    def step(bound: Bound) -> None:
        stake, epoch = bound[TrustStake], bound[Beacon].epoch()
        era, lost = epoch // stake.era_epochs, PPM if is_raised else 0
        seats = {seat.stash: seat.weight for seat in stake.validators(epoch)}
        total = sum(seats.values())
        weights = [(actor.stash, seats.get(actor.stash, 0)) for actor in actors]
        window = [Offender(stash, epoch, era, weight, lost, total) for stash, weight in weights]
        if is_raised:
            window[-1] = replace(window[-1], slashed_ppm=0)
            bound[TrustLock].raised.set(PPM)
        bound[TrustLock].offenders.set(tuple(window))

    return step
