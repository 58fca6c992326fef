"""Eras: at each one's start the last is paid for and the next is elected.

Always: emission moves grains from the reserve to the pots and makes none; what nobody claims
within the history goes back to the reserve; the work at an era's start is bounded by the number of
candidates, and at any other block by the validators in office.
"""

from typing import TYPE_CHECKING, Any

from runtime.blocks.digest import NextValidators, consensus_logs, find_author
from runtime.cryptography.ss58 import account_from_text
from runtime.encoding.codec import struct
from runtime.encoding.types import Balance
from runtime.frame.errors import InvalidBlock
from runtime.pallets.balances import Transfer
from runtime.pallets.pots import PROVIDER_REWARDS, RESERVE, STAKING_REWARDS, TREASURY
from runtime.pallets.staking.exposures import elect, exposure, reward_shares
from runtime.pallets.staking.slashing import Share, part
from runtime.pallets.staking.stakers import Candidate, EraReward, Points, Seat, Standing
from runtime.pallets.staking.staking_events import EraStarted

if TYPE_CHECKING:
    from runtime.pallets.staking.trust_stake import TrustStake

BLOCK_POINTS = 20
COMMISSION_DEFAULT_PPM = 50_000
VALIDATORS_PPM = 500_000
PROVIDERS_PPM = 400_000


@struct
class Emission:
    """How an era's emission is divided; the three parts add up to it."""

    validators: Balance
    providers: Balance
    treasury: Balance


def emission(reserve: int, divisor: int) -> Emission:
    """`reserve // divisor`: half to validators and delegators, 40 % to providers, the rest to the treasury."""
    amount = reserve // divisor
    validators, providers = part(amount, VALIDATORS_PPM), part(amount, PROVIDERS_PPM)
    return Emission(validators, providers, amount - validators - providers)


def check_next_validators(pallet: "TrustStake") -> None:
    """The header names the next epoch's validators in an epoch's last block, once, and nowhere else; InvalidBlock."""
    due = pallet.next_validators(pallet.system.number.get())
    said = [log for log in consensus_logs(pallet.system.digest.get()) if isinstance(log, NextValidators)]
    if said != ([] if due is None else [due]):
        raise InvalidBlock("the header does not say of the next validators what the state says")


def enter(pallet: "TrustStake") -> None:
    """Begin the era of the block under execution, if it is its first block; note the author's work."""
    epoch = pallet.beacon.epoch()
    if epoch != pallet.session.current_index.get():
        pallet.session.begin(epoch, tuple(seat.stash for seat in pallet.validators(epoch)))
    era = epoch // pallet.era_epochs
    if era > pallet.current_era.get():
        emitted = _pay_for(pallet, pallet.current_era.get())
        _forget(pallet, era)
        pallet.current_era.set(era)
        _elect(pallet, era)
        pallet.emit(EraStarted(era, pallet.elected.get(), emitted))
    author = find_author(pallet.system.digest.get())
    if author is not None:
        _note_work(pallet, era, author)


def pay_out(pallet: "TrustStake", validator: bytes, era: int) -> tuple[Share, ...]:
    """Pay everyone behind a validator for an ended era; the shares paid, none if there is nothing to pay."""
    reward = pallet.eras_reward[era]
    amount, exposed = pallet.era_reward(era, validator)
    if reward is None or exposed is None or pallet.claimed[era, validator]:
        return ()
    shares = reward_shares(amount, validator, exposed)
    pallet.claimed[era, validator] = True
    pallet.eras_reward[era] = EraReward(reward.total, reward.unclaimed - amount)
    for share in shares:
        _move(pallet, STAKING_REWARDS, share.payee or validator, share.amount)
    return shares


def seat_genesis(pallet: "TrustStake", validators: list[dict[str, Any]]) -> None:
    """Bond, link and seat the first validators; ValueError for a specification that does not hold together."""
    seats = []
    for one in validators:
        stash = account_from_text(one["stash"])
        session, vrf, provider = (account_from_text(one[name]) for name in ("session_key", "vrf_key", "provider_key"))
        bond = int(one["bond"])
        if bond < pallet.validator_bond_min:
            raise ValueError(f"validator {one['stash']}: its bond is below the minimum")
        pallet.lock(stash, stash, bond)
        commission = int(one.get("commission_ppm", COMMISSION_DEFAULT_PPM))
        pallet.set_candidate(stash, Candidate(session, vrf, provider, commission))
        seats.append(Seat(stash, session, vrf, bond))
    pallet.seats.set(tuple(sorted(seats, key=lambda seat: seat.stash)))
    pallet.session.begin(0, tuple(seat.stash for seat in pallet.validators(0)))
    _elect(pallet, 0)


def _pay_for(pallet: "TrustStake", era: int) -> int:
    """Move an ended era's emission out of the reserve; the grains that left it."""
    left_over = pallet.balances.free_balance(PROVIDER_REWARDS)
    _move(pallet, PROVIDER_REWARDS, RESERVE, left_over)
    amounts = emission(pallet.balances.free_balance(RESERVE), pallet.emission_divisor)
    parts = (
        (STAKING_REWARDS, amounts.validators),
        (PROVIDER_REWARDS, amounts.providers),
        (TREASURY, amounts.treasury),
    )
    for pot, amount in parts:
        _move(pallet, RESERVE, pot, amount)
    pallet.eras_reward[era] = EraReward(amounts.validators, amounts.validators)
    return sum(amount for _, amount in parts)


def _move(pallet: "TrustStake", pot: bytes, payee: bytes, amount: int) -> None:
    """Pay out of a pot what it can pay; dust that cannot open the payee's account is burned."""
    amount = min(amount, pallet.balances.free_balance(pot))
    if amount:
        pallet.balances.debit(pot, amount)
        pallet.balances.credit(payee, amount)
        pallet.balances.emit(Transfer(pot, payee, amount))


def _forget(pallet: "TrustStake", era: int) -> None:
    """Drop the era that leaves the history; its unclaimed rewards go back to the reserve."""
    old = era - pallet.history_eras - 1
    if old < 0:
        return
    reward = pallet.eras_reward[old]
    if reward is not None:
        _move(pallet, STAKING_REWARDS, RESERVE, reward.unclaimed)
    for validator, _ in tuple(pallet.eras_exposure.under(old)):
        del pallet.eras_exposure[old, validator]
        del pallet.claimed[old, validator]
    del pallet.eras_reward[old]
    del pallet.eras_points[old]
    del pallet.eras_total[old]


def _elect(pallet: "TrustStake", era: int) -> None:
    """Elect among the candidates, and freeze the stake behind each of the elected."""
    standing = [(stash, pallet.backing[stash]) for stash, _ in pallet.candidates.items() if pallet.is_candidate(stash)]
    elected = elect(standing, pallet.validator_seats)
    for stash, _ in elected:
        candidate = pallet.candidates[stash]
        behind = tuple(pallet.stakes.under(stash))
        own = sum(value for staker, value in behind if staker == stash)
        others = [(staker, value) for staker, value in behind if staker != stash]
        pallet.eras_exposure[era, stash] = exposure(own, others, candidate.commission_ppm if candidate else 0)
    pallet.eras_total[era] = sum(total for _, total in elected)
    pallet.elected.set(tuple(Standing(stash, total) for stash, total in elected))


def _note_work(pallet: "TrustStake", era: int, author: bytes) -> None:
    points = pallet.eras_points[era]
    if any(one.stash == author for one in points):
        changed = (Points(one.stash, one.points + BLOCK_POINTS * (one.stash == author)) for one in points)
        pallet.eras_points[era] = tuple(changed)
    elif any(one.stash == author for one in pallet.elected.get()):
        pallet.eras_points[era] = (*points, Points(author, BLOCK_POINTS))
