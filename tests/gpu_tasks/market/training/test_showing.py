"""Which stretches of a trace are looked at: parts of a leg, drawn and named."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.market.training.showing import (
    PARTS_DRAWN,
    PARTS_MAX,
    TraceStretch,
    drawn_parts,
    judged_stretches,
    leg_segments,
    looked_at,
    looked_at_most,
    parts,
)
from gpu_tasks.market.training.tasks import Challenge, slot_case
from gpu_tasks.traces.trace import SEGMENTS_MAX
from priced_tasks import a_task
from runtime.cryptography.hashing import blake2_256

SLOT = b"s" * 32
LEGS = st.tuples(st.integers(0, SEGMENTS_MAX), st.integers(0, SEGMENTS_MAX)).map(
    lambda ends: range(min(ends), max(ends))
)


@pytest.mark.parametrize(
    ("leg", "expected"),
    [
        (range(0), ()),
        (range(3, 4), (TraceStretch(3, 4),)),
        (range(10, 12), (TraceStretch(10, 11), TraceStretch(11, 12))),
        (range(21), (*(TraceStretch(at, at + 1) for at in range(19)), TraceStretch(19, 21))),
        (range(100, 200), tuple(TraceStretch(at, at + 5) for at in range(100, 200, 5))),
    ],
)
def test_a_leg_is_divided_into_at_most_twenty_parts(leg: range, expected: tuple[TraceStretch, ...]) -> None:
    assert parts(leg) == expected


@given(LEGS)
def test_the_parts_of_a_leg_are_all_of_it_and_alike(leg: range) -> None:
    found = parts(leg)
    assert [segment for part in found for segment in range(part.first, part.end)] == list(leg)
    lengths = {part.end - part.first for part in found}
    assert len(found) == min(PARTS_MAX, len(leg))
    assert not lengths or max(lengths) - min(lengths) <= 1


def test_a_leg_begins_behind_the_milestones_that_count() -> None:
    assert leg_segments(20, 2, 4) == range(10, 20)
    assert leg_segments(7, 1, 3) == range(2, 7)


@pytest.mark.parametrize("leg", [range(10, 20), range(40, 50), range(SEGMENTS_MAX)])
def test_four_different_parts_are_drawn_and_each_as_often(leg: range) -> None:
    draws = 4_000
    seen: dict[TraceStretch, int] = {}
    for number in range(draws):
        drawn = drawn_parts(number.to_bytes(4, "little"), SLOT, leg)
        assert len(set(drawn)) == PARTS_DRAWN
        assert list(drawn) == sorted(drawn, key=lambda part: part.first)
        for part in drawn:
            seen[part] = seen.get(part, 0) + 1
    expected = draws * PARTS_DRAWN / len(parts(leg))
    assert set(seen) == set(parts(leg))
    assert all(abs(count - expected) < expected / 5 for count in seen.values())


def test_what_is_drawn_is_what_others_draw() -> None:
    """Chain, provider and judges draw by themselves, in programs of different ages."""
    left, expected = list(range(100, 140, 2)), []
    for number in range(PARTS_DRAWN):
        ticket = blake2_256(b"ogpu/segment" + b"b" * 32 + SLOT + bytes((number,)))
        expected.append(left.pop(int.from_bytes(ticket, "big") % len(left)))
    assert [part.first for part in drawn_parts(b"b" * 32, SLOT, range(100, 140))] == sorted(expected)


@pytest.mark.parametrize("place", [0, 1])
def test_a_slot_shows_parts_of_its_own_leg_and_its_partners_others(place: int) -> None:
    task = a_task(segments=400, milestones=4, behind=1, done=2, drawn=b"b" * 32, named=120)
    expected = looked_at(b"b" * 32, slot_case(b"t" * 32, place), range(100, 400), 120)
    assert judged_stretches(b"t" * 32, task, place) == expected
    assert judged_stretches(b"t" * 32, replace(task, drawn=None), place) == ()


def test_of_a_fraud_proof_its_segment_alone_is_judged() -> None:
    task = a_task(segments=400, drawn=b"b" * 32, named=120, challenge=Challenge(b"x" * 32, 0, 7, 5, 5))
    assert judged_stretches(b"t" * 32, task, 0) == (TraceStretch(7, 8),)


def test_of_a_short_leg_all_is_looked_at() -> None:
    assert drawn_parts(b"", SLOT, range(5, 7)) == (TraceStretch(5, 6), TraceStretch(6, 7))
    assert drawn_parts(b"", SLOT, range(0)) == ()


@given(LEGS.filter(len), st.binary(min_size=32, max_size=32), st.data())
def test_the_named_segment_is_looked_at_once_beside_the_drawn_parts(
    leg: range, seed: bytes, data: st.DataObject
) -> None:
    named = data.draw(st.sampled_from(leg))
    drawn, found = drawn_parts(seed, SLOT, leg), looked_at(seed, SLOT, leg, named)
    assert found[: len(drawn)] == drawn == looked_at(seed, SLOT, leg, None)
    assert found.count(TraceStretch(named, named + 1)) == 1
    assert len(found) <= len(drawn) + 1


@given(LEGS.filter(len), st.binary(min_size=32, max_size=32), st.data())
def test_nobody_computes_more_than_is_reckoned_with(leg: range, seed: bytes, data: st.DataObject) -> None:
    found = looked_at(seed, SLOT, leg, data.draw(st.sampled_from(leg)))
    segments = {segment for each in found for segment in range(each.first, each.end)}
    assert len(segments) <= looked_at_most(len(leg)) <= looked_at_most(leg.stop)
    assert all(each.first in leg and each.end - 1 in leg for each in found)


@pytest.mark.parametrize(
    ("segments", "most"), [(1, 1), (4, 4), (5, 5), (6, 5), (20, 5), (21, 6), (40, 9), (1_023, 208)]
)
def test_how_much_judges_compute_of_a_run(segments: int, most: int) -> None:
    assert looked_at_most(segments) == most
