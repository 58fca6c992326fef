"""Sentences about stake behind others: joining, leaving, moving, earning."""

from __future__ import annotations

from runtime.pallets.staking.delegations import MOVED_MAX, MovedShares
from runtime.pallets.staking.share_pool import worth
from runtime.pallets.staking.slash_factors import Liability
from runtime.pallets.staking.trust_stake import TrustStake
from wallet.refusals.refused_call import RefusedCall, account_text, grains_text

LEAVING = ("undelegate", "redelegate")


def delegation_too_small(refused: RefusedCall) -> str:
    """Return the sentence for a delegation that would be, or stay, too small."""
    least = refused.stake.delegation_min
    there = refused.behind(refused.validator)
    left = there - refused.value
    # All of it may leave, so only a remainder can be too small.
    if refused.name in LEAVING and 0 < left < least:
        return (
            f"your stake behind {account_text(refused.validator)} would be {grains_text(left)}; the least is "
            f"{grains_text(least)} (delegation_min): take {grains_text(max(0, there - least))} at most, or all "
            f"{grains_text(there)}"
        )
    would_be = refused.behind(refused.target) + refused.value
    return (
        f"your stake behind {account_text(refused.target)} would be {grains_text(would_be)}; the least is "
        f"{grains_text(least)} (delegation_min): add {grains_text(least - would_be)}"
    )


def same_validator(refused: RefusedCall) -> str:
    """Return the sentence for a move from a validator to itself."""
    there = grains_text(refused.behind(refused.validator))
    return f"your {there} are behind {account_text(refused.validator)} already: name another validator to move to"


def pool_spent(refused: RefusedCall) -> str:
    """Return the sentence for a pool that slashes left almost empty."""
    pool = refused.stake.pools[refused.target].stake
    # A new pool has a million shares for each grain, so this is the stake before all slashes.
    first = pool.shares // 1_000_000
    return (
        f"of {grains_text(first)} behind {account_text(refused.target)} slashes left {grains_text(pool.value)}, "
        "less than a millionth: choose another validator"
    )


def still_answering(refused: RefusedCall) -> str:
    """Return the sentence for moved stake that may not move again yet."""
    stake, source = refused.stake, refused.validator
    position = stake.delegations[refused.signer, source]
    answering = [(_answers_until(refused, move), move.shares) for move in position.moved] if position else []
    bound = [(until, shares) for until, shares in answering if until > refused.epoch]
    shares = position.shares - sum(shares for _, shares in bound) if position else 0
    free, until = (
        worth(stake.pools[source].stake, shares),
        max((until for until, _ in bound), default=refused.epoch + 1),
    )
    return (
        f"of your {grains_text(refused.behind(source))} behind {account_text(source)} {grains_text(free)} may move "
        f"now, the rest from epoch {until} on, it is epoch {refused.epoch} now; `undelegate` may take all at any time"
    )


def _answers_until(refused: RefusedCall, move: MovedShares) -> int:
    """Return the epoch from which evidence against the source validator is too old and raises no slash."""
    # Evidence counts for `evidence_epochs` after the last epoch of the era.
    too_old = (move.answer.era + 1) * refused.stake.era_epochs + refused.stake.evidence_epochs
    return max(too_old, _raised_until(refused.stake, move.answer))


def _raised_until(stake: TrustStake, answer: Liability) -> int:
    """Return the epoch from which no accomplice can raise a liability's slash, pending ones included; 0 if none can."""
    if answer.validator not in stake.tombstones:
        return 0
    eras = [factor.era for factor in stake.slash_factors[answer.validator]]
    eras += [held.era for _, held in stake.unapplied_slashes.under(answer.validator) if held is not None]
    return max(
        ((era + 1) * stake.era_epochs + stake.unbonding_epochs + 1 for era in eras if era <= answer.era), default=0
    )


def too_many_moves(refused: RefusedCall) -> str:
    """Return the sentence for a target that has too many recent moves."""
    position = refused.stake.delegations[refused.signer, refused.target]
    moves = len(position.moved) if position else 0
    return (
        f"your stake behind {account_text(refused.target)} came there in {moves} moves that still answer for other "
        f"validators, and {MOVED_MAX} may: wait until one is too old, or choose another validator"
    )


def nothing_to_claim(refused: RefusedCall) -> str:
    """Return the sentence for a claim of nothing."""
    stake, era = refused.stake, refused.era
    there = grains_text(refused.behind(refused.validator))
    first = (era + 1) * stake.era_epochs
    return (
        f"you earned 0 with {account_text(refused.validator)} since you last claimed, with {there} behind it: an era "
        f"is paid when it ends, the next in epoch {first}, it is epoch {refused.epoch} now; what joined in an era "
        "earns from the next on"
    )
