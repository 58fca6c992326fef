"""Sentences about offers to validate, commissions, profiles and tombstones."""

from __future__ import annotations

from runtime.cryptography.signatures import is_safe_public_key
from runtime.pallets.staking.stakers import CANDIDATES_MAX
from wallet.refusals.refused_call import RefusedCall, account_text, grains_text, percent_text


def _keys(refused: RefusedCall) -> dict[str, bytes]:
    """Return every key of an offer, or of a change of keys, by its common name."""
    keys = refused.argument("keys")
    found = {"session_key": keys.session, "vrf_key": keys.vrf}
    provider = refused.argument("provider_key")
    return found if provider is None else {**found, "provider_key": provider}


def not_candidate(refused: RefusedCall) -> str:
    """Return the sentence for an account that does not offer to validate."""
    offers = refused.stake.candidate_count.get()
    named = [refused.argument(name) for name in ("validator", "source", "target")]
    if not any(named):
        return f"you do not offer to validate: {offers} do, and `validate` makes you one of them"
    # Own stake behind oneself is a bond, never a delegation.
    if refused.signer in named:
        bond = grains_text(refused.stake.bonds[refused.signer])
        return f"an account's own stake is its bond, {bond} now: `stake` adds to it, `unstake` takes of it"
    return (
        f"{account_text(refused.target)} does not offer to validate: stake can be behind {offers} that do, whom "
        "`candidates` shows"
    )


def too_many_candidates(refused: RefusedCall) -> str:
    """Return the sentence for a full list of candidates."""
    offers = refused.stake.candidate_count.get()
    return f"{offers:,} offer to validate, and {CANDIDATES_MAX:,} may: wait until one stops"


def unsafe_key(refused: RefusedCall) -> str:
    """Return the sentence for a key under which anybody can make valid signatures."""
    unsafe = [name for name, key in _keys(refused).items() if not is_safe_public_key(key)]
    return f"{', '.join(unsafe)}: of small order or malformed; make another key, of 32 bytes"


def invalid_keys_proof(refused: RefusedCall) -> str:
    """Return the sentence for keys without a valid proof that they may be registered."""
    return (
        f"the proof beside the 2 keys is not for {account_text(refused.signer)} on this chain: `ogpu-node key prove "
        f"--owner {account_text(refused.signer)}` makes one, where the keys are"
    )


def key_taken(refused: RefusedCall) -> str:
    """Return the sentence for a key of another account, or for two equal keys."""
    keys = _keys(refused)
    for name, key in keys.items():
        owner = refused.stake.key_owner[key]
        if owner not in (None, refused.signer):
            return f"{name} belongs to {account_text(owner)}: each of the {len(keys)} keys has to be a new one"
    # No key belongs to another account, so the error has the only other cause.
    return f"two of the {len(keys)} keys are the same: each has to be another one"


def commission_too_high(refused: RefusedCall) -> str:
    """Return the sentence for a commission above 100 %."""
    return f"{percent_text(refused.argument('commission_ppm'))} is more than 100 %"


def commission_too_low(refused: RefusedCall) -> str:
    """Return the sentence for a commission below the least."""
    asked, least = refused.argument("commission_ppm"), refused.stake.commission_min
    return f"{percent_text(asked)} is below the least, {percent_text(least)} (commission_min)"


def commission_fixed(refused: RefusedCall) -> str:
    """Return the sentence for an offer that would change the commission."""
    stake, who = refused.stake, refused.signer
    # A withdrawn candidate is bound to its last commission while others are behind it.
    now = stake.commission_of(who) if who in stake.candidates else stake.last_commission[who]
    asked = percent_text(refused.argument("commission_ppm"))
    return (
        f"your commission is {percent_text(now or 0)}, and an offer cannot make it {asked} while others are behind you "
        f"or you offer already: offer with {percent_text(now or 0)}, then `commission` announces another"
    )


def commission_step(refused: RefusedCall) -> str:
    """Return the sentence for a commission that changes too much at once."""
    stake = refused.stake
    now, step = stake.commission_of(refused.signer) or 0, stake.commission_step
    least, most = max(stake.commission_min, now - step), min(1_000_000, now + step)
    return (
        f"your commission is {percent_text(now)} now, and an announcement changes it by {percent_text(step)} at most "
        f"(commission_step): ask from {percent_text(least)} to {percent_text(most)}, and more with a later one"
    )


def no_profile(refused: RefusedCall) -> str:
    """Return the sentence for the removal of a profile that does not exist."""
    deposit = grains_text(refused.stake.profile_deposit)
    return f"you have no name and no web address, so a deposit of 0 is held; a profile would hold {deposit}"


def is_tombstoned(refused: RefusedCall) -> str:
    """Return the sentence for a tombstoned validator."""
    who = refused.signer if refused.name == "validate" else refused.target
    since = refused.stake.tombstones[who]
    whom = "you" if who == refused.signer else account_text(who)
    instead = "Root alone can lift it" if who == refused.signer else "choose another validator"
    return f"an offence of era {since} ended the candidacy of {whom}: {instead}"


def not_tombstoned(refused: RefusedCall) -> str:
    """Return the sentence for a missing tombstone."""
    return f"{account_text(refused.validator)} has 0 tombstones: there is nothing to lift"


def not_jailed(refused: RefusedCall) -> str:
    """Return the sentence for an account that is not in jail."""
    era = refused.stake.current_era.get()
    if refused.signer not in refused.stake.candidates:
        return f"you offer nothing, so you are in no jail in era {era}: `validate` offers"
    return f"you are not in jail in era {era}"
