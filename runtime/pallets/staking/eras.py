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


def check_next_validators(stake_ledger: StakeLedger) -> None:
    """Check the hash of the next validators in the header.

    Raise InvalidBlock unless it is there once in an epoch's last block, with the value from the state, and never in
    another block.
    """
    due_statement = stake_ledger.next_validators(stake_ledger.system.number.get())
    given_statements = [
        statement
        for statement in consensus_logs(stake_ledger.system.digest.get())
        if isinstance(statement, NextValidators)
    ]
    if given_statements != ([] if due_statement is None else [due_statement]):
        raise InvalidBlock("next validators of the header differ from the state")


def enter(stake_ledger: StakeLedger) -> Weight | None:
    """Activate the set, start the era and elect in an epoch's first block. Record the author in every block.

    Return the weight of the epoch's start, None in every other block.
    """
    is_epoch_start = stake_ledger.beacon.is_epoch_start(stake_ledger.system.number.get())
    spent_weight = _turn_epoch(stake_ledger, stake_ledger.beacon.epoch()) if is_epoch_start else None
    presence.note(stake_ledger)
    author = find_author(stake_ledger.system.digest.get())
    if author is not None:
        _note_work(stake_ledger, stake_ledger.current_era.get(), author)
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


def seat_genesis(stake_ledger: StakeLedger, validators: list[dict[str, Any]]) -> None:
    """Bond and register the first candidates, and seat those with the greatest bonds.

    Raise ValueError for an inconsistent specification.
    """
    offered_seats = []
    for validator in validators:
        stash = account_from_text(validator["stash"])
        keys = {name: account_from_text(validator[name]) for name in KEY_FIELDS}
        bond_grains = int(validator["bond"])
        if bond_grains < stake_ledger.validator_bond_min:
            raise ValueError(f"validator {validator['stash']}: bond below the minimum")
        commission_ppm = int(validator.get("commission_ppm", COMMISSION_DEFAULT_PPM))
        with genesis_entry(f"validator {validator['stash']}"):
            stake_ledger.lock_own(stash, bond_grains)
        with genesis_entry(f"validator {validator['stash']}{_keys_at_fault(stake_ledger, stash, keys)}"):
            stake_ledger.set_candidate(stash, Candidate(**keys, commission_ppm=commission_ppm))
        offered_seats.append(Seat(stash, keys["session_key"], keys["vrf_key"], bond_grains))
    seated_stashes = {
        stash
        for stash, _ in by_stake((seat.stash, seat.weight) for seat in offered_seats)[: stake_ledger.validator_count]
    }
    genesis_seats = (seat for seat in offered_seats if seat.stash in seated_stashes)
    stake_ledger.active_set.set(tuple(sorted(genesis_seats, key=lambda seat: seat.stash)))
    elections.seat(stake_ledger, 0, stake_ledger.active_set.get())
    stake_ledger.last_elected_epoch.set(GENESIS_ERAS * stake_ledger.era_epochs - 1)
    _expose(stake_ledger, 0)


def _keys_at_fault(stake_ledger: StakeLedger, stash: bytes, keys: dict[str, bytes]) -> str:
    """Return the text that names the keys which make a validator invalid; empty if none does."""
    unsafe = [name for name, key in keys.items() if not is_safe_public_key(key)]
    if unsafe:
        return f", {', '.join(unsafe)} (not an ed25519 key; make one with --scheme ed25519)"
    values = list(keys.values())
    taken = [
        name for name, key in keys.items() if values.count(key) > 1 or stake_ledger.key_owner[key] not in (None, stash)
    ]
    return "".join(f", {name}" for name in taken)


def _turn_epoch(stake_ledger: StakeLedger, epoch_number: int) -> Weight | None:
    presence.settle(stake_ledger)
    set_members = stake_ledger.validators(epoch_number)
    assert set_members, "the previous epoch elected this epoch's set"
    # Not written again each epoch: a set lasts an era.
    if set_members != stake_ledger.active_set.get():
        stake_ledger.active_set.set(set_members)
    era_number = epoch_number // stake_ledger.era_epochs
    assert era_number >= stake_ledger.current_era.get(), "eras only rise"
    spent_weight = _turn_era(stake_ledger, era_number) if era_number > stake_ledger.current_era.get() else None
    if epoch_number + 1 > stake_ledger.last_elected_epoch.get():
        elections.elect(stake_ledger, epoch_number + 1)
        spent_weight = (spent_weight or Weight()) + election_weight(stake_ledger.candidate_count.get())
    return spent_weight


def _turn_era(stake_ledger: StakeLedger, era_number: int) -> Weight:
    ended_era = stake_ledger.current_era.get()
    emitted_grains, paid_count = _pay_for(stake_ledger, ended_era)
    _forget(stake_ledger, era_number)
    stake_ledger.current_era.set(era_number)
    _expose(stake_ledger, era_number)
    stake_ledger.emit(EraStarted(era_number, stake_ledger.elected.get(), emitted_grains))
    return turn_weight(0, paid_count)


def _pay_for(stake_ledger: StakeLedger, ended_era: int) -> tuple[int, int]:
    """Move an ended era's emission out of the reserve, and share it.

    Return the grains that left, and the number of paid validators.
    """
    # First, so that the unspent part counts in the coming emission.
    left_over = stake_ledger.balances.free_balance(PROVIDER_REWARDS)
    stake_ledger.pay_from(PROVIDER_REWARDS, RESERVE, left_over)
    reserve_grains, parts_ppm = (
        stake_ledger.balances.free_balance(RESERVE),
        (stake_ledger.emission_validators, stake_ledger.emission_providers),
    )
    emission_parts = emission(reserve_grains, stake_ledger.emission_divisor, *parts_ppm)
    earned_grains, paid_count = _share(stake_ledger, ended_era, emission_parts.validators)
    for pot_account, pot_grains in (
        (STAKING_REWARDS, earned_grains),
        (PROVIDER_REWARDS, emission_parts.providers),
        (TREASURY, emission_parts.treasury),
    ):
        stake_ledger.pay_from(RESERVE, pot_account, pot_grains)
    stake_ledger.eras_validator_reward[ended_era] = earned_grains
    return earned_grains + emission_parts.providers + emission_parts.treasury, paid_count


def _share(stake_ledger: StakeLedger, ended_era: int, reward_total: int) -> tuple[int, int]:
    """Share an era's reward among the authors of its blocks, by points.

    Return the grains earned, and the number of authors.
    """
    points_entries = stake_ledger.eras_reward_points[ended_era]
    total_points, earned_grains = sum(author_points.points for author_points in points_entries), 0
    for author_points in points_entries:
        exposure = stake_ledger.eras_exposure[ended_era, author_points.stash]
        assert exposure is not None, "an author has exposure in its era"
        reward_grains = reward_total * author_points.points // total_points
        own_grains = own_part(reward_grains, exposure)
        rewarded_pool, era_posting, unearned_grains = delegations.post(
            stake_ledger.pools[author_points.stash], reward_grains - own_grains, ended_era
        )
        if rewarded_pool.owed != stake_ledger.pools[author_points.stash].owed:
            stake_ledger.pools[author_points.stash] = rewarded_pool
        if era_posting is not None:
            stake_ledger.era_rewards_per_share[author_points.stash, ended_era] = era_posting
        if own_grains:
            stake_ledger.pending_rewards[author_points.stash] += own_grains
        earned_grains += reward_grains - unearned_grains
    assert earned_grains <= reward_total, "an era pays at most its emission"
    return earned_grains, len(points_entries)


def _forget(stake_ledger: StakeLedger, era_number: int) -> None:
    """Drop the oldest era of the history. Its rewards can be claimed for ever."""
    oldest_era = era_number - stake_ledger.history_eras - 1
    if oldest_era < 0:
        return
    for validator, _ in tuple(stake_ledger.eras_exposure.under(oldest_era)):
        del stake_ledger.eras_exposure[oldest_era, validator]
    del stake_ledger.eras_validator_reward[oldest_era]
    del stake_ledger.eras_reward_points[oldest_era]
    del stake_ledger.eras_total_stake[oldest_era]


def _expose(stake_ledger: StakeLedger, era_number: int) -> None:
    """Record the stake behind each member of the era's set, and the members that are still candidates.

    Only those are paid for their blocks. Announced commissions take effect.
    """
    standings = []
    for set_member in stake_ledger.active_set.get():
        backing_grains = stake_ledger.behind(set_member.stash)
        stake_ledger.eras_exposure[era_number, set_member.stash] = Exposure(
            backing_grains, stake_ledger.bonds[set_member.stash], _commission(stake_ledger, set_member.stash)
        )
        # All members are exposed, since all can offend. Only candidates are paid.
        standings.append(Standing(set_member.stash, backing_grains))
    stake_ledger.eras_total_stake[era_number] = sum(standing.total for standing in standings)
    stake_ledger.elected.set(tuple(standing for standing in standings if stake_ledger.is_candidate(standing.stash)))


def _commission(stake_ledger: StakeLedger, stash: bytes) -> int:
    """Return the commission of a member. A former candidate that had to stay keeps its last one."""
    asked_ppm = stake_ledger.commission_of(stash)
    return asked_ppm if asked_ppm is not None else stake_ledger.last_commission[stash] or 0


def _note_work(stake_ledger: StakeLedger, era_number: int, author: bytes) -> None:
    """Give the author of the block its points, if it was elected."""
    points_by_stash = {
        points_entry.stash: points_entry.points for points_entry in stake_ledger.eras_reward_points[era_number]
    }
    # A member that is no candidate makes blocks only because it must stay, and is not paid.
    if author not in points_by_stash and all(standing.stash != author for standing in stake_ledger.elected.get()):
        return
    points_by_stash[author] = points_by_stash.get(author, 0) + BLOCK_POINTS
    stake_ledger.eras_reward_points[era_number] = tuple(
        Points(stash, author_points) for stash, author_points in points_by_stash.items()
    )
