"""Sentences about offers to validate, commissions, profiles and tombstones."""

from __future__ import annotations

from runtime.cryptography.signatures import is_safe_public_key
from runtime.pallets.staking.stakers import CANDIDATES_MAX
from wallet.refusals.refused_call import RefusedCall, account_text, grains_text, percent_text


def _keys(refused_call: RefusedCall) -> dict[str, bytes]:
    """Return every key of an offer, or of a change of keys, by its common name."""
    session_keys = refused_call.argument("keys")
    keys_by_name = {"session_key": session_keys.session, "vrf_key": session_keys.vrf}
    provider = refused_call.argument("provider_key")
    return keys_by_name if provider is None else {**keys_by_name, "provider_key": provider}


def not_candidate(refused_call: RefusedCall) -> str:
    """Return the sentence for an account that does not offer to validate."""
    candidate_count = refused_call.stake.candidate_count.get()
    named_accounts = [refused_call.argument(argument_name) for argument_name in ("validator", "source", "target")]
    if not any(named_accounts):
        return f"you do not offer to validate: {candidate_count} do, and `validate` makes you one of them"
    # Own stake behind oneself is a bond, never a delegation.
    if refused_call.signer in named_accounts:
        bond_text = grains_text(refused_call.stake.bonds[refused_call.signer])
        return f"an account's own stake is its bond, {bond_text} now: `stake` adds to it, `unstake` takes of it"
    return (
        f"{account_text(refused_call.target)} does not offer to validate: stake can be behind {candidate_count} that "
        "do, whom "
        "`candidates` shows"
    )


def too_many_candidates(refused_call: RefusedCall) -> str:
    """Return the sentence for a full list of candidates."""
    candidate_count = refused_call.stake.candidate_count.get()
    return f"{candidate_count:,} offer to validate, and {CANDIDATES_MAX:,} may: wait until one stops"


def unsafe_key(refused_call: RefusedCall) -> str:
    """Return the sentence for a key under which anybody can make valid signatures."""
    unsafe_names = [
        key_name for key_name, public_key in _keys(refused_call).items() if not is_safe_public_key(public_key)
    ]
    return f"{', '.join(unsafe_names)}: of small order or malformed; make another key, of 32 bytes"


def invalid_keys_proof(refused_call: RefusedCall) -> str:
    """Return the sentence for keys without a valid proof that they may be registered."""
    return (
        f"the proof beside the 2 keys is not for {account_text(refused_call.signer)} on this chain: `ogpu-node key "
        "prove "
        f"--owner {account_text(refused_call.signer)}` makes one, where the keys are"
    )


def key_taken(refused_call: RefusedCall) -> str:
    """Return the sentence for a key of another account, or for two equal keys."""
    keys_by_name = _keys(refused_call)
    for key_name, public_key in keys_by_name.items():
        key_owner = refused_call.stake.key_owner[public_key]
        if key_owner not in (None, refused_call.signer):
            return (
                f"{key_name} belongs to {account_text(key_owner)}: each of the {len(keys_by_name)} keys has to be a "
                "new one"
            )
    # No key belongs to another account, so the error has the only other cause.
    return f"two of the {len(keys_by_name)} keys are the same: each has to be another one"


def commission_too_high(refused_call: RefusedCall) -> str:
    """Return the sentence for a commission above 100 %."""
    return f"{percent_text(refused_call.argument('commission_ppm'))} is more than 100 %"


def commission_too_low(refused_call: RefusedCall) -> str:
    """Return the sentence for a commission below the least."""
    asked_ppm, minimum_ppm = refused_call.argument("commission_ppm"), refused_call.stake.commission_min
    return f"{percent_text(asked_ppm)} is below the least, {percent_text(minimum_ppm)} (commission_min)"


def commission_fixed(refused_call: RefusedCall) -> str:
    """Return the sentence for an offer that would change the commission."""
    stake, validator = refused_call.stake, refused_call.signer
    # A withdrawn candidate is bound to its last commission while others are behind it.
    current_ppm = stake.commission_of(validator) if validator in stake.candidates else stake.last_commission[validator]
    asked_text = percent_text(refused_call.argument("commission_ppm"))
    return (
        f"your commission is {percent_text(current_ppm or 0)}, and an offer cannot make it {asked_text} while others "
        "are behind you "
        f"or you offer already: offer with {percent_text(current_ppm or 0)}, then `commission` announces another"
    )


def commission_step(refused_call: RefusedCall) -> str:
    """Return the sentence for a commission that changes too much at once."""
    stake = refused_call.stake
    current_ppm, step_ppm = stake.commission_of(refused_call.signer) or 0, stake.commission_step
    minimum_ppm, maximum_ppm = max(stake.commission_min, current_ppm - step_ppm), min(1_000_000, current_ppm + step_ppm)
    return (
        f"your commission is {percent_text(current_ppm)} now, and an announcement changes it by "
        f"{percent_text(step_ppm)} at most "
        f"(commission_step): ask from {percent_text(minimum_ppm)} to {percent_text(maximum_ppm)}, and more with a "
        "later one"
    )


def no_profile(refused_call: RefusedCall) -> str:
    """Return the sentence for the removal of a profile that does not exist."""
    deposit_text = grains_text(refused_call.stake.profile_deposit)
    return f"you have no name and no web address, so a deposit of 0 is held; a profile would hold {deposit_text}"


def is_tombstoned(refused_call: RefusedCall) -> str:
    """Return the sentence for a tombstoned validator."""
    validator = refused_call.signer if refused_call.name == "validate" else refused_call.target
    tombstone_era = refused_call.stake.tombstones[validator]
    validator_text = "you" if validator == refused_call.signer else account_text(validator)
    advice_text = "Root alone can lift it" if validator == refused_call.signer else "choose another validator"
    return f"an offence of era {tombstone_era} ended the candidacy of {validator_text}: {advice_text}"


def not_tombstoned(refused_call: RefusedCall) -> str:
    """Return the sentence for a missing tombstone."""
    return f"{account_text(refused_call.validator)} has 0 tombstones: there is nothing to lift"


def not_jailed(refused_call: RefusedCall) -> str:
    """Return the sentence for an account that is not in jail."""
    current_era = refused_call.stake.current_era.get()
    if refused_call.signer not in refused_call.stake.candidates:
        return f"you offer nothing, so you are in no jail in era {current_era}: `validate` offers"
    return f"you are not in jail in era {current_era}"
