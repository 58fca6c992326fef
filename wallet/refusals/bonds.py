"""Sentences about a validator's own bond, and about stake that is leaving."""

from __future__ import annotations

from runtime.pallets.staking import holdings
from runtime.pallets.staking.stakers import UNLOCKING_MAX
from runtime.pallets.staking.trust_stake import TrustStake
from wallet.refusals.refused_call import RefusedCall, account_text, grains_text, them


def already_bonded(refused: RefusedCall) -> str:
    """Return the sentence for a second first bond."""
    bond = grains_text(refused.stake.bonds[refused.signer])
    return f"{bond} are bonded already: `stake` adds to them, the call for it is TrustStake.bond_extra"


def not_bonded(refused: RefusedCall) -> str:
    """Return the sentence for an addition to a bond that does not exist."""
    least = grains_text(refused.stake.validator_bond_min)
    return f"the account has a bond of 0: the first is at least {least} (validator_bond_min), and `stake` makes it"


def bond_too_small(refused: RefusedCall) -> str:
    """Return the sentence for a bond below the least."""
    least, bond = refused.stake.validator_bond_min, refused.stake.bonds[refused.signer]
    would_be = bond + (refused.argument("value") or 0)
    more = grains_text(least - would_be)
    return (
        f"your bond would be {grains_text(would_be)}; the least is {grains_text(least)} (validator_bond_min): "
        f"bond {more} more"
    )


def still_candidate(refused: RefusedCall) -> str:
    """Return the sentence for a candidate that takes out too much."""
    stake, bond = refused.stake, refused.stake.bonds[refused.signer]
    least = stake.validator_bond_min
    return (
        f"your bond would be {grains_text(bond - refused.value)}, and a candidate keeps {grains_text(least)} "
        f"(validator_bond_min): take at most {grains_text(max(0, bond - least))}, or `chill` first and then take all"
    )


def not_enough_stake(refused: RefusedCall) -> str:
    """Return the sentence for an amount above the stake, or for 0."""
    there = refused.behind(refused.validator)
    where = "in your bond" if refused.validator == refused.signer else f"behind {account_text(refused.validator)}"
    if refused.value == 0 and there:
        return f"0 is no amount to take: you have {grains_text(there)} {where}"
    if not there:
        return f"you have 0 oGPU {where}: `stakes` shows where yours is"
    missing = grains_text(refused.value - there)
    return (
        f"you have {grains_text(there)} {where}, and {grains_text(refused.value)} are {missing} more than that: "
        f"take {grains_text(there)} at most, or `all`"
    )


def slash_pending(refused: RefusedCall) -> str:
    """Return the sentence for stake that a pending slash keeps in place."""
    stake = refused.stake
    waiting = [who for who in (refused.validator, refused.target) if stake.pending_slash_counts[who]]
    offender = waiting[0] if waiting else refused.validator
    eras = [held.take_era for _, held in stake.unapplied_slashes.under(offender) if held is not None]
    when = f"in era {min(eras)}, it is era {refused.era} now" if eras else f"it is era {refused.era} now"
    slashes = them(stake.pending_slash_counts[offender], "slash")
    return (
        f"{slashes} of {account_text(offender)} will be taken or cancelled ({when}): "
        "until then nothing leaves it and nobody joins; then give the command again"
    )


def too_many_chunks(refused: RefusedCall) -> str:
    """Return the sentence for a full list of leaving parts."""
    chunks = refused.stake.unlocking[refused.signer]
    first = min((holdings.kept_until(refused.stake, chunk) for chunk in chunks), default=refused.epoch)
    return (
        f"{len(chunks)} parts of yours are on their way out, and {UNLOCKING_MAX} may be: `withdraw` makes room from "
        f"epoch {first} on, it is epoch {refused.epoch} now"
    )


def nothing_to_withdraw(refused: RefusedCall) -> str:
    """Return the sentence for a withdrawal that is too early, kept by a slash, or empty."""
    stake = refused.stake
    chunks = stake.unlocking[refused.signer]
    if not chunks:
        return "0 oGPU of yours are on their way out: `unstake` and `undelegate` begin it"
    waiting = sum(holdings.value_now(stake, chunk) for chunk in chunks)
    first = min(chunks, key=lambda chunk: holdings.kept_until(stake, chunk))
    until, told = holdings.kept_until(stake, first), f"of {grains_text(waiting)} that wait nothing is free yet"
    # The time is over, so a pending slash must be the reason.
    if until <= refused.epoch:
        offender = next(each.validator for each in first.answers if stake.pending_slash_counts[each.validator])
        return f"{told}: {slash_pending(_about(refused, offender))}"
    amount = grains_text(holdings.value_now(stake, first))
    why = ""
    if until > first.until_epoch:
        raised = "others may raise the slash that it bore until then"
        seated = "it stands behind a seat that had to stay, of which an offence may be proven until then"
        why = f", since {raised if holdings.is_kept(stake, first) else seated}"
    return f"{told}: {amount} are from epoch {until} on{why}, it is epoch {refused.epoch} now"


def _about(refused: RefusedCall, validator: bytes) -> RefusedCall:
    """Return the same refusal for a call that names a validator."""
    return RefusedCall(refused.bound, TrustStake.claim(validator=validator), refused.signer)
