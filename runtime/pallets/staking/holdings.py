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


def stake_of(stake_ledger: StakeLedger, account_id: bytes, validator: bytes) -> int:
    """Return an account's stake behind a validator, after all slashes of its earlier validators."""
    if account_id == validator:
        return stake_ledger.bonds[account_id]
    position = stake_ledger.delegations[account_id, validator]
    if position is None:
        return 0
    # The exact result of `up_to_date`, because an owner that withdraws everything names this amount.
    charged = _without_slashes(stake_ledger, PoolStep(stake_ledger.pools[validator], position))
    return worth(charged.pool.stake, charged.position.shares)


def earned_by(stake_ledger: StakeLedger, account_id: bytes, validator: bytes) -> int:
    """Return the rewards that an account may claim from a validator."""
    if account_id == validator:
        return stake_ledger.pending_rewards[account_id]
    position = stake_ledger.delegations[account_id, validator]
    if position is None:
        return 0
    era_posting = stake_ledger.era_rewards_per_share[validator, position.era]
    return position.owed + delegations.earned(stake_ledger.pools[validator], position, era_posting)


def up_to_date(stake_ledger: StakeLedger, account_id: bytes, validator: bytes) -> PoolStep:
    """Return a position with its earnings, after the slashes of its moves. It is new if there was none."""
    current_era, updated_pool = stake_ledger.current_era.get(), stake_ledger.pools[validator]
    position = stake_ledger.delegations[account_id, validator] or Position(era=current_era, index=updated_pool.index)
    joined_in, joined_shares = position.era, position.joined
    era_posting = stake_ledger.era_rewards_per_share[validator, joined_in]
    position, charged = delegations.touched(updated_pool, position, era_posting, current_era)
    if joined_shares and joined_in != current_era:
        if charged.shares:
            stake_ledger.era_rewards_per_share[validator, joined_in] = charged
        else:
            del stake_ledger.era_rewards_per_share[validator, joined_in]
    return _charged(stake_ledger, account_id, validator, PoolStep(updated_pool, position))


def write(stake_ledger: StakeLedger, account_id: bytes, validator: bytes, standing: PoolStep) -> None:
    """Store a position and its pool. A position without shares is paid and removed, as is a pool without positions."""
    is_new_position = (account_id, validator) not in stake_ledger.delegations
    if standing.position.shares:
        stake_ledger.delegations[account_id, validator] = standing.position
        stake_ledger.pools[validator] = standing.pool
        if is_new_position:
            stake_ledger.balances.sustain(account_id, 1)
        return
    standing, paid_grains = delegations.pay(standing.pool, standing.position)
    stake_ledger.pay_from(STAKING_REWARDS, account_id, paid_grains)
    if not is_new_position:
        del stake_ledger.delegations[account_id, validator]
        stake_ledger.balances.sustain(account_id, -1)
    stake_ledger.pools[validator] = standing.pool
    # Only rounding is left: nobody can claim it any more.
    if not standing.pool.stake.shares:
        stake_ledger.pay_from(STAKING_REWARDS, RESERVE, standing.pool.owed)
        del stake_ledger.pools[validator]


def add(
    stake_ledger: StakeLedger,
    account_id: bytes,
    validator: bytes,
    amount_grains: int,
    answered: Liability | None = None,
) -> None:
    """Add grains that `STAKES` holds for the validator to a position. Raise PoolSpent if none may join."""
    standing = up_to_date(stake_ledger, account_id, validator)
    # Shares of a pool that slashes nearly emptied would grow without bound.
    ensure(not is_spent(standing.pool.stake), PoolSpent)
    moved_answers = {moved_part.answer for moved_part in standing.position.moved}
    ensure(answered is None or answered in moved_answers or len(moved_answers) < MOVED_MAX, TooManyMoves)
    current_era = stake_ledger.current_era.get()
    standing, dust_grains = delegations.enter(standing.pool, standing.position, amount_grains, current_era, answered)
    write(stake_ledger, account_id, validator, standing)
    stake_ledger.burn(STAKES, validator, dust_grains)


def take(
    stake_ledger: StakeLedger, account_id: bytes, validator: bytes, amount_grains: int, *, is_moving: bool = False
) -> Departed:
    """Take grains out of a position.

    Raise NotEnoughStake, or StillAnswering if stake is moving and too little of it is without an answer.
    """
    standing = up_to_date(stake_ledger, account_id, validator)
    updated_pool, position = standing.pool, standing.position
    ensure(amount_grains <= worth(updated_pool.stake, position.shares), NotEnoughStake)
    # A moved share carries one answer, so stake that still answers for a validator cannot move again.
    owned_shares = delegations.free_shares(position) if is_moving else position.shares
    ensure(amount_grains <= worth(updated_pool.stake, owned_shares), StillAnswering)
    share_count = shares_for(updated_pool.stake, amount_grains, owned_shares)
    departed = delegations.depart(updated_pool, position, share_count, stake_ledger.current_era.get())
    write(stake_ledger, account_id, validator, PoolStep(departed.pool, departed.position))
    stake_ledger.burn(STAKES, validator, departed.dust)
    return departed


def unlock_later(
    stake_ledger: StakeLedger,
    account_id: bytes,
    validator: bytes,
    part_amounts: tuple[tuple[Liability | None, int], ...],
) -> None:
    """Add stake that left a position or a bond to the unlocking chunks.

    It carries the validator's answer, beside an answer that it brought along.
    """
    until_epoch = stake_ledger.beacon.epoch() + stake_ledger.unbonding_epochs
    own_answer = answer_now(stake_ledger, validator)
    unlocking_chunks = list(stake_ledger.unlocking[account_id])
    for brought_answer, part_grains in part_amounts:
        if not part_grains:
            continue
        chunk_answers = (own_answer,) if brought_answer is None else (own_answer, brought_answer)
        # One chunk for a validator and an epoch: otherwise small steps would soon fill the list.
        alike_chunks = [
            unlocking_chunk
            for unlocking_chunk in unlocking_chunks
            if _kind(unlocking_chunk) == (validator, until_epoch, chunk_answers)
        ]
        merged_grains = part_grains + sum(unlocking_chunk.value for unlocking_chunk in alike_chunks)
        unlocking_chunks = [
            unlocking_chunk
            for unlocking_chunk in unlocking_chunks
            if _kind(unlocking_chunk) != (validator, until_epoch, chunk_answers)
        ]
        unlocking_chunks.append(Unlocking(validator, merged_grains, until_epoch, chunk_answers))
    ensure(len(unlocking_chunks) <= UNLOCKING_MAX, TooManyChunks)
    stake_ledger.set_unlocking(account_id, tuple(unlocking_chunks))
    total_grains = sum(part_grains for _, part_grains in part_amounts)
    if account_id != validator:
        stake_ledger.change_leaving(validator, total_grains)
    stake_ledger.emit(Unbonded(account_id, validator, total_grains, until_epoch))


def reckon(
    stake_ledger: StakeLedger, account_id: bytes, validator: bytes, unlocking_chunks: Sequence[Unlocking]
) -> tuple[Unlocking, ...]:
    """Take slashes since the last update from chunks behind one validator. Return the chunks for the caller to store.

    One payment for all of them: 32 chunks that bear two slashes each would otherwise take as long as forty transfers.
    """
    charged_chunks = tuple(
        replace(
            unlocking_chunk,
            value=value_now(stake_ledger, unlocking_chunk),
            answers=tuple(
                replace(answered, borne=stake_ledger.slash_factors[answered.validator])
                for answered in unlocking_chunk.answers
            ),
        )
        for unlocking_chunk in unlocking_chunks
    )
    lost_grains = sum(unlocking_chunk.value for unlocking_chunk in unlocking_chunks) - sum(
        unlocking_chunk.value for unlocking_chunk in charged_chunks
    )
    stake_ledger.pay_slash(stake_ledger.holder(account_id, validator), validator, account_id, lost_grains, None)
    if account_id != validator and lost_grains:
        stake_ledger.change_leaving(validator, -lost_grains)
    return charged_chunks


def is_free(stake_ledger: StakeLedger, unlocking_chunk: Unlocking) -> bool:
    """Return True if a chunk may be withdrawn: its time is over, and no slash of it is pending or can still come."""
    current_epoch = stake_ledger.beacon.epoch()
    is_over = unlocking_chunk.until_epoch <= current_epoch and all(
        _evidence_end(stake_ledger, answered) <= current_epoch for answered in unlocking_chunk.answers
    )
    return is_over and not is_kept(stake_ledger, unlocking_chunk)


def is_kept(stake_ledger: StakeLedger, unlocking_chunk: Unlocking) -> bool:
    """Return True if a chunk must stay even after its time, because a proven offence may take more of it."""
    return any(_is_struck(stake_ledger, answered) for answered in unlocking_chunk.answers)


def answer_now(stake_ledger: StakeLedger, validator: bytes) -> Liability:
    """Return the answer of stake that leaves a validator now."""
    return Liability(validator, stake_ledger.current_era.get(), stake_ledger.slash_factors[validator])


def kept_until(stake_ledger: StakeLedger, unlocking_chunk: Unlocking) -> int:
    """Return the first epoch in which a chunk can be free, as known now. An unapplied slash may delay it."""
    end_epochs = (
        (_evidence_end(stake_ledger, answered), _raises_end(stake_ledger, answered))
        for answered in unlocking_chunk.answers
    )
    return max(unlocking_chunk.until_epoch, *(end_epoch for epoch_pair in end_epochs for end_epoch in epoch_pair), 0)


def value_now(stake_ledger: StakeLedger, unlocking_chunk: Unlocking) -> int:
    """Return the current value of a chunk, without storing it."""
    remaining_grains = unlocking_chunk.value
    for answered in unlocking_chunk.answers:
        remaining_grains = left_of(remaining_grains, answered, stake_ledger.slash_factors[answered.validator])
    return remaining_grains


def _kind(unlocking_chunk: Unlocking) -> tuple[bytes, int, tuple[Liability, ...]]:
    return unlocking_chunk.validator, unlocking_chunk.until_epoch, unlocking_chunk.answers


def _charged(stake_ledger: StakeLedger, account_id: bytes, validator: bytes, standing: PoolStep) -> PoolStep:
    """Return a position charged with the slashes of its old validators, without answers that have expired."""
    charged = _without_slashes(stake_ledger, standing)
    stake_ledger.pay_slash(STAKES, validator, account_id, sum(part_amount for _, part_amount in charged.amounts), None)
    stake_ledger.burn(STAKES, validator, charged.dust)
    kept_parts = tuple(
        moved_part for moved_part in charged.position.moved if _may_be_called(stake_ledger, moved_part.answer)
    )
    return PoolStep(charged.pool, replace(charged.position, moved=kept_parts))


def _without_slashes(stake_ledger: StakeLedger, standing: PoolStep) -> Departed:
    """Return a position after the slashes of its old validators, with the amounts taken and the dust."""
    charged_pool, charged_position, move_index, dust_grains = standing.pool, standing.position, 0, 0
    part_amounts: tuple[tuple[Liability | None, int], ...] = ()
    while move_index < len(charged_position.moved):
        moved_count, answered = len(charged_position.moved), charged_position.moved[move_index].answer
        slash_factors = stake_ledger.slash_factors[answered.validator]
        if slash_factors == answered.borne:  # the usual case: no new slash
            move_index += 1
            continue
        departed = delegations.charge(
            charged_pool, charged_position, move_index, slash_factors, stake_ledger.current_era.get()
        )
        charged_pool, charged_position = departed.pool, departed.position
        part_amounts, dust_grains = (*part_amounts, *departed.amounts), dust_grains + departed.dust
        move_index += len(charged_position.moved) == moved_count
    return Departed(charged_pool, charged_position, part_amounts, dust_grains)


def _may_be_called(stake_ledger: StakeLedger, answered: Liability) -> bool:
    """Return True if evidence may still come, or a slash is pending or may be raised."""
    return _evidence_end(stake_ledger, answered) > stake_ledger.beacon.epoch() or _is_struck(stake_ledger, answered)


def _evidence_end(stake_ledger: StakeLedger, answered: Liability) -> int:
    """Return the first epoch in which evidence for such an answer is too old."""
    last_era = stake_ledger.last_answerable(answered.validator, answered.era)
    return (last_era + 1) * stake_ledger.era_epochs + stake_ledger.evidence_epochs


def _is_struck(stake_ledger: StakeLedger, answered: Liability) -> bool:
    """Return True if a slash is pending, or later offences may raise one that was taken."""
    return (
        stake_ledger.pending_slash_counts[answered.validator] > 0
        or _raises_end(stake_ledger, answered) > stake_ledger.beacon.epoch()
    )


def _raises_end(stake_ledger: StakeLedger, answered: Liability) -> int:
    """Return the first epoch in which a taken slash cannot be raised any more, 0 if none was taken.

    Offences within the unbonding time raise an earlier one, one offender in a block: an epoch more.
    """
    # Factors first: a validator that never offended has none, and nothing else is read.
    if all(offence_factor.era > answered.era for offence_factor in stake_ledger.slash_factors[answered.validator]):
        return 0
    tombstone_era = stake_ledger.tombstones[answered.validator]
    # Without a tombstone Root has pardoned the offender, so nothing raises its slash.
    return (
        0
        if tombstone_era is None
        else (tombstone_era + 1) * stake_ledger.era_epochs + stake_ledger.unbonding_epochs + 1
    )
