"""How much one election may change the set in office: the cut, a function of weights alone.

From the old set, without the tombstoned, leavers go and joiners come, in order, as far as the bounds let them:

- those who go weigh at most an eighth of the old set, or are one; those who come the same, and at most a quarter of the
  new set together, for which one that comes alone may have to weigh less than its stake
- whoever stays weighs its stake, and at most nine eighths of what it weighed
- who should leave and may not yet keeps its seat and its weight
- never fewer than four sit, or as many as did

So whoever has just entered cannot stop the next set, and, but where one heavy member leaves, seven eighths of each set
are in the next one.

Always: the same on every node; tombstoned members sit on only where nobody else is left.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType

SHARE = 8  # one part in so many of the old set may go, and come
COMERS_SHARE = 3  # who comes weighs at most one part in so many of those who stay: a quarter of the new set
SEATS_LEAST = 4  # below them no member may fail

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
    """The next set, from the one in office and all candidates, best first, of whom `seats` are elected.

    Whoever of the old set is no candidate (chilled, jailed, absent) goes first: who has waited for that since the first
    epoch that `leaving` names before who waits for a shorter time, so that nobody is kept by others who come and leave
    again and again; of those who do not wait yet the heaviest, because nobody else does what they leave undone. Then
    who was out-ranked, the last one first. Of those who come, who has waited for room since the first epoch that
    `waiting` names goes first, then the best of those who do not wait yet.
    """
    base = {stash: weight for stash, weight in old.items() if stash not in tombstoned}
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
    return sorted(comers, key=lambda stash: (stash not in waiting, waiting.get(stash, 0)))


def _how_many(weights: Iterable[int], room: int) -> int:
    """How many of them, in order, weigh no more than `room` together; one always may."""
    count = total = 0
    for weight in weights:
        total += weight
        if count and total > room:
            break
        count += 1
    return count


def _weight(old: int, stake: int) -> int:
    """What a member that stays weighs: stake that arrives at once does not decide at once."""
    return min(stake, old + old // SHARE)


def _come(comers: Weights, staying: Weights, old_total: int, seats: int) -> dict[bytes, int]:
    """Those of the elected who may enter, in their order, with their weights."""
    least = sum(staying.values()) // COMERS_SHARE
    count = min(_how_many(comers.values(), min(old_total // SHARE, least)), max(0, seats - len(staying)))
    entering = {stash: min(comers[stash], least) for stash in list(comers)[:count]}
    return {stash: weight for stash, weight in entering.items() if weight > 0}
