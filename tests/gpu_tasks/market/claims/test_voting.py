"""The draw of voters, the decisions of both rounds, and the votes that cost fees."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.market.claims.disputes import DisputeQuestion
from gpu_tasks.market.claims.findings import CANNOT_FETCH, NO_ANSWER, ItemSample, ItemVote, Verdict
from gpu_tasks.market.claims.money import Purse
from gpu_tasks.market.claims.voting import (
    agrees,
    charged,
    decision_of_seats,
    decision_of_stake,
    draw_voters,
    is_well_formed,
    standard_of_first,
)
from runtime.cryptography.hashing import blake2_256
from simulation.chains.dispute_chain import vote_of

DISPUTE, SEEDS, LATER = b"d" * 32, (b"s" * 32, b"n" * 32), (b"s" * 32, b"l" * 32)
R, W = vote_of(Verdict.RIGHT, SEEDS), vote_of(Verdict.WRONG, SEEDS)
OTHER = vote_of(Verdict.WRONG, SEEDS, b"other")
LETTERS: dict[str, ItemVote | None] = {"r": R, "w": W, "o": OTHER, "u": CANNOT_FETCH, "-": None}
ENTRANTS = [(bytes((number,)) * 32, 1 + number % 3) for number in range(20)]
STAKED = st.lists(st.tuples(st.sampled_from("rwou-"), st.integers(1, 10**24)), min_size=1, max_size=20)


def read(text: str) -> list[ItemVote | None]:
    return [LETTERS[letter] for letter in text]


@pytest.mark.parametrize(
    ("votes", "decided"),
    [
        ("rrrrrrrrr", "r"), ("rrrrrwwww", "r"), ("rrrrwwwww", "w"), ("rrrrwwwwo", "-"), ("rrrrr----", "r"),
        ("rrrr-----", "-"), ("wwwwo----", "-"), ("uuuuurrrr", "u"), ("uuuuwwwww", "w"), ("uuuuwwwwr", "-"),
        ("---------", "-"),
    ],
)  # fmt: skip
def test_five_equal_votes_of_nine_decide(votes: str, decided: str) -> None:
    assert decision_of_seats(read(votes)) == LETTERS[decided]


@pytest.mark.parametrize(
    ("votes", "item", "sides"),
    [
        # more than 3/5 of the votes
        ("r" * 62 + "w" * 38, "r", "r"), ("r" * 60 + "w" * 40, "-", "-"), ("r" * 38 + "w" * 62, "w", "w"),
        # at least half of the eligible stake
        ("r" * 50 + "-" * 50, "r", "r"), ("r" * 49 + "-" * 51, "-", "-"), ("w" * 50 + "r" * 33 + "-" * 17, "w", "w"),
        # `UNAVAILABLE` counts with `WRONG`, and then decides without a right answer
        ("u" * 40 + "w" * 22 + "r" * 38, "u", "-"), ("w" * 31 + "o" * 31 + "r" * 38, "u", "-"),
        ("u" * 30 + "w" * 30 + "r" * 40, "-", "-"), ("u" * 62 + "r" * 38, "u", "u"), ("u" * 30 + "w" * 70, "w", "w"),
        ("u" * 25 + "w" * 24 + "-" * 51, "-", "-"), ("u" * 25 + "w" * 25 + "-" * 50, "u", "-"),
        ("", "-", "-"), ("---", "-", "-"),
    ],
)  # fmt: skip
def test_an_appeal_needs_three_fifths_of_the_votes_and_half_of_the_stake(votes: str, item: str, sides: str) -> None:
    staked = [(vote, 1) for vote in read(votes)]
    assert decision_of_stake(staked, DisputeQuestion.ITEM) == LETTERS[item]
    for question in (DisputeQuestion.SIDES, DisputeQuestion.INPUT):
        assert decision_of_stake(staked, question) == LETTERS[sides]


@given(st.lists(st.sampled_from("rwou-"), min_size=9, max_size=9), st.randoms())
def test_the_order_of_seats_never_matters(votes: list[str], chance: random.Random) -> None:
    decided = decision_of_seats(read("".join(votes)))
    assert (decided is not None) == any(votes.count(letter) >= 5 for letter in "rwou")
    chance.shuffle(votes)
    assert decision_of_seats(read("".join(votes))) == decided


@given(STAKED, st.sampled_from(DisputeQuestion), st.randoms())
def test_the_order_of_staked_votes_never_matters(
    staked: list[tuple[str, int]], question: DisputeQuestion, chance: random.Random
) -> None:
    decided = decision_of_stake([(LETTERS[letter], stake) for letter, stake in staked], question)
    chance.shuffle(staked)
    assert decision_of_stake([(LETTERS[letter], stake) for letter, stake in staked], question) == decided


@given(
    st.lists(st.tuples(st.sampled_from("rwou-"), st.integers(1, 100)), max_size=8),
    st.integers(1, 10**9),
    st.sampled_from("rwu"),
    st.sampled_from(DisputeQuestion),
)
def test_a_coalition_below_a_third_neither_decides_nor_prevents_an_appeal(
    friends: list[tuple[str, int]], spare: int, truth: str, question: DisputeQuestion
) -> None:
    """The others have more than twice its stake, and just three quarters of them vote."""
    coalition = sum(stake for _, stake in friends)
    honest = 4 * (coalition // 2 + spare)
    staked = [(LETTERS[letter], stake) for letter, stake in friends]
    staked += [(LETTERS[truth], honest * 3 // 4), (None, honest // 4)]
    decided = decision_of_stake(staked, question)
    if truth == "r" or question is not DisputeQuestion.ITEM:
        assert decided == LETTERS[truth]
    else:
        assert decided is not None
        assert decided.verdict is not Verdict.RIGHT, "the provider is convicted"


def test_voters_are_the_first_nine_eligible_ones_of_a_lottery() -> None:
    drawn = draw_voters(b"b" * 32, DISPUTE, ENTRANTS, lambda _: True)
    assert len(set(drawn)) == 9
    assert draw_voters(b"b" * 32, DISPUTE, ENTRANTS[::-1], lambda _: True) == drawn
    assert draw_voters(b"c" * 32, DISPUTE, ENTRANTS, lambda _: True) != drawn
    assert draw_voters(b"b" * 32, b"e" * 32, ENTRANTS, lambda _: True) != drawn
    without = draw_voters(b"b" * 32, DISPUTE, ENTRANTS, lambda stash: stash != drawn[0])
    assert without[:8] == drawn[1:], "a validator that leaves only makes room"
    few = draw_voters(b"b" * 32, DISPUTE, ENTRANTS, lambda stash: stash[0] < 4)
    assert sorted(few) == [stash for stash, _ in ENTRANTS[:4]]


def test_voters_are_drawn_by_stake() -> None:
    rows = [(bytes((number,)) * 32, 100 if number < 20 else 1) for number in range(40)]
    seats = [draw_voters(blake2_256(bytes((turn,))), DISPUTE, rows, lambda _: True) for turn in range(40)]
    assert sum(voter[0] < 20 for drawn in seats for voter in drawn) > 0.9 * 9 * 40


@pytest.mark.parametrize(
    ("vote", "is_right"),
    [
        (R, True), (W, True), (CANNOT_FETCH, True),
        (ItemVote(Verdict.RIGHT, R.answer, R.samples[:1]), False),
        (ItemVote(Verdict.WRONG, W.answer, (*W.samples, W.samples[0])), False),
        (ItemVote(Verdict.RIGHT, R.answer, ()), False),
        (ItemVote(Verdict.WRONG, NO_ANSWER, W.samples), False),
        (ItemVote(Verdict.UNAVAILABLE, NO_ANSWER, W.samples), False),
        (ItemVote(Verdict.UNAVAILABLE, W.answer, ()), False),
    ],
)  # fmt: skip
def test_a_vote_has_an_answer_and_a_sample_for_each_seed_or_nothing(vote: ItemVote, is_right: bool) -> None:
    assert is_well_formed(vote, len(SEEDS)) is is_right


@pytest.mark.parametrize(
    ("vote", "decision", "purse"),
    [
        ("r", "r", None), ("w", "r", Purse.OUTVOTED), ("r", "w", Purse.OUTVOTED), ("o", "w", Purse.OUTVOTED),
        ("u", "r", None), ("u", "w", None), ("u", "u", None), ("r", "u", None), ("w", "u", None),
        ("-", "r", Purse.UNHEARD), ("-", "u", Purse.UNHEARD), ("-", "-", Purse.UNHEARD),
        ("r", "-", None), ("w", "-", None), ("u", "-", None),
    ],
)  # fmt: skip
def test_outvoted_and_silent_voters_pay(vote: str, decision: str, purse: Purse | None) -> None:
    assert charged(LETTERS[vote], LETTERS[decision]) is purse


@pytest.mark.parametrize(
    ("vote", "decision", "question", "is_one"),
    [
        ("r", "r", DisputeQuestion.ITEM, True), ("w", "r", DisputeQuestion.ITEM, False),
        ("u", "r", DisputeQuestion.ITEM, False), ("u", "w", DisputeQuestion.ITEM, False),
        ("u", "u", DisputeQuestion.ITEM, True), ("w", "u", DisputeQuestion.ITEM, True),
        ("o", "u", DisputeQuestion.ITEM, True), ("r", "u", DisputeQuestion.ITEM, False),
        ("w", "u", DisputeQuestion.SIDES, False),
        ("u", "u", DisputeQuestion.INPUT, True),
    ],
)  # fmt: skip
def test_voters_agree_that_have_part_in_the_decision(
    vote: str, decision: str, question: DisputeQuestion, is_one: bool
) -> None:
    one, other = LETTERS[vote], LETTERS[decision]
    assert one is not None
    assert other is not None
    assert agrees(one, other, question) is is_one


def test_a_first_vote_is_read_without_the_sample_of_the_later_seed() -> None:
    later, wrong_later = vote_of(Verdict.RIGHT, LATER), vote_of(Verdict.WRONG, LATER)
    invented = ItemVote(R.verdict, R.answer, (R.samples[0], ItemSample(0, 1_000, bytes(16))))
    # The first round reached the same decision: its own last sample counts.
    assert standard_of_first(R, later, R) == R
    assert standard_of_first(R, later, invented) == R
    # It reached another one or none: no last sample is known to be right.
    assert standard_of_first(None, later, R) == R
    assert standard_of_first(None, later, invented) == invented
    assert standard_of_first(R, wrong_later, R) != R
    assert standard_of_first(R, wrong_later, W) == W
    assert standard_of_first(R, None, R) is None
    assert standard_of_first(R, CANNOT_FETCH, R) == CANNOT_FETCH
    assert charged(CANNOT_FETCH, standard_of_first(R, later, CANNOT_FETCH)) is None
