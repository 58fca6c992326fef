"""Committees decide by enough equal verdicts, escalate while there are members, and end."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.market.inference import committees
from gpu_tasks.market.inference.commitments import InputBad, Recomputed
from gpu_tasks.market.inference.committees import Committee, Judge

A, B, BAD = Recomputed(b"a" * 32), Recomputed(b"b" * 32), InputBad()
LETTERS: dict[str, Recomputed | InputBad | None] = {"a": A, "b": B, "i": BAD, "-": None}


def committee(verdicts: str, number: int = 0, *, size: int = 3, leading: str = "-") -> Committee:
    members = tuple(
        Judge(bytes([number, place]) + bytes(30), None, LETTERS[letter]) for place, letter in enumerate(verdicts)
    )
    return Committee(number, 9, size, None, members, (), LETTERS[leading])


@pytest.mark.parametrize(
    ("verdicts", "number", "leading", "decided"),
    [
        ("aab", 0, "-", A),
        ("aa-", 0, "-", A),
        ("ii-", 0, "-", BAD),
        ("aa", 0, "-", A),
        ("ab", 0, "-", None),
        ("a-", 0, "-", None),
        ("a", 0, "-", None),
        ("abi", 0, "-", None),
        ("", 0, "-", None),
        ("aaaab", 1, "-", None),  # one success is not two
        ("aaaab", 2, "a", A),
        ("aaaab", 2, "b", None),
        ("aaabb", 2, "a", None),
        ("aaabb", 5, "-", None),  # the court: more than two thirds of those who spoke
        ("aaaab", 5, "-", A),
        ("aa---", 5, "-", A),
        ("a----", 5, "-", None),
    ],
)
def test_decision(verdicts: str, number: int, leading: str, decided: object) -> None:
    assert committees.decision(committee(verdicts, number, leading=leading)) == decided


@pytest.mark.parametrize(
    ("before", "size", "leading"),
    [
        (committee("ab"), 5, None),
        (committee("aaaab", 1, size=5), 5, A),
        (committee("aaabb", 1, size=5), 10, None),
        (committee("bbbbb", 2, size=5, leading="a"), 5, B),
        (committee("aabb", 4, size=40), 63, None),
    ],
)
def test_escalation(before: Committee, size: int, leading: object) -> None:
    after = committees.next_committee(before, 77)
    assert after is not None
    assert (after.size, after.leading, after.number) == (size, leading, before.number + 1)
    assert after.served == tuple(sorted(judge.account for judge in before.members))
    assert not after.members


@given(st.lists(st.text("abi-", min_size=1, max_size=8), min_size=10, max_size=10))
def test_escalation_ends(texts: list[str]) -> None:
    current = committees.first_committee(1)
    for number, text in enumerate(texts):
        current = replace(current, members=committee(text, number).members)
        if committees.decision(current) is not None:
            return
        following = committees.next_committee(current, 1)
        if following is None:
            assert number == committees.LATER_COMMITTEES_MAX + 1
            return
        current = following
    pytest.fail("a dispute without end")


@given(st.text("abi-", max_size=9))
def test_the_tally_does_not_depend_on_order(text: str) -> None:
    assert committees.tally(committee(text)) == committees.tally(committee("".join(sorted(text))))


def test_majority() -> None:
    seated = committee("aba")
    assert committees.majority(seated, A) == (seated.members[0].account, seated.members[2].account)


def test_when_all_have_acted() -> None:
    seated = committee("a--")
    assert not committees.is_all_committed(seated)
    assert committees.is_all_revealed(seated), "who did not commit has nothing to open"
    committed = replace(seated, members=tuple(replace(judge, commitment=b"c" * 32) for judge in seated.members))
    assert committees.is_all_committed(committed)
    assert not committees.is_all_revealed(committed)
