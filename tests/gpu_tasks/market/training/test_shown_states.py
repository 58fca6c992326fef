"""Runs with a trace: drawn or named stretches, the deadline of their owner, and the penalty of silence."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.market.courts.events import CaseEnded
from gpu_tasks.market.courts.money import CaseOutcome
from gpu_tasks.market.draws import BEACON_DELAY
from gpu_tasks.market.training import events as ev
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.showing import (
    PARTS_DRAWN,
    PARTS_MAX,
    ShownStretch,
    TraceStretch,
    drawn_parts,
    judged_stretches,
    leg_segments,
    looked_at,
    looked_at_most,
    parts,
    refuted,
)
from gpu_tasks.market.training.tasks import Challenge, JudgedFor, TaskState, slot_case
from gpu_tasks.market.training.terms import covered
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.traces.trace import SEGMENTS_MAX, traced_state
from looked_at import DIGESTS, SEGMENTS, STOOD_BY, TRACE, disputed, judged, says, submitted
from priced_tasks import a_task
from runtime.cryptography.hashing import blake2_256
from runtime.pallets.beacon import Beacon
from simulation.chains.market_chain import CUSTOMER, OGPU, refused
from task_chain import COLLATERAL, PRICE, Books, TaskChain, with_offers

# ------------------------------------------------------------------------------------------------------------ stretches


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
    """Chain, provider and judges each draw by themselves, in programs of different versions."""
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


# ----------------------------------------------------------------------------------------------------------- on a chain


def to_show(chain: TaskChain, place: int = 0) -> tuple[TraceStretch, ...]:
    """Return the stretches that judges of a slot compute, by default Alice's."""
    return judged_stretches(chain.task, chain.now(), place)


def shown(chain: TaskChain, place: int = 0) -> tuple[ShownStretch, ...]:
    """Return the states that the slot's provider has to show."""
    return tuple(
        ShownStretch(traced_state(DIGESTS, each.first), traced_state(DIGESTS, each.end))
        for each in to_show(chain, place)
    )


def to_be_shown(segment: int | None = None) -> tuple[TaskChain, Books]:
    """Return a disputed task with a trace whose parts the beacon has drawn."""
    chain, books = disputed(root=TRACE, segments=SEGMENTS, segment=segment)
    assert chain.now().drawn is None
    while chain.now().drawn is None:
        chain.block()
    return chain, books


def test_segments_are_drawn_by_a_beacon_that_nobody_knows_when_they_are_asked_for() -> None:
    chain, _ = disputed(root=TRACE, segments=SEGMENTS)
    assert chain.now().beacon_at == chain.height + BEACON_DELAY


def test_nothing_is_shown_before_it_is_drawn() -> None:
    """An empty show before the draw would count as a complete one, and the judges would find no state."""
    chain, _ = disputed(root=TRACE, segments=SEGMENTS)
    call = TrainingMarket.show(task=chain.task, place=0, stretches=())
    refused(chain.alice.provider, call, ev.WrongTaskState)(chain.chain.now())


def test_who_is_drawn_hears_until_when_it_may_show() -> None:
    chain, _ = to_be_shown()
    (drawn,) = chain.happened(ev.SegmentsDrawn)
    assert (drawn.task, drawn.why) == (chain.task, JudgedFor.DISPUTE)
    assert drawn.show_until == chain.now().deadline == chain.height + 6


def test_parts_whose_beacon_was_forgotten_are_drawn_anew() -> None:
    """Otherwise a party that stalls finality would know the draw of a value that is no beacon's."""
    chain, _ = disputed(root=TRACE, segments=SEGMENTS)
    first = chain.now().beacon_at

    def forget(bound: Any) -> None:
        values = bound[Beacon].values
        for height, _ in list(values.items()):
            del values[height]

    while chain.now().beacon_at == first:
        assert chain.now().drawn is None
        chain.block(forget)
    while chain.now().drawn is None:
        chain.block()
    assert chain.now().drawn == chain.chain.now()[Beacon].value_at(chain.now().beacon_at)


def test_states_that_are_drawn_are_shown_and_then_judged() -> None:
    chain, books = to_be_shown()
    show = TrainingMarket.show(task=chain.task, place=0, stretches=shown(chain))
    chain.do(chain.alice, show)
    refused(chain.alice.provider, show, ev.DoneAlready)(chain.chain.now())
    chain.block()
    assert chain.state() is TaskState.JUDGED
    judged(chain, says(TRACE))
    assert books.change(chain.alice) > 0


def test_who_shows_nothing_has_lied_though_nobody_judges_it() -> None:
    chain, books = to_be_shown()
    chain.blocks(7)
    assert (chain.state(), chain.now().outcome) == (TaskState.ENDED, TaskOutcome.LIED)
    assert books.change(chain.alice) == -COLLATERAL
    assert books.change(CUSTOMER) == covered(PRICE, COLLATERAL) - STOOD_BY
    assert not chain.happened(CaseEnded)


@pytest.mark.parametrize("shows", [0, 1])
def test_of_a_gang_each_shows_its_own_and_who_does_not_has_lied(shows: int) -> None:
    chain = TaskChain(size=14)
    chain.submit(slots=2, segments=SEGMENTS)
    chain.auction(with_offers(chain.keys, 5 * OGPU, 6 * OGPU, 8 * OGPU))
    gang = chain.keys[:2]
    chain.start_all()
    chain.finish_all(TRACE)
    chain.dispute()
    while chain.now().drawn is None:
        chain.block()
    own, others = shown(chain, shows), shown(chain, 1 - shows)
    assert own != others, "each has its own draw"
    chain.do(gang[shows], TrainingMarket.show(task=chain.task, place=shows, stretches=others), ev.NotShown)
    chain.do(gang[shows], TrainingMarket.show(task=chain.task, place=shows, stretches=own))
    assert not chain.happened(ev.TaskJudged), "its partner has time"
    chain.block()
    assert chain.state() is TaskState.SHOWING
    chain.until(TaskState.JUDGED)
    assert (chain.now().cases, chain.now().slots[1 - shows].outcome) == (1, TaskOutcome.LIED)
    judged(chain, says(TRACE))
    found = chain.now().slots
    assert (found[shows].outcome, found[1 - shows].outcome) == (TaskOutcome.DISPUTED_FALSELY, TaskOutcome.LIED)


def test_a_wrong_segment_is_refuted_without_a_root_that_is_right() -> None:
    chain, books = to_be_shown()
    chain.do(chain.alice, TrainingMarket.show(task=chain.task, place=0, stretches=shown(chain)))
    assert judged(chain, says(refuted(TRACE))) is CaseOutcome.AUDIT_WRONG
    assert books.change(chain.alice) == -COLLATERAL


def test_only_what_was_drawn_and_is_in_the_trace_is_shown() -> None:
    chain, _ = to_be_shown()
    right = shown(chain)
    assert len(right) == PARTS_DRAWN
    other = next(number for number in range(SEGMENTS) if all(each.first != number for each in to_show(chain)))
    not_drawn = ShownStretch(traced_state(DIGESTS, other), traced_state(DIGESTS, other + 1))
    bent = replace(right[0], after=replace(right[0].after, digest=b"x" * 32))
    unfounded = replace(right[0], before=replace(right[0].before, digest=b"x" * 32))
    swapped = replace(right[0], before=right[0].after, after=right[0].before)
    for wrong in (
        (),
        right[1:],
        right[::-1],
        (not_drawn, *right[1:]),
        (bent, *right[1:]),
        (swapped, *right[1:]),
        (unfounded, *right[1:]),
    ):
        call = TrainingMarket.show(task=chain.task, place=0, stretches=wrong)
        refused(chain.alice.provider, call, ev.NotShown)(chain.chain.now())
    call = TrainingMarket.show(task=chain.task, place=0, stretches=right)
    refused(chain.bob.provider, call, ev.NotSlotOwner)(chain.chain.now())
    refused(CUSTOMER.stash, call, ev.NotSlotOwner)(chain.chain.now())


def test_the_segment_that_a_customer_names_is_shown_beside_those_that_are_drawn() -> None:
    drawn = {each.first for each in to_show(to_be_shown()[0])}
    for segment in range(SEGMENTS):
        chain, books = to_be_shown(segment)
        wanted = shown(chain)
        assert sorted(each.first for each in to_show(chain)) == sorted({*drawn, segment}), "once each"
        if segment in drawn:
            continue
        lacking = TrainingMarket.show(task=chain.task, place=0, stretches=wanted[:-1])
        refused(chain.alice.provider, lacking, ev.NotShown)(chain.chain.now())
        chain.do(chain.alice, TrainingMarket.show(task=chain.task, place=0, stretches=wanted))
        assert judged(chain, says(refuted(TRACE))) is CaseOutcome.AUDIT_WRONG
        assert books.change(chain.alice) == -COLLATERAL


@pytest.mark.parametrize(("segments", "segment"), [(SEGMENTS, SEGMENTS), (SEGMENTS, 65_535), (0, 0)])
def test_no_segment_is_named_that_is_not_there(segments: int, segment: int) -> None:
    chain = submitted(TaskChain(size=12), segments=segments)
    chain.dispute(segment, ev.NoSuchSegment)


def test_nobody_is_disputed_for_a_segment_that_another_one_ran() -> None:
    chain = submitted(TaskChain(size=12), root=TRACE, segments=SEGMENTS)
    taken_over = replace(chain.now(), behind=2)
    chain.block(lambda bound: bound[TrainingMarket].tasks.__setitem__(chain.task, taken_over))
    chain.dispute(SEGMENTS // 2 - 1, ev.NoSuchSegment)
    chain.dispute(SEGMENTS // 2)
    assert chain.now().named == SEGMENTS // 2
