"""The draw of a bench, and its decision: pure rules over the beacon, weights and opinions.

There are three kinds of bench: a pair audits, a committee of three is the first to judge a dispute, a court is the
last.

Invariants: a draw depends on the beacon, the case, the bench and the eligible validators, never on their order. No
bench decides by one opinion. A court decides by more than two thirds of the given votes, which are at least half of all
votes.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from enum import IntEnum
from itertools import islice

from gpu_tasks.market.courts.opinions import Answered, Unanswerable
from runtime.cryptography.draw import lottery
from runtime.cryptography.hashing import blake2_256

AUDIT_DELAYS = (2, 3, 4, 5)
"""A result revealed at h is audited if one of the beacons of h + these orders it. So one skipped slot saves no liar."""
COURT_MIN = 3
"""The least members of a court."""
AGREEING = 2
"""The number of equal opinions that decides a committee."""
TWO_THIRDS, HALF = (2, 3), (1, 2)
"""Shares of a court's given votes: more than two thirds decide. Without that, more than half keep the settled result.
"""
PPM = 1_000_000


class BenchKind(IntEnum):
    """The kind of a case's bench."""

    PAIR = 0
    COMMITTEE = 1
    COURT = 2


SIZES = {BenchKind.PAIR: 2, BenchKind.COMMITTEE: 3}


def is_audited(values: Sequence[bytes], case: bytes, rate_ppm: int) -> bool:
    """Return True if one of the beacon's four values orders an audit of the case, each with a quarter of the rate."""
    ticket_max = rate_ppm * 2**256
    return any(_ticket(value, case) * len(AUDIT_DELAYS) * PPM < ticket_max for value in values)


def draw_bench(
    seed: bytes,
    case: bytes,
    kind: BenchKind,
    entrants: Sequence[tuple[bytes, int]],
    may_sit: Callable[[bytes], bool],
    court_seats: int,
) -> list[tuple[bytes, int]]:
    """Return the members in the order drawn, each with its votes: fewer than `SIZES` if too few may sit.

    If at most `court_seats` validators may sit, the court is all of them, voting by weight. Otherwise it is that many,
    drawn by weight, with one vote each. All validators enter the lottery, and the first eligible ones are drawn. The
    result is that of a lottery among the eligible ones, but only a few of a hundred validators are looked at.
    """
    order = lottery(seed, b"bench" + case + bytes((kind,)), entrants, len(entrants))
    first = (entrants[place] for place in order if may_sit(entrants[place][0]))
    if kind is not BenchKind.COURT:
        return [(name, 1) for name, _ in islice(first, SIZES[kind])]
    found = list(islice(first, court_seats + 1))
    if len(found) <= court_seats:
        return sorted(found)
    return [(name, 1) for name, _ in found[:court_seats]]


def committee_opinion(given: Sequence[Answered | Unanswerable | None]) -> Answered | Unanswerable | None:
    """Return the opinion that two of up to three judges share, or None."""
    spoken = [opinion for opinion in given if opinion is not None]
    return next((opinion for opinion in spoken if spoken.count(opinion) >= AGREEING), None)


def joint_opinion(given: Sequence[Answered | Unanswerable | None]) -> Answered | Unanswerable | None:
    """Return the opinion of more than half of all these judges, silent ones counted, or None."""
    return next((said for said in given if said is not None and 2 * given.count(said) > len(given)), None)


def is_beyond_a_third(judges: Collection[bytes], entrants: Iterable[tuple[bytes, int]]) -> bool:
    """Return True if these judges weigh more than a third of the active set, so not all belong to one coalition."""
    entrants = list(entrants)
    return 3 * weight_of(judges, entrants) > sum(weight for _, weight in entrants)


def weight_of(judges: Iterable[bytes], entrants: Iterable[tuple[bytes, int]]) -> int:
    """Return the weight of these validators in the active set."""
    weights = dict(entrants)
    return sum(weights.get(judge, 0) for judge in judges)


def court_opinion(
    votes: Sequence[tuple[Answered | Unanswerable | None, int]], *, more_than: tuple[int, int] = TWO_THIRDS
) -> Answered | Unanswerable | None:
    """Return the decision of a court by the votes of its members, or None.

    It needs more than the part `more_than` of the given votes, which must be at least half of all.
    """
    given = sum(count for opinion, count in votes if opinion is not None)
    if 2 * given < sum(count for _, count in votes):
        return None
    parts, of = more_than
    for opinion, _ in votes:
        agreeing = sum(count for other, count in votes if other == opinion)
        if opinion is not None and of * agreeing > parts * given:
            return opinion
    return None


def doubted_places(votes: Sequence[tuple[int | None, int]], places: int) -> tuple[int, ...]:
    """Return the places of earlier judges whose probes a court finds wrong, by the same majority.

    In a vote, None stands for a silent member.
    """
    given = sum(count for doubted, count in votes if doubted is not None)
    if not given or 2 * given < sum(count for _, count in votes):
        return ()
    found = []
    for place in range(places):
        doubting = sum(count for doubted, count in votes if doubted is not None and doubted >> place & 1)
        if 3 * doubting > 2 * given:
            found.append(place)
    return tuple(found)


def _ticket(value: bytes, case: bytes) -> int:
    return int.from_bytes(blake2_256(b"ogpu/audit" + value + case), "big")
