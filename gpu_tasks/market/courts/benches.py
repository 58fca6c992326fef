"""Who sits, and when a bench has decided: pure rules over the beacon, weights and opinions.

Three kinds of bench: a pair audits, a committee of three is the first to judge a dispute, a court is the last. Always:
a draw depends on the beacon, the case, the bench and who is eligible, never on their order; no bench decides by one
opinion; a court needs more than two thirds of the votes given, and at least half of all votes given.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from enum import IntEnum
from itertools import islice

from gpu_tasks.market.courts.opinions import Answered, Unanswerable
from runtime.cryptography.draw import lottery
from runtime.cryptography.hashing import blake2_256

AUDIT_DELAYS = (2, 3, 4, 5)
"""A result revealed at h is audited if the beacon of any of h + these says so: one skipped slot must save no liar."""
COURT_MIN = 3
"""Fewer are no court."""
AGREEING = 2
"""So many equal opinions decide a committee."""
TWO_THIRDS, HALF = (2, 3), (1, 2)
"""Of the votes given in a court: more decide; more, where those do not, keep what was settled."""
PPM = 1_000_000


class BenchKind(IntEnum):
    """Which bench of a case."""

    PAIR = 0
    COMMITTEE = 1
    COURT = 2


SIZES = {BenchKind.PAIR: 2, BenchKind.COMMITTEE: 3}


def is_audited(values: Sequence[bytes], case: bytes, rate_ppm: int) -> bool:
    """Whether any of the beacon's four values picks the case, each with a quarter of the rate."""
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
    """The members in the order drawn, each with its votes. Fewer than `SIZES` where there are fewer who may sit.

    A court is everybody, voting by weight, if they are no more than its seats; else so many by weight, a vote each.
    All enter the lottery, and the first who may sit are drawn: as if only these had entered, but that of a hundred
    validators few are looked at.
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
    """What two of up to three judges agree on; None if no two do."""
    spoken = [opinion for opinion in given if opinion is not None]
    return next((opinion for opinion in spoken if spoken.count(opinion) >= AGREEING), None)


def joint_opinion(given: Sequence[Answered | Unanswerable | None]) -> Answered | Unanswerable | None:
    """What more than half of all these judges say, whether or not the others spoke; None if no so many do."""
    return next((said for said in given if said is not None and 2 * given.count(said) > len(given)), None)


def is_beyond_a_third(judges: Collection[bytes], entrants: Iterable[tuple[bytes, int]]) -> bool:
    """Whether these judges weigh more than a third of all in office: one of them at least is no part of a coalition."""
    entrants = list(entrants)
    return 3 * weight_of(judges, entrants) > sum(weight for _, weight in entrants)


def weight_of(judges: Iterable[bytes], entrants: Iterable[tuple[bytes, int]]) -> int:
    """What these weigh of all in office."""
    weights = dict(entrants)
    return sum(weights.get(judge, 0) for judge in judges)


def court_opinion(
    votes: Sequence[tuple[Answered | Unanswerable | None, int]], *, more_than: tuple[int, int] = TWO_THIRDS
) -> Answered | Unanswerable | None:
    """What a court decides by the votes of its members, None of whom need have spoken: more than a part must say it."""
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
    """Of the earlier judges, those whose probes a court finds wrong: by the same majority; None did not speak."""
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
