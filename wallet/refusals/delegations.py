"""Sentences about stake behind others: joining, leaving, moving, earning."""

from __future__ import annotations

from runtime.pallets.staking.delegations import MOVED_MAX, MovedShares
from runtime.pallets.staking.share_pool import worth
from runtime.pallets.staking.slash_factors import Liability
from runtime.pallets.staking.trust_stake import TrustStake
from wallet.refusals.refused_call import RefusedCall, account_text, grains_text

LEAVING = ("undelegate", "redelegate")


def delegation_too_small(refused_call: RefusedCall) -> str:
    """Return the sentence for a delegation that would be, or stay, too small."""
    minimum_grains = refused_call.stake.delegation_min
    stake_grains = refused_call.behind(refused_call.validator)
    remaining_grains = stake_grains - refused_call.value
    # All of it may leave, so only a remainder can be too small.
    if refused_call.name in LEAVING and 0 < remaining_grains < minimum_grains:
        return (
            f"your stake behind {account_text(refused_call.validator)} would be {grains_text(remaining_grains)}; the "
            "least is "
            f"{grains_text(minimum_grains)} (delegation_min): take "
            f"{grains_text(max(0, stake_grains - minimum_grains))} at most, or all "
            f"{grains_text(stake_grains)}"
        )
    would_be = refused_call.behind(refused_call.target) + refused_call.value
    return (
        f"your stake behind {account_text(refused_call.target)} would be {grains_text(would_be)}; the least is "
        f"{grains_text(minimum_grains)} (delegation_min): add {grains_text(minimum_grains - would_be)}"
    )


def same_validator(refused_call: RefusedCall) -> str:
    """Return the sentence for a move from a validator to itself."""
    stake_text = grains_text(refused_call.behind(refused_call.validator))
    return (
        f"your {stake_text} are behind {account_text(refused_call.validator)} already: name another validator to "
        "move to"
    )


def pool_spent(refused_call: RefusedCall) -> str:
    """Return the sentence for a pool that slashes left almost empty."""
    target_pool = refused_call.stake.pools[refused_call.target].stake
    # A new pool has a million shares for each grain, so this is the stake before all slashes.
    unslashed_grains = target_pool.shares // 1_000_000
    return (
        f"of {grains_text(unslashed_grains)} behind {account_text(refused_call.target)} slashes left "
        f"{grains_text(target_pool.value)}, "
        "less than a millionth: choose another validator"
    )


def still_answering(refused_call: RefusedCall) -> str:
    """Return the sentence for moved stake that may not move again yet."""
    trust_stake, source_validator = refused_call.stake, refused_call.validator
    delegation = trust_stake.delegations[refused_call.signer, source_validator]
    answering = (
        [(_answers_until(refused_call, earlier_move), earlier_move.shares) for earlier_move in delegation.moved]
        if delegation
        else []
    )
    bound_moves = [
        (until_epoch, free_shares) for until_epoch, free_shares in answering if until_epoch > refused_call.epoch
    ]
    free_shares = delegation.shares - sum(free_shares for _, free_shares in bound_moves) if delegation else 0
    free_grains, until_epoch = (
        worth(trust_stake.pools[source_validator].stake, free_shares),
        max((until_epoch for until_epoch, _ in bound_moves), default=refused_call.epoch + 1),
    )
    return (
        f"of your {grains_text(refused_call.behind(source_validator))} behind {account_text(source_validator)} "
        f"{grains_text(free_grains)} may move "
        f"now, the rest from epoch {until_epoch} on, it is epoch {refused_call.epoch} now; `undelegate` may take all "
        "at any time"
    )


def _answers_until(refused_call: RefusedCall, earlier_move: MovedShares) -> int:
    """Return the epoch from which evidence against the source validator is too old and raises no slash."""
    # Evidence counts for `evidence_epochs` after the last epoch of the era.
    too_old_epoch = (earlier_move.answer.era + 1) * refused_call.stake.era_epochs + refused_call.stake.evidence_epochs
    return max(too_old_epoch, _raised_until(refused_call.stake, earlier_move.answer))


def _raised_until(trust_stake: TrustStake, liability: Liability) -> int:
    """Return the epoch from which no accomplice can raise a liability's slash, pending ones included; 0 if none can."""
    if liability.validator not in trust_stake.tombstones:
        return 0
    slash_eras = [slash_factor.era for slash_factor in trust_stake.slash_factors[liability.validator]]
    slash_eras += [
        pending_slash.era
        for _, pending_slash in trust_stake.unapplied_slashes.under(liability.validator)
        if pending_slash is not None
    ]
    return max(
        (
            (slash_era + 1) * trust_stake.era_epochs + trust_stake.unbonding_epochs + 1
            for slash_era in slash_eras
            if slash_era <= liability.era
        ),
        default=0,
    )


def too_many_moves(refused_call: RefusedCall) -> str:
    """Return the sentence for a target that has too many recent moves."""
    position = refused_call.stake.delegations[refused_call.signer, refused_call.target]
    move_count = len(position.moved) if position else 0
    return (
        f"your stake behind {account_text(refused_call.target)} came there in {move_count} moves that still answer "
        "for other "
        f"validators, and {MOVED_MAX} may: wait until one is too old, or choose another validator"
    )


def nothing_to_claim(refused_call: RefusedCall) -> str:
    """Return the sentence for a claim of nothing."""
    stake, current_era = refused_call.stake, refused_call.era
    stake_text = grains_text(refused_call.behind(refused_call.validator))
    payment_epoch = (current_era + 1) * stake.era_epochs
    return (
        f"you earned 0 with {account_text(refused_call.validator)} since you last claimed, with {stake_text} behind "
        "it: an era "
        f"is paid when it ends, the next in epoch {payment_epoch}, it is epoch {refused_call.epoch} now; what joined "
        "in an era "
        "earns from the next on"
    )
