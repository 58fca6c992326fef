"""The churn limit: the most that one election may change the active set, as a function of weights alone.

From the old set, without its tombstoned members, leavers leave and joiners join, in order, within these bounds:

* Leavers weigh at most an eighth of the old set together, or are a single member.
* Joiners weigh at most an eighth of the old set together, or are a single member. They also weigh at most a quarter of
  the new set, for which a single joiner may have to weigh less than its stake.
* A staying member weighs its stake, but at most nine eighths of its previous weight.
* A member that should leave and may not yet keeps its seat and its weight.
* At least four members remain, or as many as there were.

New members therefore cannot block the next set. Unless a single heavy member leaves, seven eighths of each set are in
the next one.

Invariant: the result is the same on every node. Tombstoned members stay only if nobody else is left.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType

SHARE = 8  # divides the old set's weight: the most that may leave, and join
COMERS_SHARE = 3  # divides the staying weight: the most of the joiners, a quarter of the new set
SEATS_LEAST = 4  # a smaller set tolerates no failed member

Weights = Mapping[bytes, int]
"""Weights by stash, positive."""


def cut(
    old_weights: Weights,
    ranked_stakes: Weights,
    seat_count: int,
    tombstoned: Collection[bytes] = (),
    leaving_since: Mapping[bytes, int] = MappingProxyType({}),
    waiting: Mapping[bytes, int] = MappingProxyType({}),
) -> dict[bytes, int]:
    """Return the next set, from the active set and all candidates, best first, of which `seat_count` are elected.

    Members that do not stand for election (chilled, jailed, absent) leave first. Among them the longest wait goes
    first, counted from the epoch in `leaving_since`, so that others that join and leave repeatedly cannot keep a member
    in. Without a wait the heaviest goes first, because nobody does its work meanwhile. Then out-ranked members leave,
    the last-ranked first.

    Joiners with the longest wait for room come first, counted from the epoch in `waiting`, then the best-ranked.
    """
    base = {stash: weight for stash, weight in old_weights.items() if stash not in tombstoned}
    # All members are tombstoned: without the old set the chain would stop.
    if not base:
        return dict(old_weights)
    candidates = {stash: stake for stash, stake in ranked_stakes.items() if stash not in tombstoned}
    elected = list(candidates)[:seat_count]
    leavers = _in_order_of_leaving(base, list(candidates), set(elected), leaving_since)
    leaver_count = _how_many((base[stash] for stash in leavers), sum(base.values()) // SHARE)
    while True:
        leaving_members = set(leavers[:leaver_count])
        next_weights = {
            stash: _weight(weight, candidates[stash]) if stash in elected else weight
            for stash, weight in base.items()
            if stash not in leaving_members
        }
        joiners = {stash: candidates[stash] for stash in _in_order_of_coming(base, elected, waiting)}
        next_weights |= _come(joiners, next_weights, sum(base.values()), seat_count)
        if leaver_count == 0 or len(next_weights) >= min(SEATS_LEAST, len(base)):
            return next_weights
        # Too few would remain. One leaver fewer, until enough do.
        leaver_count -= 1


def _in_order_of_leaving(
    base: Weights,
    ranked_stashes: Sequence[bytes],
    elected: Collection[bytes],
    leaving_since: Mapping[bytes, int],
) -> list[bytes]:
    def turn(stash: bytes) -> tuple[bool, int, int, bytes]:
        return stash not in leaving_since, leaving_since.get(stash, 0), -base[stash], stash

    absent = sorted((stash for stash in base if stash not in ranked_stashes), key=turn)
    return absent + [stash for stash in reversed(ranked_stashes) if stash in base and stash not in elected]


def _in_order_of_coming(base: Weights, elected: Sequence[bytes], waiting: Mapping[bytes, int]) -> list[bytes]:
    joiners = [stash for stash in elected if stash not in base]
    # The sort is stable, so equal waits keep their rank.
    return sorted(joiners, key=lambda stash: (stash not in waiting, waiting.get(stash, 0)))


def _how_many(weights: Iterable[int], room_weight: int) -> int:
    """Return the number of first weights that add up to at most `room_weight`, and one at least."""
    first_count = total_weight = 0
    for weight in weights:
        total_weight += weight
        if first_count and total_weight > room_weight:
            break
        first_count += 1
    return first_count


def _weight(old_weight: int, new_stake: int) -> int:
    """Return the weight of a staying member. New stake raises it slowly, so that it cannot decide at once."""
    return min(new_stake, old_weight + old_weight // SHARE)


def _come(joiner_stakes: Weights, staying_weights: Weights, old_weight: int, seat_count: int) -> dict[bytes, int]:
    """Return the elected joiners that may enter, in their order, with their weights."""
    weight_max = sum(staying_weights.values()) // COMERS_SHARE
    joiner_count = min(
        _how_many(joiner_stakes.values(), min(old_weight // SHARE, weight_max)),
        max(0, seat_count - len(staying_weights)),
    )
    entering_weights = {stash: min(joiner_stakes[stash], weight_max) for stash in list(joiner_stakes)[:joiner_count]}
    # A seat without weight would make the set invalid.
    return {stash: weight for stash, weight in entering_weights.items() if weight > 0}
