"""Seats in cases about tasks: their names, and the time when a judge without needed data gives up."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock

import pytest

from gpu_tasks.market.courts.opinions import Statement, opinion_commitment
from gpu_tasks.market.training.tasks import JudgedFor, Slot, TaskResult, TaskState
from gpu_tasks.provider.duties.cases import GIVE_UP_BLOCKS, JudgeStep, Lacking, Search
from gpu_tasks.provider.duties.duty import Endings
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.duties.seats import UNANSWERABLE
from gpu_tasks.provider.tasks import judging_tasks
from gpu_tasks.provider.tasks.judging_tasks import TaskJudgeDuty
from gpu_tasks.provider.tasks.task_verdicts import TaskCase, unshown
from priced_tasks import a_task

NEWEST = 100
RESULT = TaskResult(b"r" * 32, b"b" * 32, 7)
SLOT = replace(Slot(b"o" * 32, b"d" * 32, 5, 50, 100), result=RESULT)


def a_case(*, drawn_at: int = 9, bench: int = 0, until: int = NEWEST + GIVE_UP_BLOCKS, **task: Any) -> TaskCase:
    """Return a seat in a case about a slot."""
    record: Any = SimpleNamespace(round=SimpleNamespace(drawn_at=drawn_at))
    seat: Any = SimpleNamespace(bench=bench)
    judged = a_task(state=TaskState.JUDGED, slots=(SLOT,), **task)
    return TaskCase(b"c" * 32, record, seat, until, until + 1, b"t" * 32, judged, 0)


def given_up(case: TaskCase, lacks: Lacking) -> Statement | None:
    """Return the opinion of a judge without some data."""
    duty = TaskJudgeDuty(cast(Parts[Any], SimpleNamespace()))
    return duty._given_up(case, Search(lacks), NEWEST)


def test_a_slot_that_is_judged_again_is_another_seat() -> None:
    seats = [a_case(drawn_at=drawn_at, bench=bench) for drawn_at in (9, 10) for bench in (0, 1, 2)]
    assert len({case.key for case in seats}) == len(seats)


@pytest.mark.parametrize("why", list(JudgedFor))
def test_an_input_that_is_not_to_be_had_is_the_answer_only_where_it_is_asked_about(why: JudgedFor) -> None:
    wanted = UNANSWERABLE if why is JudgedFor.INPUT else None
    assert given_up(a_case(judged_for=why), Lacking.INPUT) == wanted


def test_states_that_nobody_shows_are_wrong_and_what_a_machine_lacks_is_nobodys_fault() -> None:
    case = a_case(judged_for=JudgedFor.DISPUTE)
    assert given_up(case, Lacking.STATES) == unshown(case)
    assert given_up(case, Lacking.NOTHING) is None


@pytest.mark.parametrize("is_own", [True, False])
def test_an_opinion_is_shown_once_the_final_chain_holds_its_own_commitment(is_own: bool) -> None:
    case, told = a_case(), list[str]()
    entry = SimpleNamespace(statement=UNANSWERABLE, salt=b"s" * 32)
    own = opinion_commitment(b"g" * 32, case.id, case.seat.bench, b"j" * 32, UNANSWERABLE, entry.salt)

    async def final_seats() -> list[Any]:
        return [SimpleNamespace(id=case.id, seat=SimpleNamespace(commitment=own if is_own else b"x" * 32))]

    parts = SimpleNamespace(
        chain=SimpleNamespace(final_seats=final_seats),
        identity=SimpleNamespace(genesis=b"g" * 32, stash=b"j" * 32),
        journal=SimpleNamespace(cases={case.key: entry}),
        telemetry=SimpleNamespace(tell=lambda event, **_: told.append(event)),
    )
    duty = TaskJudgeDuty(cast(Parts[Any], parts))
    assert asyncio.run(duty._may_be_seen(case, JudgeStep.OPEN)) is is_own
    assert told == ([] if is_own else ["not_final"])


def test_nothing_is_left_of_a_case_that_is_over() -> None:
    """A judge sits in one case after another, for months, so its notes on each must be removed with it."""
    case, other = a_case(), a_case(bench=1)
    duty = TaskJudgeDuty(cast(Parts[Any], SimpleNamespace()))
    for each in (case, other):
        duty._searches[each.key] = Search(Lacking.STATES)
        duty._seen_final.add(each.key)
    duty.learn(Endings(cases=[case.key]))
    assert (set(duty._searches), duty._seen_final) == ({other.key}, {other.key})
    duty.learn(Endings(cases=[case.key]))  # the journal may repeat that


@pytest.mark.parametrize("lacks", [Lacking.INPUT, Lacking.STATES])
def test_nothing_is_given_up_while_there_is_time(lacks: Lacking) -> None:
    early = NEWEST + GIVE_UP_BLOCKS + 1
    assert given_up(a_case(judged_for=JudgedFor.INPUT, until=early), lacks) is None
    assert given_up(a_case(judged_for=JudgedFor.INPUT, until=0), lacks) is None, "commits have not begun"


CHANGES: dict[str, Any] = {
    "nothing": {},
    "no task": None,
    "another order": {"order": replace(a_task().order, loss=1)},
    "another result": {"slots": (replace(SLOT, result=replace(RESULT, root=b"x" * 32)),)},
    "no slot": {"slots": ()},
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_was_judged_is_what_the_final_chain_asks_for(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A node that shows another task makes its judges commit to an opinion about that, which costs their seats."""
    case, told, kept = a_case(), list[str](), list[Statement]()
    change = CHANGES[name]

    async def tasks(_ids: list[bytes], *, final: bool) -> dict[bytes, Any]:
        assert final
        return {} if change is None else {case.task_id: replace(case.task, **change)}

    async def nothing(*_: object) -> None:
        """Do nothing: this test has no commitment."""

    parts = SimpleNamespace(
        chain=SimpleNamespace(tasks=tasks), telemetry=SimpleNamespace(tell=lambda event, **_: told.append(event))
    )
    duty = TaskJudgeDuty(cast(Parts[Any], parts))
    monkeypatch.setattr(judging_tasks, "find_task_verdict", AsyncMock(return_value=UNANSWERABLE))
    monkeypatch.setattr(duty, "_keep", lambda _, statement: kept.append(statement))
    monkeypatch.setattr(duty, "_take_if_due", nothing)
    asyncio.run(duty._judge(case, Search()))
    assert (kept, told) == (([UNANSWERABLE], []) if name == "nothing" else ([], ["no_verdict"]))
