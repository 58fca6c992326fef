"""Devices' use of time: each is in one state at a time, so the times add up to the passed time."""

import contextlib
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.provider.execution.device_times import (
    Activity,
    DeviceTimes,
    IdleNote,
    Present,
    Spent,
    TimedState,
    WhyIdle,
)

DEVICE, OTHER = b"d" * 32, b"o" * 32


class Scene:
    """Devices with a clock and a reason that the test sets."""

    def __init__(self) -> None:
        self.now = 1_000
        self.why = WhyIdle.NOT_ASKED
        self.times = DeviceTimes(lambda: self.now)
        self.times.why = lambda _: IdleNote(self.why, self.why.value)
        self.times.add(DEVICE)

    def spent(self) -> dict[TimedState, int]:
        return dict(self.times.take()[DEVICE].ms)


@pytest.mark.parametrize("activity", Activity)
def test_what_is_computed_is_timed_by_what_it_is_for(activity: Activity) -> None:
    scene = Scene()
    scene.now += 3
    with scene.times.at(DEVICE, activity):
        assert not scene.times.is_idle(DEVICE)
        scene.now += 5
    scene.now += 7
    assert scene.times.is_idle(DEVICE)
    assert scene.spent() == {activity: 5, WhyIdle.NOT_ASKED: 10}
    assert scene.spent() == {}, "what was told is told once"


def test_of_two_things_at_once_the_first_counts_until_it_ends() -> None:
    scene = Scene()
    with scene.times.at(DEVICE, Activity.ROLL_CALLS):
        scene.now += 1
        with scene.times.at(DEVICE, Activity.UNITS):
            scene.now += 2
        scene.now += 4
    assert scene.spent() == {Activity.ROLL_CALLS: 5, Activity.UNITS: 2}


def test_work_that_fails_ends_too() -> None:
    scene = Scene()
    with contextlib.suppress(RuntimeError), scene.times.at(DEVICE, Activity.UNITS):
        scene.now += 2
        raise RuntimeError
    scene.now += 3
    assert scene.spent() == {Activity.UNITS: 2, WhyIdle.NOT_ASKED: 3}


def test_why_it_stands_still_is_looked_at_as_it_stops_and_when_something_changed() -> None:
    scene = Scene()
    with scene.times.at(DEVICE, Activity.UNITS):
        scene.why = WhyIdle.CHAIN
        scene.now += 1
    scene.now += 2
    scene.why = WhyIdle.PRICE
    scene.times.look()
    scene.now += 3
    assert scene.times.present() == {DEVICE: Present(WhyIdle.PRICE, "price", 3)}
    assert scene.spent() == {Activity.UNITS: 1, WhyIdle.CHAIN: 2, WhyIdle.PRICE: 3}
    scene.times.look()
    scene.now += 4
    assert scene.times.present()[DEVICE].ms == 7, "the same reason goes on"


def test_who_is_not_followed_is_not_timed() -> None:
    scene = Scene()
    with scene.times.at(OTHER, Activity.VOTES):
        scene.now += 1
    scene.times.note_tokens(OTHER, 5)
    scene.times.note_tokens(DEVICE, 7)
    assert scene.times.take() == {DEVICE: Spent({WhyIdle.NOT_ASKED: 1}, 7)}
    assert not scene.times.is_idle(OTHER)


steps = st.lists(
    st.tuples(
        st.sampled_from(["begin", "end", "look", "take", "add"]),
        st.sampled_from([DEVICE, OTHER]),
        st.sampled_from(Activity),
        st.sampled_from(WhyIdle),
        st.integers(0, 50),
    ),
    max_size=60,
)


@given(steps)
def test_times_add_up_to_the_time_that_passed_and_none_is_negative(
    taken: list[tuple[str, bytes, Activity, WhyIdle, int]],
) -> None:
    scene, began = Scene(), {DEVICE: 1_000}
    at_work: list[contextlib.AbstractContextManager[None]] = []
    total: dict[bytes, Counter[TimedState]] = {DEVICE: Counter(), OTHER: Counter()}

    def take() -> None:
        for device, spent in scene.times.take().items():
            assert all(ms > 0 for ms in spent.ms.values())
            total[device].update(spent.ms)

    for step, device, activity, why, passed in taken:
        if step == "begin":
            at_work.append(scene.times.at(device, activity))
            at_work[-1].__enter__()
        elif step == "end" and at_work:
            at_work.pop(0).__exit__(None, None, None)
        elif step == "look":
            scene.why = why
            scene.times.look()
        elif step == "take":
            take()
        elif step == "add" and OTHER not in began:
            began[OTHER] = scene.now
            scene.times.add(OTHER)
        scene.now += passed
    take()
    assert {device: total[device].total() for device in began} == {
        device: scene.now - at for device, at in began.items()
    }
