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


def stake_of(stake: StakeLedger, account: bytes, validator: bytes) -> int:
    """Return an account's stake behind a validator, after all slashes of its earlier validators."""
    if account == validator:
        return stake.bonds[account]
    position = stake.delegations[account, validator]
    if position is None:
        return 0
    # The exact result of `up_to_date`, because an owner that withdraws everything names this amount.
    charged = _without_slashes(stake, PoolStep(stake.pools[validator], position))
    return worth(charged.pool.stake, charged.position.shares)


def earned_by(stake: StakeLedger, account: bytes, validator: bytes) -> int:
    """Return the rewards that an account may claim from a validator."""
    if account == validator:
        return stake.pending_rewards[account]
    position = stake.delegations[account, validator]
    if position is None:
        return 0
    posting = stake.era_rewards_per_share[validator, position.era]
    return position.owed + delegations.earned(stake.pools[validator], position, posting)


def up_to_date(stake: StakeLedger, account: bytes, validator: bytes) -> PoolStep:
    """Return a position with its earnings, after the slashes of its moves. It is new if there was none."""
    current_era, pool = stake.current_era.get(), stake.pools[validator]
    position = stake.delegations[account, validator] or Position(era=current_era, index=pool.index)
    joined_in, joined_shares = position.era, position.joined
    posting = stake.era_rewards_per_share[validator, joined_in]
    position, charged = delegations.touched(pool, position, posting, current_era)
    if joined_shares and joined_in != current_era:
        if charged.shares:
            stake.era_rewards_per_share[validator, joined_in] = charged
        else:
            del stake.era_rewards_per_share[validator, joined_in]
    return _charged(stake, account, validator, PoolStep(pool, position))


def write(stake: StakeLedger, account: bytes, validator: bytes, standing: PoolStep) -> None:
    """Store a position and its pool. A position without shares is paid and removed, as is a pool without positions."""
    is_new_position = (account, validator) not in stake.delegations
    if standing.position.shares:
        stake.delegations[account, validator] = standing.position
        stake.pools[validator] = standing.pool
        if is_new_position:
            stake.balances.sustain(account, 1)
        return
    standing, paid_grains = delegations.pay(standing.pool, standing.position)
    stake.pay_from(STAKING_REWARDS, account, paid_grains)
    if not is_new_position:
        del stake.delegations[account, validator]
        stake.balances.sustain(account, -1)
    stake.pools[validator] = standing.pool
    # Only rounding is left: nobody can claim it any more.
    if not standing.pool.stake.shares:
        stake.pay_from(STAKING_REWARDS, RESERVE, standing.pool.owed)
        del stake.pools[validator]


def add(
    stake: StakeLedger,
    account: bytes,
    validator: bytes,
    amount: int,
    answered: Liability | None = None,
) -> None:
    """Add grains that `STAKES` holds for the validator to a position. Raise PoolSpent if none may join."""
    standing = up_to_date(stake, account, validator)
    # Shares of a pool that slashes nearly emptied would grow without bound.
    ensure(not is_spent(standing.pool.stake), PoolSpent)
    moved_answers = {part.answer for part in standing.position.moved}
    ensure(answered is None or answered in moved_answers or len(moved_answers) < MOVED_MAX, TooManyMoves)
    current_era = stake.current_era.get()
    standing, dust = delegations.enter(standing.pool, standing.position, amount, current_era, answered)
    write(stake, account, validator, standing)
    stake.burn(STAKES, validator, dust)


def take(stake: StakeLedger, account: bytes, validator: bytes, amount: int, *, is_moving: bool = False) -> Departed:
    """Take grains out of a position.

    Raise NotEnoughStake, or StillAnswering if stake is moving and too little of it is without an answer.
    """
    standing = up_to_date(stake, account, validator)
    pool, position = standing.pool, standing.position
    ensure(amount <= worth(pool.stake, position.shares), NotEnoughStake)
    # A moved share carries one answer, so stake that still answers for a validator cannot move again.
    owned_shares = delegations.free_shares(position) if is_moving else position.shares
    ensure(amount <= worth(pool.stake, owned_shares), StillAnswering)
    share_count = shares_for(pool.stake, amount, owned_shares)
    departed = delegations.depart(pool, position, share_count, stake.current_era.get())
    write(stake, account, validator, PoolStep(departed.pool, departed.position))
    stake.burn(STAKES, validator, departed.dust)
    return departed


def unlock_later(
    stake: StakeLedger,
    account: bytes,
    validator: bytes,
    part_amounts: tuple[tuple[Liability | None, int], ...],
) -> None:
    """Add stake that left a position or a bond to the unlocking chunks.

    It carries the validator's answer, beside an answer that it brought along.
    """
    until_epoch = stake.beacon.epoch() + stake.unbonding_epochs
    own_answer = answer_now(stake, validator)
    chunks = list(stake.unlocking[account])
    for brought_answer, amount in part_amounts:
        if not amount:
            continue
        answers = (own_answer,) if brought_answer is None else (own_answer, brought_answer)
        # One chunk for a validator and an epoch: otherwise small steps would soon fill the list.
        alike = [chunk for chunk in chunks if _kind(chunk) == (validator, until_epoch, answers)]
        merged_grains = amount + sum(chunk.value for chunk in alike)
        chunks = [chunk for chunk in chunks if _kind(chunk) != (validator, until_epoch, answers)]
        chunks.append(Unlocking(validator, merged_grains, until_epoch, answers))
    ensure(len(chunks) <= UNLOCKING_MAX, TooManyChunks)
    stake.set_unlocking(account, tuple(chunks))
    total_grains = sum(amount for _, amount in part_amounts)
    if account != validator:
        stake.change_leaving(validator, total_grains)
    stake.emit(Unbonded(account, validator, total_grains, until_epoch))


def reckon(stake: StakeLedger, account: bytes, validator: bytes, chunks: Sequence[Unlocking]) -> tuple[Unlocking, ...]:
    """Take slashes since the last update from chunks behind one validator. Return the chunks for the caller to store.

    One payment for all of them: 32 chunks that bear two slashes each would otherwise take as long as forty transfers.
    """
    charged = tuple(
        replace(
            chunk,
            value=value_now(stake, chunk),
            answers=tuple(
                replace(answered, borne=stake.slash_factors[answered.validator]) for answered in chunk.answers
            ),
        )
        for chunk in chunks
    )
    lost_grains = sum(chunk.value for chunk in chunks) - sum(chunk.value for chunk in charged)
    stake.pay_slash(stake.holder(account, validator), validator, account, lost_grains, None)
    if account != validator and lost_grains:
        stake.change_leaving(validator, -lost_grains)
    return charged


def is_free(stake: StakeLedger, chunk: Unlocking) -> bool:
    """Return True if a chunk may be withdrawn: its time is over, and no slash of it is pending or can still come."""
    current_epoch = stake.beacon.epoch()
    is_over = chunk.until_epoch <= current_epoch and all(
        _evidence_end(stake, answered) <= current_epoch for answered in chunk.answers
    )
    return is_over and not is_kept(stake, chunk)


def is_kept(stake: StakeLedger, chunk: Unlocking) -> bool:
    """Return True if a chunk must stay even after its time, because a proven offence may take more of it."""
    return any(_is_struck(stake, answered) for answered in chunk.answers)


def answer_now(stake: StakeLedger, validator: bytes) -> Liability:
    """Return the answer of stake that leaves a validator now."""
    return Liability(validator, stake.current_era.get(), stake.slash_factors[validator])


def kept_until(stake: StakeLedger, chunk: Unlocking) -> int:
    """Return the first epoch in which a chunk can be free, as known now. An unapplied slash may delay it."""
    end_epochs = ((_evidence_end(stake, answered), _raises_end(stake, answered)) for answered in chunk.answers)
    return max(chunk.until_epoch, *(end_epoch for pair in end_epochs for end_epoch in pair), 0)


def value_now(stake: StakeLedger, chunk: Unlocking) -> int:
    """Return the current value of a chunk, without storing it."""
    remaining_grains = chunk.value
    for answered in chunk.answers:
        remaining_grains = left_of(remaining_grains, answered, stake.slash_factors[answered.validator])
    return remaining_grains


def _kind(chunk: Unlocking) -> tuple[bytes, int, tuple[Liability, ...]]:
    return chunk.validator, chunk.until_epoch, chunk.answers


def _charged(stake: StakeLedger, account: bytes, validator: bytes, standing: PoolStep) -> PoolStep:
    """Return a position charged with the slashes of its old validators, without answers that have expired."""
    charged = _without_slashes(stake, standing)
    stake.pay_slash(STAKES, validator, account, sum(amount for _, amount in charged.amounts), None)
    stake.burn(STAKES, validator, charged.dust)
    kept_parts = tuple(part for part in charged.position.moved if _may_be_called(stake, part.answer))
    return PoolStep(charged.pool, replace(charged.position, moved=kept_parts))


def _without_slashes(stake: StakeLedger, standing: PoolStep) -> Departed:
    """Return a position after the slashes of its old validators, with the amounts taken and the dust."""
    charged_pool, charged_position, move_index, dust = standing.pool, standing.position, 0, 0
    part_amounts: tuple[tuple[Liability | None, int], ...] = ()
    while move_index < len(charged_position.moved):
        moved_count, answered = len(charged_position.moved), charged_position.moved[move_index].answer
        slash_factors = stake.slash_factors[answered.validator]
        if slash_factors == answered.borne:  # the usual case: no new slash
            move_index += 1
            continue
        departed = delegations.charge(
            charged_pool, charged_position, move_index, slash_factors, stake.current_era.get()
        )
        charged_pool, charged_position = departed.pool, departed.position
        part_amounts, dust = (*part_amounts, *departed.amounts), dust + departed.dust
        move_index += len(charged_position.moved) == moved_count
    return Departed(charged_pool, charged_position, part_amounts, dust)


def _may_be_called(stake: StakeLedger, answered: Liability) -> bool:
    """Return True if evidence may still come, or a slash is pending or may be raised."""
    return _evidence_end(stake, answered) > stake.beacon.epoch() or _is_struck(stake, answered)


def _evidence_end(stake: StakeLedger, answered: Liability) -> int:
    """Return the first epoch in which evidence for such an answer is too old."""
    last_era = stake.last_answerable(answered.validator, answered.era)
    return (last_era + 1) * stake.era_epochs + stake.evidence_epochs


def _is_struck(stake: StakeLedger, answered: Liability) -> bool:
    """Return True if a slash is pending, or later offences may raise one that was taken."""
    return stake.pending_slash_counts[answered.validator] > 0 or _raises_end(stake, answered) > stake.beacon.epoch()


def _raises_end(stake: StakeLedger, answered: Liability) -> int:
    """Return the first epoch in which a taken slash cannot be raised any more, 0 if none was taken.

    Offences within the unbonding time raise an earlier one, one offender in a block: an epoch more.
    """
    # Factors first: a validator that never offended has none, and nothing else is read.
    if all(offence_factor.era > answered.era for offence_factor in stake.slash_factors[answered.validator]):
        return 0
    tombstone_era = stake.tombstones[answered.validator]
    # Without a tombstone Root has pardoned the offender, so nothing raises its slash.
    return 0 if tombstone_era is None else (tombstone_era + 1) * stake.era_epochs + stake.unbonding_epochs + 1
