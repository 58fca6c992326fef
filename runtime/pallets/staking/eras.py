"""Eras: at each one's start the last is paid for and the next is elected.

Always: emission moves grains from the reserve to the pots and makes none; what nobody claims
within the history goes back to the reserve; the work at an era's start is bounded by the number of
candidates, and at any other block by the validators in office.
"""

from typing import Any

from runtime.blocks.digest import NextValidators, consensus_logs, find_author
from runtime.cryptography.ss58 import account_from_text
from runtime.encoding.codec import struct
from runtime.encoding.types import Balance, Weight
from runtime.frame.errors import InvalidBlock
from runtime.frame.measured import times
from runtime.frame.weights import work
from runtime.pallets.balances import Transfer
from runtime.pallets.pots import PROVIDER_REWARDS, RESERVE, STAKING_REWARDS, TREASURY
from runtime.pallets.staking.exposures import elect, exposure, reward_shares
from runtime.pallets.staking.slashing import Share, part
from runtime.pallets.staking.stake_ledger import StakeLedger
from runtime.pallets.staking.stakers import Candidate, EraReward, Points, Seat, Standing
from runtime.pallets.staking.staking_events import EraStarted
from runtime.pallets.weights import WEIGHTS

BLOCK_POINTS = 20
BACKINGS_MAX = 32_768
"""Stakes that an era freezes at most: those of the elected and of all who delegate to them."""
TURN_MAX = work(microseconds=350_000)
"""What an era's turn weighs at most, with as many candidates and backings as there can be."""
COMMISSION_DEFAULT_PPM = 50_000


@struct
class Emission:
    """How an era's emission is divided; the three parts add up to it."""

    validators: Balance
    providers: Balance
    treasury: Balance


def emission(reserve: int, divisor: int, validators_ppm: int, providers_ppm: int) -> Emission:
    """`reserve // divisor`: parts to validators and delegators, and to providers, the rest to the treasury."""
    amount = reserve // divisor
    validators, providers = part(amount, validators_ppm), part(amount, providers_ppm)
    return Emission(validators, providers, amount - validators - providers)


def check_next_validators(stake: StakeLedger) -> None:
    """The header names the next epoch's validators in an epoch's last block, once, and nowhere else; InvalidBlock."""
    due = stake.next_validators(stake.system.number.get())
    said = [log for log in consensus_logs(stake.system.digest.get()) if isinstance(log, NextValidators)]
    if said != ([] if due is None else [due]):
        raise InvalidBlock("the header does not say of the next validators what the state says")


def enter(stake: StakeLedger) -> Weight | None:
    """Begin the era of the block under execution, if it is its first block; note the author's work.

    What an era's turn weighed; None in every other block.
    """
    epoch = stake.beacon.epoch()
    assert epoch >= stake.session.current_index.get(), "epochs only rise"
    if epoch != stake.session.current_index.get():
        stake.session.begin(epoch, tuple(seat.stash for seat in stake.validators(epoch)))
    era = epoch // stake.era_epochs
    assert era >= stake.current_era.get(), "eras only rise"
    is_turn = era > stake.current_era.get()
    spent = _turn(stake, era) if is_turn else None
    author = find_author(stake.system.digest.get())
    if author is not None:
        _note_work(stake, era, author)
    return spent


def turn_weight(candidates: int, backings: int) -> Weight:
    """What an era's turn weighs: who stands for election, and whose stake is frozen behind the elected."""
    row = "TrustStake.on_initialize"
    return (
        WEIGHTS[f"{row} era"]
        + times(candidates, WEIGHTS[f"{row} candidate"])
        + times(backings, WEIGHTS[f"{row} backing"])
    )


def pay_out(stake: StakeLedger, validator: bytes, era: int) -> tuple[Share, ...]:
    """Pay everyone behind a validator for an ended era; the shares paid, none if there is nothing to pay."""
    reward = stake.eras_reward[era]
    amount, exposed = stake.era_reward(era, validator)
    if reward is None or exposed is None or stake.claimed[era, validator]:
        return ()
    shares = reward_shares(amount, validator, exposed)
    assert sum(share.amount for share in shares) == amount, "the shares are the reward"
    assert amount <= reward.unclaimed, "an era pays no more than it emitted"
    stake.claimed[era, validator] = True
    stake.eras_reward[era] = EraReward(reward.total, reward.unclaimed - amount)
    before = stake.balances.free_balance(STAKING_REWARDS)
    moved = 0
    for share in shares:
        moved += _move(stake, STAKING_REWARDS, share.payee or validator, share.amount)
    left = before - stake.balances.free_balance(STAKING_REWARDS) - moved
    assert 0 <= left < stake.balances.existential_deposit, "only dust leaves the pot besides what is paid"
    return shares


def seat_genesis(stake: StakeLedger, validators: list[dict[str, Any]]) -> None:
    """Bond, link and seat the first validators; ValueError for a specification that does not hold together."""
    seats = []
    for validator in validators:
        stash = account_from_text(validator["stash"])
        session = account_from_text(validator["session_key"])
        vrf = account_from_text(validator["vrf_key"])
        provider = account_from_text(validator["provider_key"])
        bond = int(validator["bond"])
        if bond < stake.validator_bond_min:
            raise ValueError(f"validator {validator['stash']}: its bond is below the minimum")
        stake.lock(stash, stash, bond)
        commission = int(validator.get("commission_ppm", COMMISSION_DEFAULT_PPM))
        stake.set_candidate(stash, Candidate(session, vrf, provider, commission))
        seats.append(Seat(stash, session, vrf, bond))
    stake.seats.set(tuple(sorted(seats, key=lambda seat: seat.stash)))
    stake.session.begin(0, tuple(seat.stash for seat in stake.validators(0)))
    _elect(stake, 0)


def _turn(stake: StakeLedger, era: int) -> Weight:
    emitted = _pay_for(stake, stake.current_era.get())
    _forget(stake, era)
    stake.current_era.set(era)
    backings = _elect(stake, era)
    stake.emit(EraStarted(era, stake.elected.get(), emitted))
    return turn_weight(stake.candidate_count.get(), backings)


def _pay_for(stake: StakeLedger, era: int) -> int:
    """Move an ended era's emission out of the reserve; the grains that left it."""
    left_over = stake.balances.free_balance(PROVIDER_REWARDS)
    _move(stake, PROVIDER_REWARDS, RESERVE, left_over)
    reserve, parts_ppm = stake.balances.free_balance(RESERVE), (stake.emission_validators, stake.emission_providers)
    amounts = emission(reserve, stake.emission_divisor, *parts_ppm)
    parts = (
        (STAKING_REWARDS, amounts.validators),
        (PROVIDER_REWARDS, amounts.providers),
        (TREASURY, amounts.treasury),
    )
    for pot, amount in parts:
        _move(stake, RESERVE, pot, amount)
    stake.eras_reward[era] = EraReward(amounts.validators, amounts.validators)
    return sum(amount for _, amount in parts)


def _move(stake: StakeLedger, pot: bytes, payee: bytes, amount: int) -> int:
    """Pay out of a pot what it can pay, and say how much; dust that cannot open the payee's account is burned."""
    # A pot that fell below the existential deposit burned its dust, and can lack as much for its last payee.
    amount = min(amount, stake.balances.free_balance(pot))
    if amount:
        stake.balances.debit(pot, amount)
        stake.balances.credit(payee, amount)
        stake.balances.emit(Transfer(pot, payee, amount))
    return amount


def _forget(stake: StakeLedger, era: int) -> None:
    """Drop the era that leaves the history; its unclaimed rewards go back to the reserve."""
    old = era - stake.history_eras - 1
    if old < 0:
        return
    reward = stake.eras_reward[old]
    if reward is not None:
        _move(stake, STAKING_REWARDS, RESERVE, reward.unclaimed)
    for validator, _ in tuple(stake.eras_exposure.under(old)):
        del stake.eras_exposure[old, validator]
        del stake.claimed[old, validator]
    del stake.eras_reward[old]
    del stake.eras_points[old]
    del stake.eras_total[old]


def _elect(stake: StakeLedger, era: int) -> int:
    """Elect among the candidates, and freeze the stake behind each of the elected; of how many accounts."""
    backings = 0
    standing = [(stash, stake.backing[stash]) for stash, _ in stake.candidates.items() if stake.is_candidate(stash)]
    elected = elect(standing, stake.validator_seats)
    for stash, _ in elected:
        candidate = stake.candidates[stash]
        assert candidate is not None, "only candidates stand for election"
        behind = tuple(stake.stakes.under(stash))
        backings += len(behind)
        own = sum(value for staker, value in behind if staker == stash)
        others = [(staker, value) for staker, value in behind if staker != stash]
        stake.eras_exposure[era, stash] = exposure(own, others, candidate.commission_ppm)
    stake.eras_total[era] = sum(total for _, total in elected)
    stake.elected.set(tuple(Standing(stash, total) for stash, total in elected))
    return backings


def _note_work(stake: StakeLedger, era: int, author: bytes) -> None:
    """Give the author of the block its points, if it was elected."""
    points = {entry.stash: entry.points for entry in stake.eras_points[era]}
    if author not in points and all(standing.stash != author for standing in stake.elected.get()):
        return
    points[author] = points.get(author, 0) + BLOCK_POINTS
    stake.eras_points[era] = tuple(Points(stash, earned) for stash, earned in points.items())
