"""What stakers have locked: own bonds, delegations, what waits to leave, profiles."""

from collections.abc import Iterator
from itertools import islice

from runtime.frame.holds import Hold
from runtime.frame.runtime import Bound
from runtime.interface.locks import HeldMoney, Lock, LockTable, LockTerms, said_alike
from runtime.pallets.staking.holdings import is_kept, kept_until, stake_of, value_now
from runtime.pallets.staking.stakers import PROFILE, STAKE, Unlocking
from runtime.pallets.staking.trust_stake import TrustStake

_OFFENCE = "two proven blocks of {whose} in one slot: a part that grows with all who offend, up to all of it"
OWN_BOND = LockTerms(
    what="your own bond as a validator",
    until="until you unbond it",
    taken_by=_OFFENCE.format(whose="yours"),
)
DELEGATION = LockTerms(
    what="delegated behind the validator that is the case",
    until="until you undelegate it",
    taken_by=_OFFENCE.format(whose="the validator") + "; of what was redelegated, for a time, of the one before too",
)
LEAVING = LockTerms(
    what="stake on its way out from behind the validator that is the case",
    until="until you withdraw it, from that epoch on",
    taken_by="an offence of the validator while it still stood there, proven before it is free: up to all of it",
)
POOLED = LockTerms(
    what="what others delegated behind the validator that is the case, kept by the chain",
    until="until they undelegate it",
    taken_by=_OFFENCE.format(whose="the validator"),
)
PROFILE_TERMS = LockTerms(
    what="a deposit for your name and web address as a validator", until="until you set both to nothing"
)
_FROZEN = "not before the slash that waits is taken or cancelled"
_RAISED = "not before nobody can raise the slash any more that it bore"


def _own_stake(bound: Bound, held: HeldMoney) -> tuple[Lock, ...]:
    """An own bond, and what left it and waits; or all delegations behind a validator, where the chain keeps them."""
    if held.hold.case != held.owner:
        return (POOLED.lock(held),)
    stake, stash = bound[TrustStake], held.owner
    bond, until = stake.bonds[stash], _and_then_waits(stake, OWN_BOND)
    bonds = (OWN_BOND.lock(held, amount=bond, until=_thawed(stake, stash, until)),) if bond else ()
    return (
        *bonds,
        *(_leaving(bound, held.owner, chunk) for chunk in stake.unlocking[stash] if chunk.validator == stash),
    )


def _leaving(bound: Bound, owner: bytes, chunk: Unlocking) -> Lock:
    stake = bound[TrustStake]
    held = HeldMoney(owner, Hold(STAKE, chunk.validator), value_now(stake, chunk))
    is_frozen = any(stake.frozen[answer.validator] for answer in chunk.answers)
    until = LEAVING.until
    if is_kept(stake, chunk):
        until = f"{until}; {_FROZEN if is_frozen else _RAISED}"
    return LEAVING.lock(held, until=until, until_epoch=kept_until(stake, chunk))


def _and_then_waits(stake: TrustStake, terms: LockTerms) -> str:
    return f"{terms.until}, and {stake.unbonding_epochs:,} epochs after that"


def _thawed(stake: TrustStake, validator: bytes, until: str) -> str:
    return f"{until}; {_FROZEN}" if stake.frozen[validator] else until


def delegations_of(bound: Bound, owner: bytes, behind: bytes | None, most: int) -> list[Lock]:
    """So many delegations of an account, those after the one behind the validator `behind`."""
    stake = bound[TrustStake]
    until, found = _and_then_waits(stake, DELEGATION), []
    for validator, _ in islice(stake.positions.under(owner, behind=behind), most):
        held = HeldMoney(owner, Hold(STAKE, validator), stake_of(stake, owner, validator))
        found.append(DELEGATION.lock(held, until=_thawed(stake, validator, until)))
    return found


def leaving_delegations(bound: Bound, owner: bytes) -> Iterator[Lock]:
    """What an account delegated, and waits to have back."""
    return (_leaving(bound, owner, chunk) for chunk in bound[TrustStake].unlocking[owner] if chunk.validator != owner)


STAKE_LOCKS: LockTable = {STAKE: _own_stake, PROFILE: said_alike(PROFILE_TERMS)}
"""A row for each reason of TrustStake."""
