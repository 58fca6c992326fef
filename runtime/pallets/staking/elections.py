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


def elect(stake: StakeLedger, first: int) -> None:
    """Elect the set from epoch `first` on, for an era, in the first block of the previous epoch."""
    old = stake.validators(first - 1)
    following = old
    if stake.elections_enabled:
        # First, so that newly jailed members do not stand for election.
        _jail_the_absent(stake, old, first - 2)
        contest = _contest(stake, first - 2)
        following = _elected(stake, old, contest)
        _note_leavers(stake, first, old, following, contest)
        _note_waiters(stake, first, following, contest)
    if following != old:
        _note_newcomers(stake, first, old, following)
        seat(stake, first, following)
    stake.last_elected_epoch.set(first + stake.era_epochs - 1)
    stake.emit(SetElected(first, len(following), sum(each.weight for each in following)))
    _note_overhangs(stake, first, following)
    _forget(stake, first - 1)


def _elected(stake: StakeLedger, old: Seats, contest: Contest) -> Seats:
    """Return the set after `old`, from the eligible candidates. Return `old` if they make no valid set."""
    following = _next_set(stake, old, _cut(stake, old, contest))
    return following if _is_set(following) else old


def outlook(stake: StakeLedger, ended: int) -> tuple[Chance, ...]:
    """Return the result of an election held now, for each candidate and member, by rank, ineligible ones last.

    `ended` is the epoch in which they must have been on line.
    """
    old = stake.validators(stake.last_elected_epoch.get())
    contest = _contest(stake, ended)
    result = _cut(stake, old, contest)
    sitting = {seat.stash for seat in old}
    wanted = set(list(contest.ranked)[: stake.validator_count])
    stashes = [*contest.ranked, *contest.unable, *(seat.stash for seat in old if seat.stash not in stake.candidates)]
    return tuple(
        Chance(stash, stake.behind(stash), result.get(stash, 0), _why(stash, contest, result, sitting, wanted))
        for stash in stashes
    )


def _why(stash: bytes, contest: Contest, result: Mapping[bytes, int], sitting: set[bytes], wanted: set[bytes]) -> Why:
    if stash in wanted:
        return Why.ELECTED if stash in result else Why.WAITS
    if stash in contest.unable:
        return contest.unable[stash]
    if stash in result and stash in sitting:
        return Why.MUST_STAY
    return Why.OUT_RANKED if stash in contest.ranked else Why.NOT_OFFERED


def _contest(stake: StakeLedger, ended: int) -> Contest:
    reasons = {stash: why_not(stake, stash, ended) for stash, _ in stake.candidates.items()}
    able = [(stash, stake.behind(stash)) for stash, why in reasons.items() if why is None]
    unable = {stash: why for stash, why in sorted(reasons.items()) if why is not None}
    return Contest(dict(by_stake(able)), unable)


def why_not(stake: StakeLedger, stash: bytes, ended: int) -> Why | None:
    """Return why a stash does not stand for election, None if it does.

    `ended` is the epoch in which it must have been on line.
    """
    if stake.candidates[stash] is None:
        return Why.NOT_OFFERED
    if stash in stake.tombstones:
        return Why.TOMBSTONED
    if stash in stake.jailed:
        return Why.JAILED
    if not stake.was_on_line(stash, ended):
        return Why.OFF_LINE
    return None if stake.is_candidate(stash) else Why.TOO_SMALL


def _cut(stake: StakeLedger, old: tuple[Seat, ...], contest: Contest) -> dict[bytes, int]:
    weights = {seat.stash: seat.weight for seat in old}
    tombstoned = [stash for stash in weights if stash in stake.tombstones]
    leaving = {stash: since for stash in weights if (since := stake.retiring_since[stash])}
    waiting = {waiter.stash: waiter.since for waiter in stake.waiting_validators.get()}
    return cut(weights, contest.ranked, stake.validator_count, tombstoned, leaving, waiting)


def _next_set(stake: StakeLedger, old: tuple[Seat, ...], weights: Mapping[bytes, int]) -> tuple[Seat, ...]:
    """Return the seats with the registered keys. A member that is no candidate and must stay keeps its old keys."""
    before = {seat.stash: seat for seat in old}
    seats = []
    for stash, weight in sorted(weights.items()):
        candidate = stake.candidates[stash]
        if candidate is not None:
            seats.append(Seat(stash, candidate.session_key, candidate.vrf_key, weight))
        else:
            seats.append(Seat(stash, before[stash].session_key, before[stash].vrf_key, weight))
    return tuple(seats)


def _is_set(seats: tuple[Seat, ...]) -> bool:
    keys = {seat.session_key for seat in seats}
    return 1 <= len(seats) <= VALIDATORS_MAX and len(keys) == len(seats) and all(seat.weight > 0 for seat in seats)


def seat(stake: StakeLedger, first: int, seats: Seats) -> None:
    """Store a set from epoch `first` on. Its keys belong to their stashes for ever."""
    stake.validator_sets[first] = seats
    stake.validator_set_starts.set((*stake.validator_set_starts.get(), first))
    for each in seats:
        if not stake.past_session_keys[each.session_key]:
            stake.past_session_keys[each.session_key] = True


def _note_newcomers(stake: StakeLedger, first: int, old: Seats, following: Seats) -> None:
    sitting = {each.stash for each in old}
    for each in following:
        if each.stash not in sitting:
            stake.active_since[each.stash] = first


def _note_leavers(stake: StakeLedger, first: int, old: Seats, following: Seats, contest: Contest) -> None:
    """Record since when a member stays only because it must: the longest wait leaves first."""
    staying = {each.stash for each in following if each.stash not in contest.ranked}
    for each in old:
        if each.stash not in staying:
            del stake.retiring_since[each.stash]
        elif not stake.retiring_since[each.stash]:
            stake.retiring_since[each.stash] = first


def _note_waiters(stake: StakeLedger, first: int, following: Seats, contest: Contest) -> None:
    """Record since when an elected candidate has had no room: the longest wait joins first."""
    since = {waiter.stash: waiter.since for waiter in stake.waiting_validators.get()}
    sitting = {each.stash for each in following}
    elected = list(contest.ranked)[: stake.validator_count]
    stake.waiting_validators.set(
        tuple(Waiter(stash, since.get(stash, first)) for stash in elected if stash not in sitting)
    )


def _jail_the_absent(stake: StakeLedger, old: tuple[Seat, ...], ended: int) -> None:
    """Jail members without a sign of life for too long, while those in jail weigh less than a third of the set.

    The longest absence goes first, so that a member that is just too late is not jailed in place of another.
    """
    total = sum(each.weight for each in old)
    inside = sum(each.weight for each in old if each.stash in stake.jailed)
    signs = {each.stash: max(stake.last_online[each.stash], stake.active_since[each.stash]) for each in old}
    # Equal absences are in order of stash, so that all nodes jail the same members.
    for each in sorted(old, key=lambda each: (signs[each.stash], each.stash)):
        last_sign = signs[each.stash]
        is_absent = ended + 1 - last_sign >= stake.jail_epochs
        if not is_absent or each.stash in stake.jailed or JAIL_SHARE * (inside + each.weight) >= total:
            continue
        inside += each.weight
        era = stake.current_era.get()
        stake.jailed[each.stash] = era
        stake.emit(Jailed(each.stash, era))


def _note_overhangs(stake: StakeLedger, first: int, seats: tuple[Seat, ...]) -> None:
    """Record seats that weigh more than the stake behind them. Their stake of that time answers as long as the seat."""
    era = first // stake.era_epochs
    for each in seats:
        # An offender's stake has lost all it can lose, so nobody needs to wait for its seat to end.
        if each.weight <= stake.behind(each.stash) or each.stash in stake.tombstones:
            continue
        kept = stake.excess_weights[each.stash]
        if kept and kept[-1].last == era - 1:
            kept = (*kept[:-1], Overhang(kept[-1].since, kept[-1].first, era))
        else:
            # The stake behind its seat of the previous era was there when that seat was elected.
            kept = (*kept, Overhang(stake.answering_era(each.stash, era - 1), era, era))
        stake.excess_weights[each.stash] = kept[-OVERHANGS_MAX:]


def _forget(stake: StakeLedger, epoch: int) -> None:
    """Drop sets whose epochs are too old for evidence."""
    starts = stake.validator_set_starts.get()
    oldest = epoch - stake.evidence_epochs - 1
    while len(starts) > 1 and starts[1] <= oldest:
        del stake.validator_sets[starts[0]]
        starts = starts[1:]
    stake.validator_set_starts.set(starts)
