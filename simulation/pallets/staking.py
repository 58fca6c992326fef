"""TrustStake: bonds, pools and their positions, unlocking stake, and rewards."""

from typing import Any

from runtime.blocks.block import HEADER, Header, seal_payload
from runtime.blocks.digest import PreDigest, author_item, pre_digest_item, seal_item
from runtime.blocks.evidence import DoubleHeader
from runtime.frame.holds import Hold
from runtime.frame.runtime import Bound
from runtime.pallets.balances import Balances
from runtime.pallets.beacon import Beacon
from runtime.pallets.pots import STAKES, STAKING_REWARDS
from runtime.pallets.staking.holdings import earned_by
from runtime.pallets.staking.stakers import PROFILE, STAKE
from runtime.pallets.staking.trust_stake import TrustStake
from simulation.actors import ACTORS, VALIDATORS, Actor, World, one_of
from simulation.books import EVERYBODY, Books, Keys, PalletBooks, Rule, claims, counts
from simulation.pallets.money import SUSTAINED

SHARES = Rule("shares of a pool, and of its positions")
DELEGATORS = Rule("delegators, and positions")
LEAVING = Rule("leaving a validator, and delegations on their way out")
FROZEN = Rule("slashes of a validator that wait, and those held")
CANDIDATES = Rule("candidates, and those listed")


def _bond(books: Books, keys: Keys, value: int, sign: int) -> None:
    books.case(keys[0], Hold(STAKE, keys[0]), sign * value)


def _pool(books: Books, keys: Keys, pool: Any, sign: int) -> None:
    books.case(STAKES, Hold(STAKE, keys[0]), sign * pool.stake.value)
    books[SHARES].claim(keys[0], sign * pool.stake.shares)
    books[DELEGATORS].claim(keys[0], sign * pool.delegators)


def _position(books: Books, keys: Keys, position: Any, sign: int) -> None:
    delegator, validator = keys
    assert position.shares > 0
    assert delegator != validator
    books[SHARES].count(validator, sign * position.shares)
    books[DELEGATORS].count(validator, sign)
    books[SUSTAINED].count(delegator, sign)


def _unlocking(books: Books, keys: Keys, chunks: Any, sign: int) -> None:
    assert chunks
    books[SUSTAINED].count(keys[0], sign)
    for chunk in chunks:
        is_own = chunk.validator == keys[0]
        books.case(keys[0] if is_own else STAKES, Hold(STAKE, chunk.validator), sign * chunk.value)
        if not is_own:
            books[LEAVING].count(chunk.validator, sign * chunk.value)


def _profile(books: Books, keys: Keys, profile: Any, sign: int) -> None:
    books.case(keys[0], Hold(PROFILE, keys[0]), sign * profile.deposit)


def _check(bound: Bound) -> None:
    """Check that the earned rewards exist, except for dust that the pot burned when it was nearly empty."""
    stake = bound[TrustStake]
    earned = dict.fromkeys((validator for validator, _ in stake.pools.items()), 0)
    for (delegator, validator), _ in stake.delegations.items():  # noqa: PERF102  # a storage map has no keys alone
        earned[validator] += earned_by(stake, delegator, validator)
    assert all(pool.owed >= earned[validator] for validator, pool in stake.pools.items())
    assert all(posting.shares > 0 for _, posting in stake.era_rewards_per_share.items())
    owed = sum(amount for _, amount in stake.pending_rewards.items()) + sum(
        pool.owed for _, pool in stake.pools.items()
    )
    assert abs(bound[Balances].free_balance(STAKING_REWARDS) - owed) < bound[Balances].existential_deposit


WORLDS = (
    PalletBooks(
        TrustStake,
        (
            (TrustStake.bonds, _bond),
            (TrustStake.pools, _pool),
            (TrustStake.delegations, _position),
            (TrustStake.unlocking, _unlocking),
            (TrustStake.unbonding_delegations, claims(LEAVING)),
            (TrustStake.profiles, _profile),
            (TrustStake.unapplied_slashes, counts(FROZEN, lambda keys: keys[0])),
            (TrustStake.pending_slash_counts, claims(FROZEN)),
            (TrustStake.candidate_count, claims(CANDIDATES)),
            (TrustStake.candidates, counts(CANDIDATES, lambda _: EVERYBODY)),
        ),
        _check,
    ),
)


OFFENDERS = ("Dave", "Bob")
FIRST_OFFENCE_HEIGHT = 130


def _evidence(world: World, _: Actor) -> DoubleHeader:
    """Return evidence of an offence: right, late, repeated or nonsense."""
    kind = world.chance.randrange(6)
    offenders = OFFENDERS if world.height > 3 * FIRST_OFFENCE_HEIGHT else OFFENDERS[:1]
    name = world.chance.choice(offenders) if world.height > FIRST_OFFENCE_HEIGHT else "Ferdie"
    offender = next(actor for actor in ACTORS if actor.name == name)
    epoch = world.bound[Beacon].epoch()
    if kind == 0:
        return DoubleHeader(world.chance.randbytes(40), b"")
    if kind == 1:  # the same header twice
        header = _sealed(world, offender, 1, epoch)
        return DoubleHeader(header, header)
    if kind == 2:
        validator = next(actor for actor in ACTORS if actor.name == VALIDATORS[0])
        old = (_sealed(world, validator, root, 0) for root in (1, 2))
        first, second = old
        if epoch > 4:
            return DoubleHeader(first, second)
    return DoubleHeader(_sealed(world, offender, 1, epoch), _sealed(world, offender, 2, epoch))


def _sealed(world: World, author: Actor, root: int, epoch: int) -> bytes:
    pre_digest = PreDigest(77, epoch, bytes(32), bytes(80))
    digest = (author_item(author.stash.account), pre_digest_item(pre_digest))
    header = Header(bytes(32), 9, bytes([root]) * 32, bytes(32), digest)
    seal = seal_item(author.session.sign(seal_payload(world.genesis_hash, header)))
    return HEADER.encode(Header(bytes(32), 9, header.state_root, bytes(32), (*digest, seal)))


def _behind(world: World, who: Actor) -> bytes:
    """Return a validator that the actor delegates to, else any."""
    behind = [validator for validator, _ in world.bound[TrustStake].delegations.under(who.stash.account)]
    return world.chance.choice(behind) if behind else world.validator()


def _own_or_behind(world: World, who: Actor) -> bytes:
    return world.chance.choice((who.stash.account, _behind(world, who)))


def _validator(world: World, _: Actor) -> bytes:
    return world.validator()


ARGUMENTS = {
    "validator": _validator,
    "source": _behind,
    "target": _validator,
    "stash": _validator,
    "offender": _validator,
    "staker": lambda _, who: who.stash.account,
    "commission_ppm": one_of(50_000, 55_000, 60_000, 900_000, 1),
    "name": lambda world, _: world.chance.choice((b"", b"Alice & sons", world.chance.randbytes(32))),
    "web": one_of(b"", b"https://example.org"),
    "evidence": _evidence,
    "TrustStake.undelegate.validator": _behind,
    "TrustStake.collect.validator": _behind,
    "TrustStake.claim.validator": _own_or_behind,
    "TrustStake.compound.validator": _own_or_behind,
}
