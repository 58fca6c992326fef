"""Sentences about a validator's own bond, and about stake that is leaving."""

from __future__ import annotations

from runtime.pallets.staking import holdings
from runtime.pallets.staking.stakers import UNLOCKING_MAX
from runtime.pallets.staking.trust_stake import TrustStake
from wallet.refusals.refused_call import RefusedCall, account_text, grains_text, them


def already_bonded(refused_call: RefusedCall) -> str:
    """Return the sentence for a second first bond."""
    bond_text = grains_text(refused_call.stake.bonds[refused_call.signer])
    return f"{bond_text} are bonded already: `stake` adds to them, the call for it is TrustStake.bond_extra"


def not_bonded(refused_call: RefusedCall) -> str:
    """Return the sentence for an addition to a bond that does not exist."""
    minimum_text = grains_text(refused_call.stake.validator_bond_min)
    return (
        f"the account has a bond of 0: the first is at least {minimum_text} (validator_bond_min), and `stake` makes it"
    )


def bond_too_small(refused_call: RefusedCall) -> str:
    """Return the sentence for a bond below the least."""
    minimum_grains, bond_grains = refused_call.stake.validator_bond_min, refused_call.stake.bonds[refused_call.signer]
    would_be = bond_grains + (refused_call.argument("value") or 0)
    missing_text = grains_text(minimum_grains - would_be)
    return (
        f"your bond would be {grains_text(would_be)}; the least is {grains_text(minimum_grains)} (validator_bond_min): "
        f"bond {missing_text} more"
    )


def still_candidate(refused_call: RefusedCall) -> str:
    """Return the sentence for a candidate that takes out too much."""
    stake, bond_grains = refused_call.stake, refused_call.stake.bonds[refused_call.signer]
    minimum_grains = stake.validator_bond_min
    return (
        f"your bond would be {grains_text(bond_grains - refused_call.value)}, and a candidate keeps "
        f"{grains_text(minimum_grains)} "
        f"(validator_bond_min): take at most {grains_text(max(0, bond_grains - minimum_grains))}, or `chill` first "
        "and then take all"
    )


def not_enough_stake(refused_call: RefusedCall) -> str:
    """Return the sentence for an amount above the stake, or for 0."""
    stake_grains = refused_call.behind(refused_call.validator)
    where_text = (
        "in your bond"
        if refused_call.validator == refused_call.signer
        else f"behind {account_text(refused_call.validator)}"
    )
    if refused_call.value == 0 and stake_grains:
        return f"0 is no amount to take: you have {grains_text(stake_grains)} {where_text}"
    if not stake_grains:
        return f"you have 0 oGPU {where_text}: `stakes` shows where yours is"
    missing_text = grains_text(refused_call.value - stake_grains)
    return (
        f"you have {grains_text(stake_grains)} {where_text}, and {grains_text(refused_call.value)} are "
        f"{missing_text} more than that: "
        f"take {grains_text(stake_grains)} at most, or `all`"
    )


def slash_pending(refused_call: RefusedCall) -> str:
    """Return the sentence for stake that a pending slash keeps in place."""
    stake = refused_call.stake
    slashed_validators = [
        validator
        for validator in (refused_call.validator, refused_call.target)
        if stake.pending_slash_counts[validator]
    ]
    offender = slashed_validators[0] if slashed_validators else refused_call.validator
    due_eras = [
        pending_slash.take_era
        for _, pending_slash in stake.unapplied_slashes.under(offender)
        if pending_slash is not None
    ]
    when_text = (
        f"in era {min(due_eras)}, it is era {refused_call.era} now" if due_eras else f"it is era {refused_call.era} now"
    )
    slashes_text = them(stake.pending_slash_counts[offender], "slash")
    return (
        f"{slashes_text} of {account_text(offender)} will be taken or cancelled ({when_text}): "
        "until then nothing leaves it and nobody joins; then give the command again"
    )


def too_many_chunks(refused_call: RefusedCall) -> str:
    """Return the sentence for a full list of leaving parts."""
    leaving_parts = refused_call.stake.unlocking[refused_call.signer]
    first_free_epoch = min(
        (holdings.kept_until(refused_call.stake, leaving_part) for leaving_part in leaving_parts),
        default=refused_call.epoch,
    )
    return (
        f"{len(leaving_parts)} parts of yours are on their way out, and {UNLOCKING_MAX} may be: `withdraw` makes "
        "room from "
        f"epoch {first_free_epoch} on, it is epoch {refused_call.epoch} now"
    )


def nothing_to_withdraw(refused_call: RefusedCall) -> str:
    """Return the sentence for a withdrawal that is too early, kept by a slash, or empty."""
    stake = refused_call.stake
    leaving_parts = stake.unlocking[refused_call.signer]
    if not leaving_parts:
        return "0 oGPU of yours are on their way out: `unstake` and `undelegate` begin it"
    waiting_grains = sum(holdings.value_now(stake, leaving_part) for leaving_part in leaving_parts)
    first_part = min(leaving_parts, key=lambda leaving_part: holdings.kept_until(stake, leaving_part))
    free_from_epoch, waiting_text = (
        holdings.kept_until(stake, first_part),
        f"of {grains_text(waiting_grains)} that wait nothing is free yet",
    )
    # The time is over, so a pending slash must be the reason.
    if free_from_epoch <= refused_call.epoch:
        offender = next(
            liability.validator for liability in first_part.answers if stake.pending_slash_counts[liability.validator]
        )
        return f"{waiting_text}: {slash_pending(_about(refused_call, offender))}"
    amount_text = grains_text(holdings.value_now(stake, first_part))
    reason_text = ""
    if free_from_epoch > first_part.until_epoch:
        raised_reason = "others may raise the slash that it bore until then"
        seated_reason = "it stands behind a seat that had to stay, of which an offence may be proven until then"
        reason_text = f", since {raised_reason if holdings.is_kept(stake, first_part) else seated_reason}"
    return (
        f"{waiting_text}: {amount_text} are from epoch {free_from_epoch} on{reason_text}, it is epoch "
        f"{refused_call.epoch} now"
    )


def _about(refused_call: RefusedCall, validator: bytes) -> RefusedCall:
    """Return the same refusal for a call that names a validator."""
    return RefusedCall(refused_call.bound, TrustStake.claim(validator=validator), refused_call.signer)
