"""Notes that wait for a broker: in order, bounded, the least important dropped first."""

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.provider.watching import outbox as outbox_module
from gpu_tasks.provider.watching.outbox import NoteOutbox, WaitingNote
from gpu_tasks.telemetry.envelope import Channel, TaskSubject
from gpu_tasks.telemetry.notes import EventNote

TASK = TaskSubject(b"t" * 32, 0)
STATUS, LOG, METRICS = Channel.STATUS, Channel.LOG, Channel.METRICS


def note(channel: Channel, number: int = 0, subject: TaskSubject = TASK) -> WaitingNote:
    return WaitingNote(subject, channel, EventNote(str(number), ()), number)


def emptied(outbox: NoteOutbox) -> list[WaitingNote]:
    async def main() -> list[WaitingNote]:
        found = []
        while len(outbox):
            found.append(await outbox.first())
            outbox.sent(found[-1])
        return found

    return asyncio.run(main())


def filled(monkeypatch: pytest.MonkeyPatch, most: int, *notes: WaitingNote) -> NoteOutbox:
    monkeypatch.setattr(outbox_module, "NOTES_MAX", most)
    outbox = NoteOutbox()
    for each in notes:
        outbox.put(each)
    return outbox


def test_notes_go_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    notes = [note(channel, number) for number, channel in enumerate((STATUS, METRICS, LOG))]
    assert emptied(filled(monkeypatch, 3, *notes)) == notes


@pytest.mark.parametrize(
    ("channels", "left"),
    [
        ((STATUS, LOG, METRICS, STATUS), [0, 1, 3]),
        ((STATUS, STATUS, LOG, STATUS), [0, 1, 3]),
        ((STATUS, STATUS, STATUS, STATUS), [0, 2, 3]),
        ((METRICS, STATUS, METRICS, METRICS), [0, 1, 3]),
        ((METRICS, STATUS, STATUS, METRICS), [0, 1, 2]),
    ],
)
def test_what_is_missed_least_is_thrown_away(
    monkeypatch: pytest.MonkeyPatch, channels: tuple[Channel, ...], left: list[int]
) -> None:
    """The first one may be in transit, so it stays, of any kind."""
    notes = [note(channel, number) for number, channel in enumerate(channels)]
    outbox = filled(monkeypatch, 3, *notes)
    assert [each.told_at_ms for each in emptied(outbox)] == left


def test_what_was_thrown_away_is_said_once_and_of_its_channel(monkeypatch: pytest.MonkeyPatch) -> None:
    other = TaskSubject(b"u" * 32, 0)
    outbox = filled(monkeypatch, 2, note(STATUS), note(METRICS), note(METRICS), note(METRICS), note(METRICS, 0, other))
    assert outbox.take_dropped(note(STATUS)) == 0
    assert outbox.take_dropped(note(METRICS, 0, other)) == 0
    assert outbox.take_dropped(note(METRICS)) == 3
    assert outbox.take_dropped(note(METRICS)) == 0


def test_of_a_subject_that_is_over_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    outbox = filled(monkeypatch, 1, note(STATUS), note(METRICS))
    outbox.forget(TASK)
    assert outbox.take_dropped(note(METRICS)) == 0


def test_equal_notes_are_different_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = note(METRICS), note(METRICS)
    outbox = filled(monkeypatch, 5, first, second)
    outbox.sent(second)
    assert len(outbox) == 2
    outbox.sent(first)
    assert len(outbox) == 1


async def test_who_waits_for_a_note_gets_it() -> None:
    outbox = NoteOutbox()
    waiting = asyncio.create_task(outbox.first())
    await asyncio.sleep(0)
    outbox.put(note(LOG, 7))
    assert (await asyncio.wait_for(waiting, 5)).told_at_ms == 7
    assert len(outbox) == 1


@given(st.lists(st.sampled_from((STATUS, LOG, METRICS)), max_size=60), st.integers(1, 8))
def test_none_is_lost_uncounted_and_order_stays(channels: list[Channel], most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        outbox = filled(patch, most, *(note(channel, number) for number, channel in enumerate(channels)))
        assert len(outbox) == min(len(channels), most)
        dropped = sum(outbox.take_dropped(note(channel)) for channel in Channel)
        left = emptied(outbox)
    assert dropped + len(left) == len(channels)
    assert all(earlier.told_at_ms < later.told_at_ms for earlier, later in pairwise(left))
