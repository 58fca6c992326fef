"""Eras: at the start of each the previous one is paid. The set of an era is elected an epoch before it.

Invariant: emission moves grains from the reserve to the pots and creates none. A reward that nobody is there to earn
stays in the reserve. The work at an era's start is bounded by the number of candidates, and in any other block by the
number of active validators, never by that of delegators.
"""

from typing import Any

from runtime.blocks.digest import NextValidators, consensus_logs, find_author
from runtime.cryptography.signatures import is_safe_public_key
from runtime.cryptography.ss58 import account_from_text
from runtime.encoding.codec import struct
from runtime.encoding.types import Balance, Weight
from runtime.frame.errors import InvalidBlock, genesis_entry
from runtime.frame.measured import times
from runtime.frame.weights import work
from runtime.pallets.pots import PROVIDER_REWARDS, RESERVE, STAKING_REWARDS, TREASURY
from runtime.pallets.staking import delegations, elections, presence
from runtime.pallets.staking.slashing import Exposure, by_stake, own_part, part
from runtime.pallets.staking.stake_ledger import StakeLedger
from runtime.pallets.staking.stakers import VALIDATORS_MAX, Candidate, Points, Seat, Standing
from runtime.pallets.staking.staking_events import EraStarted
from runtime.pallets.weights import WEIGHTS

BLOCK_POINTS = 20
TURN_MAX = work(microseconds=350_000)
"""The greatest weight of an era's start, with the most candidates and elected validators."""
COMMISSION_DEFAULT_PPM = 50_000
KEY_FIELDS = ("session_key", "vrf_key", "provider_key")
"""The keys of a validator in a chain specification, which are fields of a candidate."""
GENESIS_ERAS = 2
"""The first eras keep the genesis set: an election needs the signs of life of a whole epoch before it."""


@struct
class Emission:
    """The parts of an era's emission. The three add up to it."""

    validators: Balance
    providers: Balance
    treasury: Balance


def emission(reserve: int, divisor: int, validators_ppm: int, providers_ppm: int) -> Emission:
    """Return the parts of `reserve // divisor`: validators and delegators, providers, and the rest for the treasury."""
    amount = reserve // divisor
    validators, providers = part(amount, validators_ppm), part(amount, providers_ppm)
    return Emission(validators, providers, amount - validators - providers)


def check_next_validators(stake: StakeLedger) -> None:
    """Check the hash of the next validators in the header.

    Raise InvalidBlock unless it is there once in an epoch's last block, with the value from the state, and never in
    another block.
    """
    due = stake.next_validators(stake.system.number.get())
    said = [log for log in consensus_logs(stake.system.digest.get()) if isinstance(log, NextValidators)]
    if said != ([] if due is None else [due]):
        raise InvalidBlock("next validators of the header differ from the state")


def enter(stake: StakeLedger) -> Weight | None:
    """Activate the set, start the era and elect in an epoch's first block. Record the author in every block.

    Return the weight of the epoch's start, None in every other block.
    """
    is_start = stake.beacon.is_epoch_start(stake.system.number.get())
    spent = _turn_epoch(stake, stake.beacon.epoch()) if is_start else None
    presence.note(stake)
    author = find_author(stake.system.digest.get())
    if author is not None:
        _note_work(stake, stake.current_era.get(), author)
    return spent


def turn_weight(candidates: int, elected: int = VALIDATORS_MAX) -> Weight:
    """Return the weight of an era's start with an election: candidates, and paid validators of the last era."""
    row = "TrustStake.on_initialize"
    return WEIGHTS[f"{row} era"] + times(elected, WEIGHTS[f"{row} elected"]) + election_weight(candidates)


def election_weight(candidates: int) -> Weight:
    """Return the weight of an election with this many candidates."""
    return times(candidates, WEIGHTS["TrustStake.on_initialize candidate"])


def seat_genesis(stake: StakeLedger, validators: list[dict[str, Any]]) -> None:
    """Bond and register the first candidates, and seat those with the greatest bonds.

    Raise ValueError for an inconsistent specification.
    """
    offered = []
    for validator in validators:
        stash = account_from_text(validator["stash"])
        keys = {name: account_from_text(validator[name]) for name in KEY_FIELDS}
        bond = int(validator["bond"])
        if bond < stake.validator_bond_min:
            raise ValueError(f"validator {validator['stash']}: bond below the minimum")
        commission = int(validator.get("commission_ppm", COMMISSION_DEFAULT_PPM))
        with genesis_entry(f"validator {validator['stash']}"):
            stake.lock_own(stash, bond)
        with genesis_entry(f"validator {validator['stash']}{_keys_at_fault(stake, stash, keys)}"):
            stake.set_candidate(stash, Candidate(**keys, commission_ppm=commission))
        offered.append(Seat(stash, keys["session_key"], keys["vrf_key"], bond))
    best = {stash for stash, _ in by_stake((seat.stash, seat.weight) for seat in offered)[: stake.validator_count]}
    seats = (seat for seat in offered if seat.stash in best)
    stake.active_set.set(tuple(sorted(seats, key=lambda seat: seat.stash)))
    elections.seat(stake, 0, stake.active_set.get())
    stake.last_elected_epoch.set(GENESIS_ERAS * stake.era_epochs - 1)
    _expose(stake, 0)


def _keys_at_fault(stake: StakeLedger, stash: bytes, keys: dict[str, bytes]) -> str:
    """Return the text that names the keys which make a validator invalid; empty if none does."""
    unsafe = [name for name, key in keys.items() if not is_safe_public_key(key)]
    if unsafe:
        return f", {', '.join(unsafe)} (not an ed25519 key; make one with --scheme ed25519)"
    values = list(keys.values())
    taken = [name for name, key in keys.items() if values.count(key) > 1 or stake.key_owner[key] not in (None, stash)]
    return "".join(f", {name}" for name in taken)


def _turn_epoch(stake: StakeLedger, epoch: int) -> Weight | None:
    presence.settle(stake)
    members = stake.validators(epoch)
    assert members, "the previous epoch elected this epoch's set"
    # Not written again each epoch: a set lasts an era.
    if members != stake.active_set.get():
        stake.active_set.set(members)
    era = epoch // stake.era_epochs
    assert era >= stake.current_era.get(), "eras only rise"
    spent = _turn_era(stake, era) if era > stake.current_era.get() else None
    if epoch + 1 > stake.last_elected_epoch.get():
        elections.elect(stake, epoch + 1)
        spent = (spent or Weight()) + election_weight(stake.candidate_count.get())
    return spent


def _turn_era(stake: StakeLedger, era: int) -> Weight:
    ended = stake.current_era.get()
    emitted, paid = _pay_for(stake, ended)
    _forget(stake, era)
    stake.current_era.set(era)
    _expose(stake, era)
    stake.emit(EraStarted(era, stake.elected.get(), emitted))
    return turn_weight(0, paid)


def _pay_for(stake: StakeLedger, era: int) -> tuple[int, int]:
    """Move an ended era's emission out of the reserve, and share it.

    Return the grains that left, and the number of paid validators.
    """
    # First, so that the unspent part counts in the coming emission.
    left_over = stake.balances.free_balance(PROVIDER_REWARDS)
    stake.pay_from(PROVIDER_REWARDS, RESERVE, left_over)
    reserve, parts_ppm = stake.balances.free_balance(RESERVE), (stake.emission_validators, stake.emission_providers)
    amounts = emission(reserve, stake.emission_divisor, *parts_ppm)
    earned, paid = _share(stake, era, amounts.validators)
    for pot, amount in ((STAKING_REWARDS, earned), (PROVIDER_REWARDS, amounts.providers), (TREASURY, amounts.treasury)):
        stake.pay_from(RESERVE, pot, amount)
    stake.eras_validator_reward[era] = earned
    return earned + amounts.providers + amounts.treasury, paid


def _share(stake: StakeLedger, era: int, amount: int) -> tuple[int, int]:
    """Share an era's reward among the authors of its blocks, by points.

    Return the grains earned, and the number of authors.
    """
    entries = stake.eras_reward_points[era]
    total, earned = sum(entry.points for entry in entries), 0
    for entry in entries:
        exposed = stake.eras_exposure[era, entry.stash]
        assert exposed is not None, "an author has exposure in its era"
        reward = amount * entry.points // total
        own = own_part(reward, exposed)
        pool, posting, left = delegations.post(stake.pools[entry.stash], reward - own, era)
        if pool.owed != stake.pools[entry.stash].owed:
            stake.pools[entry.stash] = pool
        if posting is not None:
            stake.era_rewards_per_share[entry.stash, era] = posting
        if own:
            stake.pending_rewards[entry.stash] += own
        earned += reward - left
    assert earned <= amount, "an era pays at most its emission"
    return earned, len(entries)


def _forget(stake: StakeLedger, era: int) -> None:
    """Drop the oldest era of the history. Its rewards can be claimed for ever."""
    old = era - stake.history_eras - 1
    if old < 0:
        return
    for validator, _ in tuple(stake.eras_exposure.under(old)):
        del stake.eras_exposure[old, validator]
    del stake.eras_validator_reward[old]
    del stake.eras_reward_points[old]
    del stake.eras_total_stake[old]


def _expose(stake: StakeLedger, era: int) -> None:
    """Record the stake behind each member of the era's set, and the members that are still candidates.

    Only those are paid for their blocks. Announced commissions take effect.
    """
    found = []
    for seat in stake.active_set.get():
        total = stake.behind(seat.stash)
        stake.eras_exposure[era, seat.stash] = Exposure(total, stake.bonds[seat.stash], _commission(stake, seat.stash))
        # All members are exposed, since all can offend. Only candidates are paid.
        found.append(Standing(seat.stash, total))
    stake.eras_total_stake[era] = sum(standing.total for standing in found)
    stake.elected.set(tuple(standing for standing in found if stake.is_candidate(standing.stash)))


def _commission(stake: StakeLedger, stash: bytes) -> int:
    """Return the commission of a member. A former candidate that had to stay keeps its last one."""
    asked = stake.commission_of(stash)
    return asked if asked is not None else stake.last_commission[stash] or 0


def _note_work(stake: StakeLedger, era: int, author: bytes) -> None:
    """Give the author of the block its points, if it was elected."""
    points = {entry.stash: entry.points for entry in stake.eras_reward_points[era]}
    # A member that is no candidate makes blocks only because it must stay, and is not paid.
    if author not in points and all(standing.stash != author for standing in stake.elected.get()):
        return
    points[author] = points.get(author, 0) + BLOCK_POINTS
    stake.eras_reward_points[era] = tuple(Points(stash, earned) for stash, earned in points.items())
