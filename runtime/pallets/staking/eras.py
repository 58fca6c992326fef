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


def emission(reserve_grains: int, divisor: int, validators_ppm: int, providers_ppm: int) -> Emission:
    """Return the parts of `reserve // divisor`: validators and delegators, providers, and the rest for the treasury."""
    emitted_grains = reserve_grains // divisor
    validators, providers = part(emitted_grains, validators_ppm), part(emitted_grains, providers_ppm)
    return Emission(validators, providers, emitted_grains - validators - providers)


def check_next_validators(stake: StakeLedger) -> None:
    """Check the hash of the next validators in the header.

    Raise InvalidBlock unless it is there once in an epoch's last block, with the value from the state, and never in
    another block.
    """
    due = stake.next_validators(stake.system.number.get())
    given = [
        statement for statement in consensus_logs(stake.system.digest.get()) if isinstance(statement, NextValidators)
    ]
    if given != ([] if due is None else [due]):
        raise InvalidBlock("next validators of the header differ from the state")


def enter(stake: StakeLedger) -> Weight | None:
    """Activate the set, start the era and elect in an epoch's first block. Record the author in every block.

    Return the weight of the epoch's start, None in every other block.
    """
    is_epoch_start = stake.beacon.is_epoch_start(stake.system.number.get())
    spent_weight = _turn_epoch(stake, stake.beacon.epoch()) if is_epoch_start else None
    presence.note(stake)
    author = find_author(stake.system.digest.get())
    if author is not None:
        _note_work(stake, stake.current_era.get(), author)
    return spent_weight


def turn_weight(candidate_count: int, elected_count: int = VALIDATORS_MAX) -> Weight:
    """Return the weight of an era's start with an election: candidates, and paid validators of the last era."""
    weight_name = "TrustStake.on_initialize"
    return (
        WEIGHTS[f"{weight_name} era"]
        + times(elected_count, WEIGHTS[f"{weight_name} elected"])
        + election_weight(candidate_count)
    )


def election_weight(candidate_count: int) -> Weight:
    """Return the weight of an election with this many candidates."""
    return times(candidate_count, WEIGHTS["TrustStake.on_initialize candidate"])


def seat_genesis(stake: StakeLedger, validators: list[dict[str, Any]]) -> None:
    """Bond and register the first candidates, and seat those with the greatest bonds.

    Raise ValueError for an inconsistent specification.
    """
    offered_seats = []
    for validator in validators:
        stash = account_from_text(validator["stash"])
        keys = {name: account_from_text(validator[name]) for name in KEY_FIELDS}
        bond_grains = int(validator["bond"])
        if bond_grains < stake.validator_bond_min:
            raise ValueError(f"validator {validator['stash']}: bond below the minimum")
        commission_ppm = int(validator.get("commission_ppm", COMMISSION_DEFAULT_PPM))
        with genesis_entry(f"validator {validator['stash']}"):
            stake.lock_own(stash, bond_grains)
        with genesis_entry(f"validator {validator['stash']}{_keys_at_fault(stake, stash, keys)}"):
            stake.set_candidate(stash, Candidate(**keys, commission_ppm=commission_ppm))
        offered_seats.append(Seat(stash, keys["session_key"], keys["vrf_key"], bond_grains))
    seated_stashes = {
        stash for stash, _ in by_stake((seat.stash, seat.weight) for seat in offered_seats)[: stake.validator_count]
    }
    genesis_seats = (seat for seat in offered_seats if seat.stash in seated_stashes)
    stake.active_set.set(tuple(sorted(genesis_seats, key=lambda seat: seat.stash)))
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
    set_members = stake.validators(epoch)
    assert set_members, "the previous epoch elected this epoch's set"
    # Not written again each epoch: a set lasts an era.
    if set_members != stake.active_set.get():
        stake.active_set.set(set_members)
    era = epoch // stake.era_epochs
    assert era >= stake.current_era.get(), "eras only rise"
    spent_weight = _turn_era(stake, era) if era > stake.current_era.get() else None
    if epoch + 1 > stake.last_elected_epoch.get():
        elections.elect(stake, epoch + 1)
        spent_weight = (spent_weight or Weight()) + election_weight(stake.candidate_count.get())
    return spent_weight


def _turn_era(stake: StakeLedger, era: int) -> Weight:
    ended_era = stake.current_era.get()
    emitted_grains, paid_count = _pay_for(stake, ended_era)
    _forget(stake, era)
    stake.current_era.set(era)
    _expose(stake, era)
    stake.emit(EraStarted(era, stake.elected.get(), emitted_grains))
    return turn_weight(0, paid_count)


def _pay_for(stake: StakeLedger, ended_era: int) -> tuple[int, int]:
    """Move an ended era's emission out of the reserve, and share it.

    Return the grains that left, and the number of paid validators.
    """
    # First, so that the unspent part counts in the coming emission.
    left_over = stake.balances.free_balance(PROVIDER_REWARDS)
    stake.pay_from(PROVIDER_REWARDS, RESERVE, left_over)
    reserve_grains, parts_ppm = (
        stake.balances.free_balance(RESERVE),
        (stake.emission_validators, stake.emission_providers),
    )
    parts = emission(reserve_grains, stake.emission_divisor, *parts_ppm)
    earned_grains, paid_count = _share(stake, ended_era, parts.validators)
    for pot, pot_grains in (
        (STAKING_REWARDS, earned_grains),
        (PROVIDER_REWARDS, parts.providers),
        (TREASURY, parts.treasury),
    ):
        stake.pay_from(RESERVE, pot, pot_grains)
    stake.eras_validator_reward[ended_era] = earned_grains
    return earned_grains + parts.providers + parts.treasury, paid_count


def _share(stake: StakeLedger, ended_era: int, reward_total: int) -> tuple[int, int]:
    """Share an era's reward among the authors of its blocks, by points.

    Return the grains earned, and the number of authors.
    """
    entries = stake.eras_reward_points[ended_era]
    total_points, earned_grains = sum(entry.points for entry in entries), 0
    for entry in entries:
        exposure = stake.eras_exposure[ended_era, entry.stash]
        assert exposure is not None, "an author has exposure in its era"
        reward_grains = reward_total * entry.points // total_points
        own_grains = own_part(reward_grains, exposure)
        posted, posting, unearned_grains = delegations.post(
            stake.pools[entry.stash], reward_grains - own_grains, ended_era
        )
        if posted.owed != stake.pools[entry.stash].owed:
            stake.pools[entry.stash] = posted
        if posting is not None:
            stake.era_rewards_per_share[entry.stash, ended_era] = posting
        if own_grains:
            stake.pending_rewards[entry.stash] += own_grains
        earned_grains += reward_grains - unearned_grains
    assert earned_grains <= reward_total, "an era pays at most its emission"
    return earned_grains, len(entries)


def _forget(stake: StakeLedger, era: int) -> None:
    """Drop the oldest era of the history. Its rewards can be claimed for ever."""
    oldest_era = era - stake.history_eras - 1
    if oldest_era < 0:
        return
    for validator, _ in tuple(stake.eras_exposure.under(oldest_era)):
        del stake.eras_exposure[oldest_era, validator]
    del stake.eras_validator_reward[oldest_era]
    del stake.eras_reward_points[oldest_era]
    del stake.eras_total_stake[oldest_era]


def _expose(stake: StakeLedger, era: int) -> None:
    """Record the stake behind each member of the era's set, and the members that are still candidates.

    Only those are paid for their blocks. Announced commissions take effect.
    """
    standings = []
    for seat in stake.active_set.get():
        backing_grains = stake.behind(seat.stash)
        stake.eras_exposure[era, seat.stash] = Exposure(
            backing_grains, stake.bonds[seat.stash], _commission(stake, seat.stash)
        )
        # All members are exposed, since all can offend. Only candidates are paid.
        standings.append(Standing(seat.stash, backing_grains))
    stake.eras_total_stake[era] = sum(standing.total for standing in standings)
    stake.elected.set(tuple(standing for standing in standings if stake.is_candidate(standing.stash)))


def _commission(stake: StakeLedger, stash: bytes) -> int:
    """Return the commission of a member. A former candidate that had to stay keeps its last one."""
    asked_ppm = stake.commission_of(stash)
    return asked_ppm if asked_ppm is not None else stake.last_commission[stash] or 0


def _note_work(stake: StakeLedger, era: int, author: bytes) -> None:
    """Give the author of the block its points, if it was elected."""
    points_by_stash = {entry.stash: entry.points for entry in stake.eras_reward_points[era]}
    # A member that is no candidate makes blocks only because it must stay, and is not paid.
    if author not in points_by_stash and all(standing.stash != author for standing in stake.elected.get()):
        return
    points_by_stash[author] = points_by_stash.get(author, 0) + BLOCK_POINTS
    stake.eras_reward_points[era] = tuple(Points(stash, points) for stash, points in points_by_stash.items())
