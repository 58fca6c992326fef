"""The election: from the active set, the candidates and their stake, to the set of the next era.

`churn.cut` limits the change of the set. This module decides who stands for election, and records the result. The same
code answers why a candidate waits (`outlook`).

Invariant: an elected set is valid (1 to 128 members, each with weight, no key twice). Otherwise the old set stays.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from runtime.encoding.codec import struct
from runtime.encoding.types import AccountId, Balance
from runtime.pallets.churn import cut
from runtime.pallets.staking.seats import OVERHANGS_MAX, Overhang
from runtime.pallets.staking.slashing import by_stake
from runtime.pallets.staking.stake_ledger import StakeLedger
from runtime.pallets.staking.stakers import VALIDATORS_MAX, Seat, Seats, Waiter, Why
from runtime.pallets.staking.staking_events import Jailed, SetElected

JAIL_SHARE = 3
"""The divisor of a set's weight. Less than a third may be in jail: a failing network must not lock itself up."""


@struct
class Chance:
    """The result of an election held now, for a candidate or an active validator."""

    stash: AccountId
    stake: Balance
    weight: Balance
    """Its weight in the elected set, 0 outside of it."""
    why: Why


@dataclass(frozen=True, slots=True)
class Contest:
    """The eligible candidates, best first, and the ineligible ones with the reason."""

    ranked: dict[bytes, int]
    unable: dict[bytes, Why]


def elect(stake_ledger: StakeLedger, first_epoch: int) -> None:
    """Elect the set from epoch `first_epoch` on, for an era, in the first block of the previous epoch."""
    current_set = stake_ledger.validators(first_epoch - 1)
    next_set = current_set
    if stake_ledger.elections_enabled:
        # First, so that newly jailed members do not stand for election.
        _jail_the_absent(stake_ledger, current_set, first_epoch - 2)
        contest = _contest(stake_ledger, first_epoch - 2)
        next_set = _elected(stake_ledger, current_set, contest)
        _note_leavers(stake_ledger, first_epoch, current_set, next_set, contest)
        _note_waiters(stake_ledger, first_epoch, next_set, contest)
    if next_set != current_set:
        _note_newcomers(stake_ledger, first_epoch, current_set, next_set)
        seat(stake_ledger, first_epoch, next_set)
    stake_ledger.last_elected_epoch.set(first_epoch + stake_ledger.era_epochs - 1)
    stake_ledger.emit(SetElected(first_epoch, len(next_set), sum(set_member.weight for set_member in next_set)))
    _note_overhangs(stake_ledger, first_epoch, next_set)
    _forget(stake_ledger, first_epoch - 1)


def _elected(stake_ledger: StakeLedger, current_set: Seats, contest: Contest) -> Seats:
    """Return the set after `current_set`, from the eligible candidates: the same set if they make no valid one."""
    next_set = _next_set(stake_ledger, current_set, _cut(stake_ledger, current_set, contest))
    return next_set if _is_set(next_set) else current_set


def outlook(stake_ledger: StakeLedger, ended_epoch: int) -> tuple[Chance, ...]:
    """Return the result of an election held now, for each candidate and member, by rank, ineligible ones last.

    `ended_epoch` is the epoch in which they must have been on line.
    """
    current_set = stake_ledger.validators(stake_ledger.last_elected_epoch.get())
    contest = _contest(stake_ledger, ended_epoch)
    next_weights = _cut(stake_ledger, current_set, contest)
    sitting_stashes = {old_seat.stash for old_seat in current_set}
    elected_stashes = set(list(contest.ranked)[: stake_ledger.validator_count])
    all_stashes = [
        *contest.ranked,
        *contest.unable,
        *(old_seat.stash for old_seat in current_set if old_seat.stash not in stake_ledger.candidates),
    ]
    return tuple(
        Chance(
            stash,
            stake_ledger.behind(stash),
            next_weights.get(stash, 0),
            _why(stash, contest, next_weights, sitting_stashes, elected_stashes),
        )
        for stash in all_stashes
    )


def _why(
    stash: bytes,
    contest: Contest,
    next_weights: Mapping[bytes, int],
    sitting_stashes: set[bytes],
    elected_stashes: set[bytes],
) -> Why:
    if stash in elected_stashes:
        return Why.ELECTED if stash in next_weights else Why.WAITS
    if stash in contest.unable:
        return contest.unable[stash]
    if stash in next_weights and stash in sitting_stashes:
        return Why.MUST_STAY
    return Why.OUT_RANKED if stash in contest.ranked else Why.NOT_OFFERED


def _contest(stake_ledger: StakeLedger, ended_epoch: int) -> Contest:
    reasons_by_stash = {
        stash: why_not(stake_ledger, stash, ended_epoch) for stash, _ in stake_ledger.candidates.items()
    }
    able_stakes = [(stash, stake_ledger.behind(stash)) for stash, reason in reasons_by_stash.items() if reason is None]
    unable_reasons = {stash: reason for stash, reason in sorted(reasons_by_stash.items()) if reason is not None}
    return Contest(dict(by_stake(able_stakes)), unable_reasons)


def why_not(stake_ledger: StakeLedger, stash: bytes, ended_epoch: int) -> Why | None:
    """Return why a stash does not stand for election, None if it does.

    `ended_epoch` is the epoch in which it must have been on line.
    """
    if stake_ledger.candidates[stash] is None:
        return Why.NOT_OFFERED
    if stash in stake_ledger.tombstones:
        return Why.TOMBSTONED
    if stash in stake_ledger.jailed:
        return Why.JAILED
    if not stake_ledger.was_on_line(stash, ended_epoch):
        return Why.OFF_LINE
    return None if stake_ledger.is_candidate(stash) else Why.TOO_SMALL


def _cut(stake_ledger: StakeLedger, current_set: tuple[Seat, ...], contest: Contest) -> dict[bytes, int]:
    old_weights = {old_seat.stash: old_seat.weight for old_seat in current_set}
    tombstoned = [stash for stash in old_weights if stash in stake_ledger.tombstones]
    leaving_since = {
        stash: retiring_epoch for stash in old_weights if (retiring_epoch := stake_ledger.retiring_since[stash])
    }
    waiting_since = {
        waiting_validator.stash: waiting_validator.since for waiting_validator in stake_ledger.waiting_validators.get()
    }
    return cut(old_weights, contest.ranked, stake_ledger.validator_count, tombstoned, leaving_since, waiting_since)


def _next_set(
    stake_ledger: StakeLedger, current_set: tuple[Seat, ...], next_weights: Mapping[bytes, int]
) -> tuple[Seat, ...]:
    """Return the seats with the registered keys. A member that is no candidate and must stay keeps its old keys."""
    old_seats = {old_seat.stash: old_seat for old_seat in current_set}
    new_seats = []
    # By ascending stash, like every stored set: bits of a certificate count places in it.
    for stash, seat_weight in sorted(next_weights.items()):
        candidate = stake_ledger.candidates[stash]
        if candidate is not None:
            new_seats.append(Seat(stash, candidate.session_key, candidate.vrf_key, seat_weight))
        else:
            new_seats.append(Seat(stash, old_seats[stash].session_key, old_seats[stash].vrf_key, seat_weight))
    return tuple(new_seats)


def _is_set(seats: tuple[Seat, ...]) -> bool:
    session_keys = {new_seat.session_key for new_seat in seats}
    return (
        1 <= len(seats) <= VALIDATORS_MAX
        and len(session_keys) == len(seats)
        and all(new_seat.weight > 0 for new_seat in seats)
    )


def seat(stake_ledger: StakeLedger, first_epoch: int, elected_seats: Seats) -> None:
    """Store a set from epoch `first_epoch` on. Its keys belong to their stashes for ever."""
    stake_ledger.validator_sets[first_epoch] = elected_seats
    stake_ledger.validator_set_starts.set((*stake_ledger.validator_set_starts.get(), first_epoch))
    for elected_seat in elected_seats:
        if not stake_ledger.past_session_keys[elected_seat.session_key]:
            stake_ledger.past_session_keys[elected_seat.session_key] = True


def _note_newcomers(stake_ledger: StakeLedger, first_epoch: int, current_set: Seats, next_set: Seats) -> None:
    sitting_stashes = {set_member.stash for set_member in current_set}
    for set_member in next_set:
        if set_member.stash not in sitting_stashes:
            stake_ledger.active_since[set_member.stash] = first_epoch


def _note_leavers(
    stake_ledger: StakeLedger, first_epoch: int, current_set: Seats, next_set: Seats, contest: Contest
) -> None:
    """Record since when a member stays only because it must: the longest wait leaves first."""
    staying_stashes = {set_member.stash for set_member in next_set if set_member.stash not in contest.ranked}
    for set_member in current_set:
        if set_member.stash not in staying_stashes:
            del stake_ledger.retiring_since[set_member.stash]
        elif not stake_ledger.retiring_since[set_member.stash]:
            stake_ledger.retiring_since[set_member.stash] = first_epoch


def _note_waiters(stake_ledger: StakeLedger, first_epoch: int, next_set: Seats, contest: Contest) -> None:
    """Record since when an elected candidate has had no room: the longest wait joins first."""
    waiting_since = {
        waiting_validator.stash: waiting_validator.since for waiting_validator in stake_ledger.waiting_validators.get()
    }
    sitting_stashes = {set_member.stash for set_member in next_set}
    elected_stashes = list(contest.ranked)[: stake_ledger.validator_count]
    stake_ledger.waiting_validators.set(
        tuple(
            Waiter(stash, waiting_since.get(stash, first_epoch))
            for stash in elected_stashes
            if stash not in sitting_stashes
        )
    )


def _jail_the_absent(stake_ledger: StakeLedger, current_set: tuple[Seat, ...], ended_epoch: int) -> None:
    """Jail members without a sign of life for too long, while those in jail weigh less than a third of the set.

    The longest absence goes first, so that a member that is just too late is not jailed in place of another.
    """
    total_weight = sum(set_member.weight for set_member in current_set)
    jailed_weight = sum(set_member.weight for set_member in current_set if set_member.stash in stake_ledger.jailed)
    last_signs = {
        set_member.stash: max(stake_ledger.last_online[set_member.stash], stake_ledger.active_since[set_member.stash])
        for set_member in current_set
    }
    # Equal absences are in order of stash, so that all nodes jail the same members.
    for set_member in sorted(current_set, key=lambda set_member: (last_signs[set_member.stash], set_member.stash)):
        last_sign = last_signs[set_member.stash]
        is_absent = ended_epoch + 1 - last_sign >= stake_ledger.jail_epochs
        if (
            not is_absent
            or set_member.stash in stake_ledger.jailed
            or JAIL_SHARE * (jailed_weight + set_member.weight) >= total_weight
        ):
            continue
        jailed_weight += set_member.weight
        current_era = stake_ledger.current_era.get()
        stake_ledger.jailed[set_member.stash] = current_era
        stake_ledger.emit(Jailed(set_member.stash, current_era))


def _note_overhangs(stake_ledger: StakeLedger, first_epoch: int, elected_seats: tuple[Seat, ...]) -> None:
    """Record seats that weigh more than the stake behind them. Their stake of that time answers as long as the seat."""
    first_era = first_epoch // stake_ledger.era_epochs
    for elected_seat in elected_seats:
        # An offender's stake has lost all it can lose, so nobody needs to wait for its seat to end.
        if (
            elected_seat.weight <= stake_ledger.behind(elected_seat.stash)
            or elected_seat.stash in stake_ledger.tombstones
        ):
            continue
        overhangs = stake_ledger.excess_weights[elected_seat.stash]
        if overhangs and overhangs[-1].last == first_era - 1:
            overhangs = (*overhangs[:-1], Overhang(overhangs[-1].since, overhangs[-1].first, first_era))
        else:
            # The stake behind its seat of the previous era was there when that seat was elected.
            overhangs = (
                *overhangs,
                Overhang(stake_ledger.answering_era(elected_seat.stash, first_era - 1), first_era, first_era),
            )
        stake_ledger.excess_weights[elected_seat.stash] = overhangs[-OVERHANGS_MAX:]


def _forget(stake_ledger: StakeLedger, current_epoch: int) -> None:
    """Drop sets whose epochs are too old for evidence."""
    set_starts = stake_ledger.validator_set_starts.get()
    oldest_epoch = current_epoch - stake_ledger.evidence_epochs - 1
    while len(set_starts) > 1 and set_starts[1] <= oldest_epoch:
        del stake_ledger.validator_sets[set_starts[0]]
        set_starts = set_starts[1:]
    stake_ledger.validator_set_starts.set(set_starts)
