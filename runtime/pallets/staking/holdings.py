"""Positions and unlocking stake in the state. Each step first brings the records that it touches up to date.

Invariant: a step costs the same for any number of delegators. Stake that leaves a position stays held in the same place
until it is free, and carries an answer for the validator that it left.
"""

from collections.abc import Sequence
from dataclasses import replace

from runtime.frame.errors import ensure
from runtime.pallets.pots import RESERVE, STAKES, STAKING_REWARDS
from runtime.pallets.staking import delegations
from runtime.pallets.staking.delegations import MOVED_MAX, Departed, PoolStep, Position
from runtime.pallets.staking.share_pool import is_spent, shares_for, worth
from runtime.pallets.staking.slash_factors import Liability, left_of
from runtime.pallets.staking.stake_ledger import StakeLedger
from runtime.pallets.staking.stakers import UNLOCKING_MAX, Unlocking
from runtime.pallets.staking.staking_events import (
    NotEnoughStake,
    PoolSpent,
    StillAnswering,
    TooManyChunks,
    TooManyMoves,
    Unbonded,
)


def stake_of(stake: StakeLedger, who: bytes, validator: bytes) -> int:
    """Return an account's stake behind a validator, after all slashes of its earlier validators."""
    if who == validator:
        return stake.bonds[who]
    position = stake.delegations[who, validator]
    if position is None:
        return 0
    # The exact result of `up_to_date`, because an owner that withdraws everything names this amount.
    after = _without_slashes(stake, PoolStep(stake.pools[validator], position))
    return worth(after.pool.stake, after.position.shares)


def earned_by(stake: StakeLedger, who: bytes, validator: bytes) -> int:
    """Return the rewards that an account may claim from a validator."""
    if who == validator:
        return stake.pending_rewards[who]
    position = stake.delegations[who, validator]
    if position is None:
        return 0
    posting = stake.era_rewards_per_share[validator, position.era]
    return position.owed + delegations.earned(stake.pools[validator], position, posting)


def up_to_date(stake: StakeLedger, who: bytes, validator: bytes) -> PoolStep:
    """Return a position with its earnings, after the slashes of its moves. It is new if there was none."""
    era, pool = stake.current_era.get(), stake.pools[validator]
    position = stake.delegations[who, validator] or Position(era=era, index=pool.index)
    joined_in, joined = position.era, position.joined
    posting = stake.era_rewards_per_share[validator, joined_in]
    position, after = delegations.touched(pool, position, posting, era)
    if joined and joined_in != era:
        if after.shares:
            stake.era_rewards_per_share[validator, joined_in] = after
        else:
            del stake.era_rewards_per_share[validator, joined_in]
    return _charged(stake, who, validator, PoolStep(pool, position))


def write(stake: StakeLedger, who: bytes, validator: bytes, standing: PoolStep) -> None:
    """Store a position and its pool. A position without shares is paid and removed, as is a pool without positions."""
    is_new = (who, validator) not in stake.delegations
    if standing.position.shares:
        stake.delegations[who, validator] = standing.position
        stake.pools[validator] = standing.pool
        if is_new:
            stake.balances.sustain(who, 1)
        return
    standing, paid = delegations.pay(standing.pool, standing.position)
    stake.pay_from(STAKING_REWARDS, who, paid)
    if not is_new:
        del stake.delegations[who, validator]
        stake.balances.sustain(who, -1)
    stake.pools[validator] = standing.pool
    # Only rounding is left: nobody can claim it any more.
    if not standing.pool.stake.shares:
        stake.pay_from(STAKING_REWARDS, RESERVE, standing.pool.owed)
        del stake.pools[validator]


def add(stake: StakeLedger, who: bytes, validator: bytes, amount: int, answered: Liability | None = None) -> None:
    """Add grains that `STAKES` holds for the validator to a position. Raise PoolSpent if none may join."""
    standing = up_to_date(stake, who, validator)
    # Shares of a pool that slashes nearly emptied would grow without bound.
    ensure(not is_spent(standing.pool.stake), PoolSpent)
    moves = {move.answer for move in standing.position.moved}
    ensure(answered is None or answered in moves or len(moves) < MOVED_MAX, TooManyMoves)
    era = stake.current_era.get()
    standing, dust = delegations.enter(standing.pool, standing.position, amount, era, answered)
    write(stake, who, validator, standing)
    stake.burn(STAKES, validator, dust)


def take(stake: StakeLedger, who: bytes, validator: bytes, amount: int, *, is_moving: bool = False) -> Departed:
    """Take grains out of a position.

    Raise NotEnoughStake, or StillAnswering if stake is moving and too little of it is without an answer.
    """
    standing = up_to_date(stake, who, validator)
    pool, position = standing.pool, standing.position
    ensure(amount <= worth(pool.stake, position.shares), NotEnoughStake)
    owned = delegations.free_shares(position) if is_moving else position.shares
    ensure(amount <= worth(pool.stake, owned), StillAnswering)
    shares = shares_for(pool.stake, amount, owned)
    departed = delegations.depart(pool, position, shares, stake.current_era.get())
    write(stake, who, validator, PoolStep(departed.pool, departed.position))
    stake.burn(STAKES, validator, departed.dust)
    return departed


def unlock_later(
    stake: StakeLedger, who: bytes, validator: bytes, parts: tuple[tuple[Liability | None, int], ...]
) -> None:
    """Add stake that left a position or a bond to the unlocking chunks.

    It carries the validator's answer, beside an answer that it brought along.
    """
    until = stake.beacon.epoch() + stake.unbonding_epochs
    mine = answer_now(stake, validator)
    chunks = list(stake.unlocking[who])
    for brought, value in parts:
        if not value:
            continue
        answers = (mine,) if brought is None else (mine, brought)
        # One chunk for a validator and an epoch: otherwise small steps would soon fill the list.
        alike = [chunk for chunk in chunks if _kind(chunk) == (validator, until, answers)]
        merged = value + sum(chunk.value for chunk in alike)
        chunks = [chunk for chunk in chunks if _kind(chunk) != (validator, until, answers)]
        chunks.append(Unlocking(validator, merged, until, answers))
    ensure(len(chunks) <= UNLOCKING_MAX, TooManyChunks)
    stake.set_unlocking(who, tuple(chunks))
    total = sum(value for _, value in parts)
    if who != validator:
        stake.change_leaving(validator, total)
    stake.emit(Unbonded(who, validator, total, until))


def reckon(stake: StakeLedger, who: bytes, validator: bytes, chunks: Sequence[Unlocking]) -> tuple[Unlocking, ...]:
    """Take slashes since the last update from chunks behind one validator. Return the chunks for the caller to store.

    One payment for all of them: 32 chunks that bear two slashes each would otherwise take as long as forty transfers.
    """
    now = tuple(
        replace(
            chunk,
            value=value_now(stake, chunk),
            answers=tuple(replace(each, borne=stake.slash_factors[each.validator]) for each in chunk.answers),
        )
        for chunk in chunks
    )
    lost = sum(chunk.value for chunk in chunks) - sum(chunk.value for chunk in now)
    stake.pay_slash(stake.holder(who, validator), validator, who, lost, None)
    if who != validator and lost:
        stake.change_leaving(validator, -lost)
    return now


def is_free(stake: StakeLedger, chunk: Unlocking) -> bool:
    """Return True if a chunk may be withdrawn: its time is over, and no slash of it is pending or can still come."""
    epoch = stake.beacon.epoch()
    is_over = chunk.until_epoch <= epoch and all(_evidence_end(stake, each) <= epoch for each in chunk.answers)
    return is_over and not is_kept(stake, chunk)


def is_kept(stake: StakeLedger, chunk: Unlocking) -> bool:
    """Return True if a chunk must stay even after its time, because a proven offence may take more of it."""
    return any(_is_struck(stake, answered) for answered in chunk.answers)


def answer_now(stake: StakeLedger, validator: bytes) -> Liability:
    """Return the answer of stake that leaves a validator now."""
    return Liability(validator, stake.current_era.get(), stake.slash_factors[validator])


def kept_until(stake: StakeLedger, chunk: Unlocking) -> int:
    """Return the first epoch in which a chunk can be free, as known now. An unapplied slash may delay it."""
    ends = ((_evidence_end(stake, answered), _raises_end(stake, answered)) for answered in chunk.answers)
    return max(chunk.until_epoch, *(end for pair in ends for end in pair), 0)


def value_now(stake: StakeLedger, chunk: Unlocking) -> int:
    """Return the current value of a chunk, without storing it."""
    value = chunk.value
    for answered in chunk.answers:
        value = left_of(value, answered, stake.slash_factors[answered.validator])
    return value


def _kind(chunk: Unlocking) -> tuple[bytes, int, tuple[Liability, ...]]:
    return chunk.validator, chunk.until_epoch, chunk.answers


def _charged(stake: StakeLedger, who: bytes, validator: bytes, standing: PoolStep) -> PoolStep:
    """Return a position charged with the slashes of its old validators, without answers that have expired."""
    after = _without_slashes(stake, standing)
    stake.pay_slash(STAKES, validator, who, sum(amount for _, amount in after.amounts), None)
    stake.burn(STAKES, validator, after.dust)
    kept = tuple(move for move in after.position.moved if _may_be_called(stake, move.answer))
    return PoolStep(after.pool, replace(after.position, moved=kept))


def _without_slashes(stake: StakeLedger, standing: PoolStep) -> Departed:
    """Return a position after the slashes of its old validators, with the amounts taken and the dust."""
    pool, position, place, dust = standing.pool, standing.position, 0, 0
    amounts: tuple[tuple[Liability | None, int], ...] = ()
    while place < len(position.moved):
        count, answered = len(position.moved), position.moved[place].answer
        factors = stake.slash_factors[answered.validator]
        if factors == answered.borne:  # the usual case: no new slash
            place += 1
            continue
        after = delegations.charge(pool, position, place, factors, stake.current_era.get())
        pool, position = after.pool, after.position
        amounts, dust = (*amounts, *after.amounts), dust + after.dust
        place += len(position.moved) == count
    return Departed(pool, position, amounts, dust)


def _may_be_called(stake: StakeLedger, answered: Liability) -> bool:
    """Return True if evidence may still come, or a slash is pending or may be raised."""
    return _evidence_end(stake, answered) > stake.beacon.epoch() or _is_struck(stake, answered)


def _evidence_end(stake: StakeLedger, answered: Liability) -> int:
    """Return the first epoch in which evidence for such an answer is too old."""
    last = stake.last_answerable(answered.validator, answered.era)
    return (last + 1) * stake.era_epochs + stake.evidence_epochs


def _is_struck(stake: StakeLedger, answered: Liability) -> bool:
    """Return True if a slash is pending, or later offences may raise one that was taken."""
    return stake.pending_slash_counts[answered.validator] > 0 or _raises_end(stake, answered) > stake.beacon.epoch()


def _raises_end(stake: StakeLedger, answered: Liability) -> int:
    """Return the first epoch in which a taken slash cannot be raised any more, 0 if none was taken.

    Offences within the unbonding time raise an earlier one, one offender in a block: an epoch more.
    """
    # Factors first: a validator that never offended has none, and nothing else is read.
    if all(factor.era > answered.era for factor in stake.slash_factors[answered.validator]):
        return 0
    since = stake.tombstones[answered.validator]
    # Without a tombstone Root has pardoned the offender, so nothing raises its slash.
    return 0 if since is None else (since + 1) * stake.era_epochs + stake.unbonding_epochs + 1
