"""The judges of a bench, and the conditions of its decision."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.market.courts.benches import (
    AUDIT_DELAYS,
    HALF,
    BenchKind,
    committee_opinion,
    court_opinion,
    doubted_places,
    draw_bench,
    is_audited,
    is_beyond_a_third,
    joint_opinion,
)
from gpu_tasks.market.courts.opinions import Answered, Statement, Unanswerable, opinion_commitment
from runtime.cryptography.hashing import blake2_256

A, B, BAD = Answered(b"a" * 32), Answered(b"b" * 32), Unanswerable()
LETTERS: dict[str, Answered | Unanswerable | None] = {"a": A, "b": B, "i": BAD, "-": None}
CASE = b"c" * 32


def read(text: str) -> list[Answered | Unanswerable | None]:
    return [LETTERS[letter] for letter in text]


@pytest.mark.parametrize(
    ("said", "decided"),
    [
        ("aab", "a"), ("baa", "a"), ("aa-", "a"), ("ii-", "i"), ("aa", "a"), ("aaa", "a"), ("bab", "b"),
        ("ab", "-"), ("a-", "-"), ("a", "-"), ("abi", "-"), ("", "-"), ("---", "-"),
    ],
)  # fmt: skip
def test_two_equal_opinions_decide_a_committee(said: str, decided: str) -> None:
    assert committee_opinion(read(said)) == LETTERS[decided]


@pytest.mark.parametrize(
    ("said", "decided"),
    [
        ("aaab", "a"), ("aab", "-"), ("aaaab-", "a"), ("aaabb", "-"), ("iii", "i"), ("aa--", "a"), ("aa---", "-"),
        ("", "-"), ("-----", "-"), ("bbbbbbba", "b"),
    ],
)  # fmt: skip
def test_a_court_needs_more_than_two_thirds_of_the_votes_given_and_half_of_all(said: str, decided: str) -> None:
    assert court_opinion([(opinion, 1) for opinion in read(said)]) == LETTERS[decided]


@pytest.mark.parametrize(("said", "most"), [("aab", "a"), ("aabb", "-"), ("aabi-", "-"), ("aa---", "-"), ("i", "i")])
def test_most_of_a_court_are_more_than_half_of_the_votes_given_and_half_of_all(said: str, most: str) -> None:
    assert court_opinion([(opinion, 1) for opinion in read(said)], more_than=HALF) == LETTERS[most]


@pytest.mark.parametrize(
    ("said", "decided"),
    [
        ("aaab", "a"), ("aab", "a"), ("baabi", "-"), ("aaabb", "a"), ("aabb", "-"), ("aa", "a"), ("a-", "-"),
        ("aa-", "a"), ("aa--", "-"), ("iii-b", "i"), ("a", "a"), ("", "-"), ("---", "-"),
    ],
)  # fmt: skip
def test_together_more_than_half_of_all_judges_decide(said: str, decided: str) -> None:
    assert joint_opinion(read(said)) == LETTERS[decided]


@given(
    st.lists(st.sampled_from([A, B, BAD, None]), max_size=6), st.lists(st.sampled_from([A, B, BAD, None]), max_size=6)
)
def test_half_of_all_judges_decide_nothing_against_the_others(
    given_first: list[Answered | Unanswerable | None], given_last: list[Answered | Unanswerable | None]
) -> None:
    """With half of the judges or fewer, an opinion is not decided by the silence of the others."""
    if len(given_first) <= len(given_last):
        assert joint_opinion([*given_first, *[None] * len(given_last)]) is None


def test_more_than_a_third_of_the_stake_in_office_is_no_coalitions() -> None:
    entrants = [(b"a", 2), (b"b", 1), (b"c", 3)]
    assert is_beyond_a_third([b"c"], entrants)
    assert is_beyond_a_third([b"a", b"b"], entrants)
    assert not is_beyond_a_third([b"a"], entrants), "a third is not more than a third"
    assert not is_beyond_a_third([], entrants)
    assert not is_beyond_a_third([b"a", b"left"], entrants), "who is no more in office weighs nothing"


def test_a_courts_votes_have_weight() -> None:
    assert court_opinion([(A, 5), (B, 1), (B, 1)]) == A
    assert court_opinion([(A, 4), (B, 1), (B, 1)]) is None, "two thirds are not more than two thirds"
    assert court_opinion([(A, 3), (None, 3)]) == A
    assert court_opinion([(A, 3), (None, 4)]) is None


@given(st.lists(st.tuples(st.sampled_from([A, B, BAD, None]), st.integers(1, 9)), max_size=12))
def test_less_than_a_third_decides_no_court_against_the_others(
    votes: list[tuple[Answered | Unanswerable | None, int]],
) -> None:
    total = sum(count for _, count in votes)
    for liar in (A, B, BAD):
        lying = sum(count for opinion, count in votes if opinion == liar)
        given_votes = sum(count for opinion, count in votes if opinion is not None)
        if 3 * lying <= 2 * given_votes or 2 * given_votes < total:
            assert court_opinion(votes) != liar


def test_doubts_need_the_same_majority() -> None:
    assert doubted_places([(0b001, 1), (0b011, 1), (0b001, 1)], 5) == (0,)
    assert doubted_places([(0b001, 2), (0b000, 1)], 5) == ()
    assert doubted_places([(0b111, 1), (None, 2)], 5) == ()
    assert doubted_places([(0b100000, 3)], 5) == (), "only earlier judges are doubted"
    assert doubted_places([], 5) == ()


def names(count: int) -> list[tuple[bytes, int]]:
    return [(bytes((number,)) * 32, 10 + number) for number in range(count)]


def anybody(_name: bytes) -> bool:
    return True


@given(st.sets(st.integers(0, 11), min_size=1), st.sampled_from(BenchKind), st.integers(0, 99))
def test_who_may_not_sit_is_as_if_it_had_not_entered(barred: set[int], kind: BenchKind, seed: int) -> None:
    everybody, value = names(12), blake2_256(bytes((seed,)))
    left = [(name, weight) for name, weight in everybody if name[0] not in barred]
    drawn = draw_bench(value, CASE, kind, everybody, lambda name: name[0] not in barred, 5)
    assert drawn == draw_bench(value, CASE, kind, left, anybody, 5)


@pytest.mark.parametrize(("kind", "size"), [(BenchKind.PAIR, 2), (BenchKind.COMMITTEE, 3)])
def test_a_bench_is_drawn_whoever_is_listed_first(kind: BenchKind, size: int) -> None:
    drawn = draw_bench(b"s" * 32, CASE, kind, names(9), anybody, 33)
    assert len(drawn) == size
    assert drawn == draw_bench(b"s" * 32, CASE, kind, names(9)[::-1], anybody, 33)
    assert all(votes == 1 for _, votes in drawn)
    assert len(draw_bench(b"s" * 32, CASE, kind, names(1), anybody, 33)) == 1


def test_a_court_is_all_by_weight_or_so_many_with_a_vote_each() -> None:
    assert draw_bench(b"s" * 32, CASE, BenchKind.COURT, names(33)[::-1], anybody, 33) == names(33)
    drawn = draw_bench(b"s" * 32, CASE, BenchKind.COURT, names(34), anybody, 33)
    assert len(drawn) == 33
    assert {votes for _, votes in drawn} == {1}


def test_judges_are_drawn_by_weight() -> None:
    eligible = [(b"a" * 32, 1), (b"b" * 32, 2), (b"c" * 32, 5)]
    first = Counter(
        draw_bench(blake2_256(number.to_bytes(4, "big")), CASE, BenchKind.PAIR, eligible, anybody, 33)[0][0][:1]
        for number in range(4_000)
    )
    for name, share in ((b"a", 500), (b"b", 1_000), (b"c", 2_500)):
        assert abs(first[name] - share) < 120


def test_each_of_four_beacons_has_a_quarter_of_the_rate() -> None:
    cases = [blake2_256(number.to_bytes(4, "big")) for number in range(20_000)]
    alone = sum(is_audited([b"v" * 32], case, 200_000) for case in cases)
    assert abs(alone - 1_000) < 120
    values = [bytes((delay,)) * 32 for delay in AUDIT_DELAYS]
    together = sum(is_audited(values, case, 200_000) for case in cases)
    assert abs(together - 3_710) < 200, "1 - (1 - 0.05)^4"
    assert not any(is_audited(values, case, 0) for case in cases[:100])


def test_a_commitment_is_bound_to_judge_case_and_bench() -> None:
    said, salt = Statement(A, b"p" * 32), b"s" * 32
    mine = opinion_commitment(b"g" * 32, CASE, 1, b"j" * 32, said, salt)
    others = (
        opinion_commitment(b"h" * 32, CASE, 1, b"j" * 32, said, salt),
        opinion_commitment(b"g" * 32, b"d" * 32, 1, b"j" * 32, said, salt),
        opinion_commitment(b"g" * 32, CASE, 2, b"j" * 32, said, salt),
        opinion_commitment(b"g" * 32, CASE, 1, b"k" * 32, said, salt),
        opinion_commitment(b"g" * 32, CASE, 1, b"j" * 32, Statement(B, b"p" * 32), salt),
        opinion_commitment(b"g" * 32, CASE, 1, b"j" * 32, Statement(A, b"q" * 32), salt),
        opinion_commitment(b"g" * 32, CASE, 1, b"j" * 32, Statement(A, b"p" * 32, 1), salt),
        opinion_commitment(b"g" * 32, CASE, 1, b"j" * 32, said, b"t" * 32),
    )
    assert len({mine, *others}) == 9
