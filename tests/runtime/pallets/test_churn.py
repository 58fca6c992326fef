"""The cut between two sets: a table of cases, and general properties."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.pallets.churn import COMERS_SHARE, SEATS_LEAST, SHARE, cut

EIGHT = dict.fromkeys("abcdefgh", 100)


def stash(name: str) -> bytes:
    return name.encode()


def weights(of: dict[str, int]) -> dict[bytes, int]:
    return {stash(name): weight for name, weight in of.items()}


@dataclass(frozen=True)
class Case:
    old: dict[str, int]
    ranked: dict[str, int]
    following: dict[str, int]
    seats: int = 8
    tombstoned: str = ""
    leaving: dict[str, int] | None = None
    waiting: dict[str, int] | None = None


CASES = {
    "nothing changes": Case(EIGHT, EIGHT, EIGHT),
    "one goes and one comes": Case(
        EIGHT, {**dict.fromkeys("bcdefgh", 100), "i": 90}, {**dict.fromkeys("bcdefgh", 100), "i": 90}
    ),
    "of two that go one stays for a term": Case(EIGHT, dict.fromkeys("cdefgh", 100), dict.fromkeys("bcdefgh", 100)),
    "the heaviest that is away goes first": Case(
        {**EIGHT, "h": 200}, dict.fromkeys("bcdefg", 100), dict.fromkeys("abcdefg", 100)
    ),
    "who has waited goes before the heaviest": Case(
        {**EIGHT, "h": 200}, dict.fromkeys("bcdefg", 100), {**dict.fromkeys("bcdefg", 100), "h": 200}, leaving={"a": 7}
    ),
    "who has waited longer goes first, whatever it weighs": Case(
        {**EIGHT, "h": 200},
        dict.fromkeys("cdefg", 100),
        {**dict.fromkeys("bcdefg", 100), "h": 200},
        leaving={"h": 8, "a": 6, "b": 7},
    ),
    "of those who have waited alike the heaviest": Case(
        {**EIGHT, "h": 200}, dict.fromkeys("bcdefg", 100), dict.fromkeys("abcdefg", 100), leaving={"h": 7, "a": 7}
    ),
    "small ones go together": Case(
        {**EIGHT, "g": 30, "h": 50}, dict.fromkeys("abcdef", 100), dict.fromkeys("abcdef", 100)
    ),
    "who is away goes before who is out-ranked": Case(
        EIGHT, {"i": 120, "j": 110, **dict.fromkeys("bcdefgh", 100)}, {**dict.fromkeys("bcdefgh", 100), "i": 120}
    ),
    "who is out-ranked goes, the last one first": Case(
        {"a": 100, "b": 99, "c": 98, "d": 97, "e": 96},
        {"a": 100, "f": 100, "g": 99, "b": 99, "c": 98, "d": 97, "e": 96},
        {"a": 100, "b": 99, "c": 98, "d": 97, "f": 100},
        seats=5,
    ),
    "a joiner heavier than an eighth comes alone, for a quarter at the most": Case(
        dict.fromkeys("abcd", 90),
        {"e": 5_000, "f": 10, **dict.fromkeys("abcd", 90)},
        {**dict.fromkeys("abcd", 90), "e": 120},
    ),
    "joiners come in rank order, however small those behind": Case(
        EIGHT, {"i": 60, "j": 50, "k": 1, **EIGHT}, {**EIGHT, "i": 60}, seats=12
    ),
    "who has waited comes before the heaviest": Case(
        EIGHT, {"i": 99, "j": 60, "k": 50, **EIGHT}, {**EIGHT, "k": 50}, seats=12, waiting={"k": 3}
    ),
    "who has waited longer comes first, whatever it weighs": Case(
        EIGHT, {"i": 99, "j": 60, "k": 50, **EIGHT}, {**EIGHT, "j": 60}, seats=12, waiting={"k": 4, "j": 3, "i": 5}
    ),
    "of those who have waited alike the heaviest comes": Case(
        EIGHT, {"i": 99, "j": 60, "k": 50, **EIGHT}, {**EIGHT, "j": 60}, seats=12, waiting={"k": 3, "j": 3}
    ),
    "who waits and is out-ranked does not come": Case(
        EIGHT, {**EIGHT, "i": 99, "j": 60}, {**EIGHT, "i": 99}, seats=9, waiting={"j": 3}
    ),
    "joiners come together within an eighth": Case(
        EIGHT, {"i": 60, "j": 40, "k": 1, **EIGHT}, {**EIGHT, "i": 60, "j": 40}, seats=12
    ),
    "a stayer gains an eighth at a time and loses at once": Case(
        EIGHT, {**EIGHT, "a": 900, "b": 5}, {**EIGHT, "a": 112, "b": 5}
    ),
    "no seat is free while a leaver keeps it": Case(
        EIGHT,
        {**dict.fromkeys("ijklmn", 100), "g": 99, "h": 98},
        {**dict.fromkeys("bcdef", 100), "g": 99, "h": 98, "i": 100},
    ),
    "four are never fewer": Case(
        dict.fromkeys("abcd", 100), dict.fromkeys("bcd", 100), dict.fromkeys("abcd", 100), seats=4
    ),
    "four, one of them another": Case(
        dict.fromkeys("abcd", 100), dict.fromkeys("bcde", 90), {"b": 90, "c": 90, "d": 90, "e": 90}, seats=4
    ),
    "beside tombstones those who are left count for the least": Case(
        dict.fromkeys("abcdef", 100), dict.fromkeys("abg", 100), {"a": 100, "b": 100, "g": 66}, tombstoned="def"
    ),
    "the only one stays": Case({"a": 100}, {"b": 100}, {"a": 100, "b": 33}, seats=2),
    "the only one stays in its seat": Case({"a": 100}, {"b": 100}, {"a": 100}, seats=1),
    "a tombstoned member goes beside the cut": Case(
        EIGHT, dict.fromkeys("acdefgh", 100), dict.fromkeys("acdefgh", 100), tombstoned="b"
    ),
    "a tombstoned member goes, and a leaver too": Case(
        EIGHT, dict.fromkeys("cdefgh", 100), dict.fromkeys("cdefgh", 100), tombstoned="b"
    ),
    "a tombstoned candidate does not come": Case(EIGHT, {"i": 90, **EIGHT}, EIGHT, seats=9, tombstoned="i"),
    "a tombstoned one of four goes": Case(
        dict.fromkeys("abcd", 100), dict.fromkeys("abcd", 100), dict.fromkeys("abc", 100), tombstoned="d"
    ),
    "where all are tombstoned they go on": Case({"a": 9, "b": 9}, {"c": 9}, {"a": 9, "b": 9}, tombstoned="ab"),
    "nobody offers itself": Case(EIGHT, {}, dict.fromkeys("bcdefgh", 100)),
    "a grain divides into no quarters": Case(dict.fromkeys("ab", 1), {"c": 5, "a": 1, "b": 1}, dict.fromkeys("ab", 1)),
    "fewer seats than members": Case(EIGHT, EIGHT, dict.fromkeys("abcdefg", 100), seats=4),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_cut(case: Case) -> None:
    tombstoned, leaving = {stash(name) for name in case.tombstoned}, weights(case.leaving or {})
    waiting = weights(case.waiting or {})
    found = cut(weights(case.old), weights(case.ranked), case.seats, tombstoned, leaving, waiting)
    assert found == weights(case.following)


names = st.integers(0, 30).map(lambda number: bytes([number]))
stakes = st.integers(1, 10**6) | st.integers(1, 20)
sets = st.dictionaries(names, stakes, min_size=1, max_size=20)
rankings = st.dictionaries(names, stakes, max_size=25).map(
    lambda found: dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))
)


@given(sets, rankings, st.integers(1, 24), st.frozensets(names, max_size=4))
def test_no_cut_changes_more_than_it_may(
    old: dict[bytes, int], ranked: dict[bytes, int], seats: int, tombstoned: frozenset[bytes]
) -> None:
    found = cut(old, ranked, seats, tombstoned)
    base = {name: weight for name, weight in old.items() if name not in tombstoned}
    if not base:
        assert found == old
        return
    total = sum(base.values())
    assert all(weight > 0 for weight in found.values())
    assert not found.keys() & tombstoned
    gone = [weight for name, weight in base.items() if name not in found]
    assert len(gone) <= 1 or SHARE * sum(gone) <= total
    came = {name: weight for name, weight in found.items() if name not in base}
    assert len(came) <= 1 or SHARE * sum(came.values()) <= total
    assert (1 + COMERS_SHARE) * sum(came.values()) <= sum(found.values())
    assert all(weight <= ranked[name] for name, weight in came.items())
    for name in found.keys() & base.keys():
        assert found[name] in (base[name], min(ranked.get(name, base[name]), base[name] + base[name] // SHARE))
    assert len(found) >= min(SEATS_LEAST, len(base))
    assert len(found) <= max(seats, len(base))
    elected = [name for name in ranked if name not in tombstoned][:seats]
    assert came.keys() <= set(elected)
    assert not set(gone) & set(elected)
    # Newcomers are the first of the waiting list, so none is overtaken.
    waiting = [name for name in elected if name not in base]
    assert list(came) == waiting[: len(came)]


@given(sets, rankings, st.integers(SEATS_LEAST, 24))
def test_cuts_in_a_row_end_with_those_who_are_elected(
    old: dict[bytes, int], ranked: dict[bytes, int], seats: int
) -> None:
    elected = list(ranked)[:seats]
    if len(elected) < SEATS_LEAST:
        return
    now = {name: 10**6 * weight for name, weight in old.items()}
    stakes_of = {name: 10**6 * stake for name, stake in ranked.items()}
    for _ in range(600):
        following = cut(now, stakes_of, seats)
        if following == now:
            break
        now = following
    assert now.keys() == set(elected)
    assert all(now[name] <= stakes_of[name] for name in now)


@given(st.integers(2, 5), st.integers(1, 60), st.data())
def test_nobody_is_kept_by_others_who_leave_and_come_again(heavy: int, weight: int, data: st.DataObject) -> None:
    """A heavier validator leaves in every era, and returns. A leaver is out after all earlier leavers."""
    coalition = {b"A%d" % place: 130 for place in range(heavy)}
    stakes_of = {**coalition, b"V": weight, **{b"h%02d" % place: 30 for place in range(40)}}
    now, since = dict(stakes_of), dict[bytes, int]()
    for era in range(1, heavy + 2):
        away = {b"V", *data.draw(st.frozensets(st.sampled_from(sorted(coalition))))}
        ranked = dict(sorted(stakes_of.items(), key=lambda item: (-item[1], item[0])))
        now = cut(now, {name: stake for name, stake in ranked.items() if name not in away}, 64, (), since)
        since = {name: since.get(name, era) for name in now if name in away}
        if b"V" not in now:
            return
    raise AssertionError("it still sits")
