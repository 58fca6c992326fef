"""The bitwise instance tree: single steps, and a plain reference with one instance for each prefix."""

import math
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consensus.parameters import SAMPLED_THRESHOLDS_20, Condition, Thresholds, full_poll_thresholds, sampled_thresholds
from consensus.polling.snowflake import Confidence, Snowflake

FOUR = full_poll_thresholds(4)


def identity(first: int, last: int = 0) -> bytes:
    return bytes([first]) + bytes(30) + bytes([last])


@pytest.mark.parametrize(
    ("total", "preference", "conditions"),
    [
        (1, 1, ((1, 2),)),
        (4, 3, ((3, 4), (4, 2))),
        (5, 3, ((4, 4), (5, 2))),
        (7, 4, ((6, 4), (7, 2))),
        (100, 51, ((75, 4), (100, 2))),
    ],
)
def test_full_poll_thresholds(total: int, preference: int, conditions: tuple[tuple[int, int], ...]) -> None:
    assert full_poll_thresholds(total) == (preference, conditions)


def test_sampled_thresholds_are_the_published_ones() -> None:
    assert sampled_thresholds(20) is SAMPLED_THRESHOLDS_20
    assert SAMPLED_THRESHOLDS_20.preference == 13
    assert SAMPLED_THRESHOLDS_20.alpha_min == 15
    assert SAMPLED_THRESHOLDS_20.alpha_max == 20


@pytest.mark.parametrize(
    ("units", "conditions"),
    [
        (3, ((3, 7),)),
        (4, ((3, 12), (4, 5))),
        (5, ((4, 9), (5, 4))),
        (7, ((6, 5), (7, 3))),
        (100, ((75, 4), (100, 2))),
    ],
)
def test_a_small_sample_needs_more_polls_in_a_row(units: int, conditions: tuple[tuple[int, int], ...]) -> None:
    assert sampled_thresholds(units) == (units // 2 + 1, conditions)


@pytest.mark.parametrize("units", [3, 4, 5, 10, 19, 21, 64])
def test_a_sample_of_a_split_network_decides_nothing_by_chance(units: int) -> None:
    """Each unit is equally likely in either half: summed over the outcomes of a poll, one by one."""
    for alpha, beta in sampled_thresholds(units).conditions:
        passing = [math.comb(units, votes) / 2**units for votes in range(alpha, units + 1)]
        assert sum(passing) ** beta <= 2**-20


@pytest.mark.parametrize(
    ("polls", "confidence"),
    [
        ([], (0, 0)),
        ([4], (1, 1)),
        ([3, 3], (2, 0)),
        ([4, 3], (2, 0)),  # a poll of 3 breaks the run of 4s
        ([4, 4], (2, 2)),
        ([3, 2], (0, 0)),
    ],
)
def test_confidence_is_the_polls_in_a_row(polls: list[int], confidence: tuple[int, ...]) -> None:
    instance = Snowflake(FOUR, identity(1))
    for count in polls:
        instance.record({identity(1): count})
    assert instance.confidence == confidence


def test_confidence_is_that_of_the_least_sure_bit() -> None:
    instance = Snowflake(FOUR, identity(0b10))
    instance.record({identity(0b10): 3})
    instance.add(identity(0b00))  # the bit where they differ begins with the other's state
    instance.record({identity(0b10): 3})
    assert instance.confidence == (2, 0)
    instance.record({identity(0b10): 2, identity(0b00): 2})
    assert instance.confidence == (0, 0)
    instance.record({identity(0b10): 4})
    assert instance.confidence == (1, 1)
    instance.falter()
    assert instance.confidence == (0, 0)


@pytest.mark.parametrize(
    ("polls", "decided"),
    [
        ([4], False),
        ([4, 4], True),
        ([3, 3, 3], False),
        ([3, 3, 3, 3], True),
        ([4, 3, 4], False),  # a poll of 3 breaks the run of 4s
        ([4, 3, 3, 3], True),  # but a 4 counts among the 3s
        ([3, 3, 3, 0, 3], False),
    ],
)
def test_conditions_are_counted_at_once(polls: list[int], decided: bool) -> None:
    instance = Snowflake(FOUR, identity(1))
    for count in polls:
        instance.record({identity(1): count})
    assert instance.decided == decided


def test_change_of_preference_begins_anew() -> None:
    left, right = identity(0b00000000), identity(0b10000000)
    instance = Snowflake(FOUR, left)
    assert instance.add(right)
    instance.record({left: 4})
    assert not instance.decided
    instance.record({right: 4})
    assert instance.preference == right
    assert not instance.decided
    instance.record({right: 4})
    assert instance.decided
    instance.record({left: 4})
    instance.record({left: 4})
    assert instance.preference == right


def test_a_poll_that_the_other_side_won_interrupts_the_polls_of_the_side_that_lost() -> None:
    """Below the bit that the other side won, polls before and after it are not in a row."""
    near, far, right = identity(0b00000000), identity(0b01000000), identity(0b10000000)
    instance = Snowflake(FOUR, near)
    instance.add(far)
    instance.add(right)
    for winner in (near, right, near):
        instance.record({winner: 4})
    assert instance.preference == near
    instance.record({far: 4})
    assert instance.preference == far, "two polls with one between them decided nothing"


def test_bits_decide_where_three_siblings_would_deadlock() -> None:
    # 2-1-1 votes of 4: no sibling has a majority of 3, but the first bit has.
    left, middle, right = identity(0b11000000), identity(0b10000000), identity(0)
    instance = Snowflake(FOUR, right)
    instance.add(middle)
    instance.add(left)
    instance.record({left: 2, middle: 1, right: 1})
    assert instance.preference in {left, middle}


def test_what_is_decided_against_cannot_come_in() -> None:
    instance = Snowflake(FOUR, identity(0))
    for _ in range(2):
        instance.record({identity(0): 4})
    assert instance.decided
    assert not instance.add(identity(128))
    assert not instance.add(identity(0))


def test_confidence_table() -> None:
    confidence = Confidence([0, 0])
    thresholds = Thresholds(3, (Condition(3, 3), Condition(4, 2)))
    confidence.succeed(4, thresholds)
    assert confidence.counters == [1, 1]
    confidence.succeed(3, thresholds)
    assert confidence.counters == [2, 0]
    assert not confidence.decided
    confidence.succeed(3, thresholds)
    assert confidence.decided


class NaiveTree:
    """One instance for each prefix of a known choice. Resets take effect at once."""

    def __init__(self, thresholds: Thresholds, choice: bytes) -> None:
        self.thresholds = thresholds
        self.ids: list[str] = []
        self.state: dict[str, tuple[Confidence, list[str]]] = {}
        self.add(choice)

    def add(self, choice: bytes) -> bool:
        bits = f"{int.from_bytes(choice, 'big'):0256b}"
        if bits in self.ids:
            return False
        for place in range(256):
            known = self.state.get(bits[:place])
            if known is not None and known[0].decided and known[1][0] != bits[place]:
                return False
        self.ids.append(bits)
        for place in range(256):
            empty = Confidence([0] * len(self.thresholds.conditions))
            self.state.setdefault(bits[:place], (empty, [bits[place]]))
        return True

    def preference(self) -> bytes:
        bits = ""
        while len(bits) < 256:
            bits += self.state[bits][1][0]
        return int(bits, 2).to_bytes(32, "big")

    def decided(self) -> bool:
        bits = f"{int.from_bytes(self.preference(), 'big'):0256b}"
        return all(self.state[bits[:place]][0].decided for place in range(256))

    def reset_below(self, prefix: str) -> None:
        for known, (confidence, _) in self.state.items():
            if known.startswith(prefix):
                confidence.reset()

    def record(self, votes: Mapping[bytes, int]) -> None:
        counted = {f"{int.from_bytes(choice, 'big'):0256b}": weight for choice, weight in votes.items()}
        counted = {bits: weight for bits, weight in counted.items() if bits in self.ids}
        prefix = ""
        while len(prefix) < 256:
            confidence, preferred = self.state[prefix]
            sides = {
                side: sum(w for bits, w in counted.items() if bits.startswith(prefix + side)) for side in ("0", "1")
            }
            winner = max(sides, key=lambda side: sides[side])
            if sides[winner] < self.thresholds.preference:
                self.reset_below(prefix)
                return
            self.reset_below(prefix + ("1" if winner == "0" else "0"))
            if winner != preferred[0]:
                if confidence.decided:
                    self.reset_below(prefix + winner)
                    return
                preferred[0] = winner
                confidence.reset()
            confidence.succeed(sides[winner], self.thresholds)
            prefix += winner


CHOICES = [identity(first, last) for first in (0, 0b1, 0b10000000, 0b10100000) for last in (0, 1, 0b1000)]
STEPS = st.lists(
    st.one_of(
        st.sampled_from(CHOICES),
        st.dictionaries(st.sampled_from(CHOICES), st.integers(1, 4), max_size=3),
    ),
    max_size=40,
)


@given(STEPS, st.sampled_from([4, 7]))
def test_tree_is_the_naive_reference(steps: list[bytes | dict[bytes, int]], total: int) -> None:
    thresholds = full_poll_thresholds(total)
    tree, naive = Snowflake(thresholds, CHOICES[0]), NaiveTree(thresholds, CHOICES[0])
    for step in steps:
        was_decided, before = tree.decided, tree.preference
        if isinstance(step, bytes):
            assert tree.add(step) == naive.add(step)
        else:
            votes, left = {}, total
            for choice, weight in step.items():
                votes[choice] = min(weight, left)
                left -= votes[choice]
            tree.record(votes)
            naive.record(votes)
        assert tree.preference == naive.preference()
        assert tree.decided == naive.decided()
        if was_decided:
            assert tree.decided
            assert tree.preference == before
