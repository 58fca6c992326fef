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


def elect(stake: StakeLedger, first_epoch: int) -> None:
    """Elect the set from epoch `first_epoch` on, for an era, in the first block of the previous epoch."""
    current_set = stake.validators(first_epoch - 1)
    next_set = current_set
    if stake.elections_enabled:
        # First, so that newly jailed members do not stand for election.
        _jail_the_absent(stake, current_set, first_epoch - 2)
        contest = _contest(stake, first_epoch - 2)
        next_set = _elected(stake, current_set, contest)
        _note_leavers(stake, first_epoch, current_set, next_set, contest)
        _note_waiters(stake, first_epoch, next_set, contest)
    if next_set != current_set:
        _note_newcomers(stake, first_epoch, current_set, next_set)
        seat(stake, first_epoch, next_set)
    stake.last_elected_epoch.set(first_epoch + stake.era_epochs - 1)
    stake.emit(SetElected(first_epoch, len(next_set), sum(set_member.weight for set_member in next_set)))
    _note_overhangs(stake, first_epoch, next_set)
    _forget(stake, first_epoch - 1)


def _elected(stake: StakeLedger, current_set: Seats, contest: Contest) -> Seats:
    """Return the set after `current_set`, from the eligible candidates: the same set if they make no valid one."""
    next_set = _next_set(stake, current_set, _cut(stake, current_set, contest))
    return next_set if _is_set(next_set) else current_set


def outlook(stake: StakeLedger, ended_epoch: int) -> tuple[Chance, ...]:
    """Return the result of an election held now, for each candidate and member, by rank, ineligible ones last.

    `ended_epoch` is the epoch in which they must have been on line.
    """
    current_set = stake.validators(stake.last_elected_epoch.get())
    contest = _contest(stake, ended_epoch)
    next_weights = _cut(stake, current_set, contest)
    sitting = {old_seat.stash for old_seat in current_set}
    elected = set(list(contest.ranked)[: stake.validator_count])
    all_stashes = [
        *contest.ranked,
        *contest.unable,
        *(old_seat.stash for old_seat in current_set if old_seat.stash not in stake.candidates),
    ]
    return tuple(
        Chance(
            stash,
            stake.behind(stash),
            next_weights.get(stash, 0),
            _why(stash, contest, next_weights, sitting, elected),
        )
        for stash in all_stashes
    )


def _why(
    stash: bytes,
    contest: Contest,
    next_weights: Mapping[bytes, int],
    sitting: set[bytes],
    elected: set[bytes],
) -> Why:
    if stash in elected:
        return Why.ELECTED if stash in next_weights else Why.WAITS
    if stash in contest.unable:
        return contest.unable[stash]
    if stash in next_weights and stash in sitting:
        return Why.MUST_STAY
    return Why.OUT_RANKED if stash in contest.ranked else Why.NOT_OFFERED


def _contest(stake: StakeLedger, ended_epoch: int) -> Contest:
    reasons_by_stash = {stash: why_not(stake, stash, ended_epoch) for stash, _ in stake.candidates.items()}
    able_stakes = [(stash, stake.behind(stash)) for stash, reason in reasons_by_stash.items() if reason is None]
    unable_reasons = {stash: reason for stash, reason in sorted(reasons_by_stash.items()) if reason is not None}
    return Contest(dict(by_stake(able_stakes)), unable_reasons)


def why_not(stake: StakeLedger, stash: bytes, ended_epoch: int) -> Why | None:
    """Return why a stash does not stand for election, None if it does.

    `ended_epoch` is the epoch in which it must have been on line.
    """
    if stake.candidates[stash] is None:
        return Why.NOT_OFFERED
    if stash in stake.tombstones:
        return Why.TOMBSTONED
    if stash in stake.jailed:
        return Why.JAILED
    if not stake.was_on_line(stash, ended_epoch):
        return Why.OFF_LINE
    return None if stake.is_candidate(stash) else Why.TOO_SMALL


def _cut(stake: StakeLedger, current_set: tuple[Seat, ...], contest: Contest) -> dict[bytes, int]:
    old_weights = {old_seat.stash: old_seat.weight for old_seat in current_set}
    tombstoned = [stash for stash in old_weights if stash in stake.tombstones]
    leaving_since = {stash: retiring_epoch for stash in old_weights if (retiring_epoch := stake.retiring_since[stash])}
    waiting = {waiter.stash: waiter.since for waiter in stake.waiting_validators.get()}
    return cut(old_weights, contest.ranked, stake.validator_count, tombstoned, leaving_since, waiting)


def _next_set(stake: StakeLedger, current_set: tuple[Seat, ...], next_weights: Mapping[bytes, int]) -> tuple[Seat, ...]:
    """Return the seats with the registered keys. A member that is no candidate and must stay keeps its old keys."""
    old_seats = {old_seat.stash: old_seat for old_seat in current_set}
    new_seats = []
    # By ascending stash, like every stored set: bits of a certificate count places in it.
    for stash, seat_weight in sorted(next_weights.items()):
        candidate = stake.candidates[stash]
        if candidate is not None:
            new_seats.append(Seat(stash, candidate.session_key, candidate.vrf_key, seat_weight))
        else:
            new_seats.append(Seat(stash, old_seats[stash].session_key, old_seats[stash].vrf_key, seat_weight))
    return tuple(new_seats)


def _is_set(seats: tuple[Seat, ...]) -> bool:
    session_keys = {seat.session_key for seat in seats}
    return (
        1 <= len(seats) <= VALIDATORS_MAX and len(session_keys) == len(seats) and all(seat.weight > 0 for seat in seats)
    )


def seat(stake: StakeLedger, first_epoch: int, elected_seats: Seats) -> None:
    """Store a set from epoch `first_epoch` on. Its keys belong to their stashes for ever."""
    stake.validator_sets[first_epoch] = elected_seats
    stake.validator_set_starts.set((*stake.validator_set_starts.get(), first_epoch))
    for elected_seat in elected_seats:
        if not stake.past_session_keys[elected_seat.session_key]:
            stake.past_session_keys[elected_seat.session_key] = True


def _note_newcomers(stake: StakeLedger, first_epoch: int, current_set: Seats, next_set: Seats) -> None:
    sitting = {seat.stash for seat in current_set}
    for seat in next_set:
        if seat.stash not in sitting:
            stake.active_since[seat.stash] = first_epoch


def _note_leavers(stake: StakeLedger, first_epoch: int, current_set: Seats, next_set: Seats, contest: Contest) -> None:
    """Record since when a member stays only because it must: the longest wait leaves first."""
    staying_stashes = {seat.stash for seat in next_set if seat.stash not in contest.ranked}
    for seat in current_set:
        if seat.stash not in staying_stashes:
            del stake.retiring_since[seat.stash]
        elif not stake.retiring_since[seat.stash]:
            stake.retiring_since[seat.stash] = first_epoch


def _note_waiters(stake: StakeLedger, first_epoch: int, next_set: Seats, contest: Contest) -> None:
    """Record since when an elected candidate has had no room: the longest wait joins first."""
    waiting = {waiter.stash: waiter.since for waiter in stake.waiting_validators.get()}
    sitting = {seat.stash for seat in next_set}
    elected = list(contest.ranked)[: stake.validator_count]
    stake.waiting_validators.set(
        tuple(Waiter(stash, waiting.get(stash, first_epoch)) for stash in elected if stash not in sitting)
    )


def _jail_the_absent(stake: StakeLedger, current_set: tuple[Seat, ...], ended_epoch: int) -> None:
    """Jail members without a sign of life for too long, while those in jail weigh less than a third of the set.

    The longest absence goes first, so that a member that is just too late is not jailed in place of another.
    """
    total_weight = sum(seat.weight for seat in current_set)
    jailed_weight = sum(seat.weight for seat in current_set if seat.stash in stake.jailed)
    last_signs = {
        seat.stash: max(stake.last_online[seat.stash], stake.active_since[seat.stash]) for seat in current_set
    }
    # Equal absences are in order of stash, so that all nodes jail the same members.
    for seat in sorted(current_set, key=lambda seat: (last_signs[seat.stash], seat.stash)):
        last_sign = last_signs[seat.stash]
        is_absent = ended_epoch + 1 - last_sign >= stake.jail_epochs
        if not is_absent or seat.stash in stake.jailed or JAIL_SHARE * (jailed_weight + seat.weight) >= total_weight:
            continue
        jailed_weight += seat.weight
        current_era = stake.current_era.get()
        stake.jailed[seat.stash] = current_era
        stake.emit(Jailed(seat.stash, current_era))


def _note_overhangs(stake: StakeLedger, first_epoch: int, elected_seats: tuple[Seat, ...]) -> None:
    """Record seats that weigh more than the stake behind them. Their stake of that time answers as long as the seat."""
    first_era = first_epoch // stake.era_epochs
    for seat in elected_seats:
        # An offender's stake has lost all it can lose, so nobody needs to wait for its seat to end.
        if seat.weight <= stake.behind(seat.stash) or seat.stash in stake.tombstones:
            continue
        overhangs = stake.excess_weights[seat.stash]
        if overhangs and overhangs[-1].last == first_era - 1:
            overhangs = (*overhangs[:-1], Overhang(overhangs[-1].since, overhangs[-1].first, first_era))
        else:
            # The stake behind its seat of the previous era was there when that seat was elected.
            overhangs = (
                *overhangs,
                Overhang(stake.answering_era(seat.stash, first_era - 1), first_era, first_era),
            )
        stake.excess_weights[seat.stash] = overhangs[-OVERHANGS_MAX:]


def _forget(stake: StakeLedger, current_epoch: int) -> None:
    """Drop sets whose epochs are too old for evidence."""
    set_starts = stake.validator_set_starts.get()
    oldest_epoch = current_epoch - stake.evidence_epochs - 1
    while len(set_starts) > 1 and set_starts[1] <= oldest_epoch:
        del stake.validator_sets[set_starts[0]]
        set_starts = set_starts[1:]
    stake.validator_set_starts.set(set_starts)
