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
    old: Weights,
    ranked: Weights,
    seats: int,
    tombstoned: Collection[bytes] = (),
    leaving: Mapping[bytes, int] = MappingProxyType({}),
    waiting: Mapping[bytes, int] = MappingProxyType({}),
) -> dict[bytes, int]:
    """Return the next set, from the active set and all candidates, best first, of which `seats` are elected.

    Members that do not stand for election (chilled, jailed, absent) leave first. Among them the longest wait goes
    first, counted from the epoch in `leaving`, so that others that join and leave repeatedly cannot keep a member in.
    Without a wait the heaviest goes first, because nobody does its work meanwhile. Then out-ranked members leave, the
    last-ranked first.

    Joiners with the longest wait for room come first, counted from the epoch in `waiting`, then the best-ranked.
    """
    base = {stash: weight for stash, weight in old.items() if stash not in tombstoned}
    # All members are tombstoned: without the old set the chain would stop.
    if not base:
        return dict(old)
    candidates = {stash: stake for stash, stake in ranked.items() if stash not in tombstoned}
    elected = list(candidates)[:seats]
    leavers = _in_order_of_leaving(base, list(candidates), set(elected), leaving)
    count = _how_many((base[stash] for stash in leavers), sum(base.values()) // SHARE)
    while True:
        gone = set(leavers[:count])
        following = {
            stash: _weight(weight, candidates[stash]) if stash in elected else weight
            for stash, weight in base.items()
            if stash not in gone
        }
        comers = {stash: candidates[stash] for stash in _in_order_of_coming(base, elected, waiting)}
        following |= _come(comers, following, sum(base.values()), seats)
        if count == 0 or len(following) >= min(SEATS_LEAST, len(base)):
            return following
        # Too few would remain. One leaver fewer, until enough do.
        count -= 1


def _in_order_of_leaving(
    base: Weights, ranked: Sequence[bytes], elected: Collection[bytes], leaving: Mapping[bytes, int]
) -> list[bytes]:
    def turn(stash: bytes) -> tuple[bool, int, int, bytes]:
        return stash not in leaving, leaving.get(stash, 0), -base[stash], stash

    absent = sorted((stash for stash in base if stash not in ranked), key=turn)
    return absent + [stash for stash in reversed(ranked) if stash in base and stash not in elected]


def _in_order_of_coming(base: Weights, elected: Sequence[bytes], waiting: Mapping[bytes, int]) -> list[bytes]:
    comers = [stash for stash in elected if stash not in base]
    # The sort is stable, so equal waits keep their rank.
    return sorted(comers, key=lambda stash: (stash not in waiting, waiting.get(stash, 0)))


def _how_many(weights: Iterable[int], room: int) -> int:
    """Return the number of first weights that add up to at most `room`, and one at least."""
    count = total = 0
    for weight in weights:
        total += weight
        if count and total > room:
            break
        count += 1
    return count


def _weight(old: int, stake: int) -> int:
    """Return the weight of a staying member. New stake raises it slowly, so that it cannot decide at once."""
    return min(stake, old + old // SHARE)


def _come(comers: Weights, staying: Weights, old_total: int, seats: int) -> dict[bytes, int]:
    """Return the elected joiners that may enter, in their order, with their weights."""
    least = sum(staying.values()) // COMERS_SHARE
    count = min(_how_many(comers.values(), min(old_total // SHARE, least)), max(0, seats - len(staying)))
    entering = {stash: min(comers[stash], least) for stash in list(comers)[:count]}
    # A seat without weight would make the set invalid.
    return {stash: weight for stash, weight in entering.items() if weight > 0}
