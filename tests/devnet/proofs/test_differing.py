"""The bars of a batch whose racers differ: each with a trace that breaks it, and the figures."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from devnet.proofs.cheats.differing import DIFFERING_SCENES, DisputeTrace, computations_of, failures_of, figures_of
from devnet.stage.cheating.executors import BentMiddle, bent_place
from gpu_tasks.market.courts.cases import CaseKind, PartyFault
from gpu_tasks.market.courts.events import CaseEnded, CaseOpened, OpinionOpened
from gpu_tasks.market.courts.money import CaseOutcome
from gpu_tasks.market.courts.opinions import Answered, Statement
from gpu_tasks.market.inference.events import ProviderSlashed, UnitDisputed, UnitSettled
from gpu_tasks.market.leaf_disputes.events import LeafDisputed, NodesAsked, NodesShown, TreeWithheld
from gpu_tasks.provider.execution.executor import Finished, ManyExecuted

ONE, SUBTREES, HIDDEN = DIFFERING_SCENES
UNIT, OTHER, LIAR, HONEST, DEVICE = (bytes([number]) * 32 for number in range(1, 6))
RIGHT, WRONG = b"r" * 32, b"w" * 32
OPENED = OpinionOpened(UNIT, b"j" * 32, Statement(Answered(RIGHT), bytes(32)))
SLASHED = ProviderSlashed(UNIT, LIAR, DEVICE, PartyFault.LIED, 350)
SETTLED = UnitSettled(UNIT, RIGHT, RIGHT, HONEST, 100, None, 130)
COMPUTED: dict[str, Any] = {"event": "recomputed", "unit": UNIT.hex(), "leaf": 32}
EVENTS: tuple[tuple[int, Any], ...] = (
    (12, UnitDisputed(UNIT)),
    (12, NodesAsked(UNIT, 0, 112)),
    (13, NodesShown(UNIT, LIAR, WRONG)),
    (14, NodesShown(UNIT, HONEST, RIGHT)),
    (15, LeafDisputed(UNIT, 32)),
    (15, CaseOpened(UNIT, 9, CaseKind.DISPUTE)),
    (18, OPENED),
    (20, SLASHED),
    (20, CaseEnded(UNIT, CaseOutcome.DECIDED, Answered(RIGHT))),
    (20, SETTLED),
)
WITHHELD: tuple[tuple[int, Any], ...] = (
    (12, UnitDisputed(UNIT)),
    (12, NodesAsked(UNIT, 0, 112)),
    (14, NodesShown(UNIT, HONEST, RIGHT)),
    (113, TreeWithheld(UNIT, WRONG)),
    (113, SLASHED),
    (113, SETTLED),
)
TWO_STEPS: tuple[tuple[int, Any], ...] = (
    (12, NodesAsked(UNIT, None, 112)),
    (13, NodesShown(UNIT, LIAR, WRONG)),
    (40, NodesShown(UNIT, HONEST, RIGHT)),
    (41, NodesAsked(UNIT, 1, 141)),
    (42, NodesShown(UNIT, LIAR, WRONG)),
    (42, NodesShown(UNIT, HONEST, RIGHT)),
    (43, LeafDisputed(UNIT, 100)),
    *EVENTS[5:],
)


ROW = {"batch": "0x" + UNIT.hex(), "asked_for": "upper nodes", "until_block": 112, "shown": False}


def traced(events: tuple[tuple[int, Any], ...], *computed: dict[str, Any], **changed: Any) -> DisputeTrace:
    trace = DisputeTrace(
        unit=UNIT, closed_at=10, collaterals={LIAR: 350, HONEST: 350}, leaf_tokens=40, batch_tokens=2_500
    )
    for height, event in events:
        trace.take(height, event)
    trace.computations = list(computed)
    trace.dispute_stage, trace.disputes_to_show = "leaves", []
    return replace(trace, **changed)


def test_what_is_as_it_should_be_passes_with_its_figures() -> None:
    trace = traced(EVENTS, COMPUTED)
    assert failures_of(ONE, trace, LIAR, HONEST) == []
    found = figures_of(ONE, trace, LIAR)
    assert (found.disputed, found.shown, found.paid) == (2, 4, 10)
    assert (found.judges, found.judged_tokens, found.whole_tokens) == (1, 40, 2_500)
    assert (found.lost, found.collateral, found.price) == (350, 350, 100)
    assert failures_of(HIDDEN, traced(WITHHELD), LIAR, HONEST) == []
    away = traced(TWO_STEPS, COMPUTED | {"leaf": 100}, returned_at=35, disputes_to_show=[ROW])
    assert failures_of(SUBTREES, away, LIAR, HONEST) == []


def test_events_of_other_units_say_nothing() -> None:
    trace = traced((*EVENTS, (21, replace(SETTLED, unit=OTHER)), (21, CaseOpened(OTHER, 9, CaseKind.DISPUTE))))
    assert (len(trace.all(CaseOpened)), len(trace.all(UnitSettled))) == (1, 1)
    lines = [COMPUTED, COMPUTED | {"unit": OTHER.hex()}, {"event": "ended", "unit": UNIT.hex()}, {"event": "drained"}]
    assert computations_of(UNIT, lines) == [COMPUTED]


@pytest.mark.parametrize(
    ("trace", "says"),
    [
        (traced(EVENTS[:-1], COMPUTED), "to be paid once: 0 payments"),
        (traced((*EVENTS[:-1], (20, replace(SETTLED, winner=LIAR))), COMPUTED), "to be paid once: 1 payments"),
        (traced(EVENTS, COMPUTED, collaterals={LIAR: 351}), "lose all that it held"),
        (traced((*EVENTS, (21, replace(SLASHED, provider=HONEST))), COMPUTED), "lose all that it held"),
        (traced((*EVENTS, (16, NodesAsked(UNIT, 1, 120))), COMPUTED), "asked for were the nodes"),
        (traced((*EVENTS, (16, NodesShown(UNIT, LIAR, WRONG))), COMPUTED), "the liar showed nodes 2 times"),
        (traced((*EVENTS, (16, LeafDisputed(UNIT, 33))), COMPUTED), "were judged, and not 32 alone"),
        (traced((*EVENTS, (16, CaseOpened(UNIT, 9, CaseKind.DISPUTE))), COMPUTED), "2 cases"),
        (traced(EVENTS, COMPUTED, {"event": "refuted", "unit": UNIT.hex()}), "computed more than the leaf"),
        (traced(EVENTS, COMPUTED | {"leaf": 31}), "computed more than the leaf"),
        (traced(EVENTS), "1 opinions, and 0 computations"),
        (traced((*EVENTS, (16, TreeWithheld(UNIT, WRONG))), COMPUTED), "1 trees were withheld"),
    ],
)
def test_what_breaks_a_bar_is_said(trace: DisputeTrace, says: str) -> None:
    assert any(says in failure for failure in failures_of(ONE, trace, LIAR, HONEST))


@pytest.mark.parametrize(
    ("trace", "says"),
    [
        (traced(WITHHELD, COMPUTED), "1 computations, where one tree is left"),
        (traced((*WITHHELD, (50, CaseOpened(UNIT, 9, CaseKind.DISPUTE)))), "1 cases"),
        (traced((*WITHHELD[:3], *WITHHELD[4:])), "0 trees were withheld, and not one"),
        (traced((*WITHHELD, (50, NodesShown(UNIT, LIAR, WRONG)))), "the liar showed nodes 1 times"),
        (traced(WITHHELD, dispute_stage=None), "dispute stage None"),
        (traced(WITHHELD, dispute_stage="judged"), "dispute stage judged"),
        (traced(WITHHELD, disputes_to_show=[ROW]), "status listed"),
        (traced(WITHHELD, disputes_to_show=None), "status listed"),
    ],
)
def test_who_hides_its_tree_is_judged_by_nobody(trace: DisputeTrace, says: str) -> None:
    assert any(says in failure for failure in failures_of(HIDDEN, trace, LIAR, HONEST))


@pytest.mark.parametrize("returned_at", [0, 42])
def test_a_kill_that_came_too_late_proves_nothing(returned_at: int) -> None:
    trace = traced(TWO_STEPS, COMPUTED | {"leaf": 100}, returned_at=returned_at, disputes_to_show=[ROW])
    assert failures_of(SUBTREES, trace, LIAR, HONEST) == [
        "the honest daemon was to be killed, and to show nodes when it was back"
    ]


@pytest.mark.parametrize("rows", [[], [ROW | {"shown": True}], [ROW | {"batch": "0x" + OTHER.hex()}]])
def test_a_status_that_does_not_name_the_batch_is_said(rows: list[dict[str, Any]]) -> None:
    trace = traced(TWO_STEPS, COMPUTED | {"leaf": 100}, returned_at=35, disputes_to_show=rows)
    (failure,) = failures_of(SUBTREES, trace, LIAR, HONEST)
    assert "status listed" in failure


class Right:
    """An executor that answers with the request itself."""

    async def run_many(self, requests: Sequence[bytes], finished: Finished) -> ManyExecuted:
        finished([(place, request) for place, request in enumerate(requests[:2])])
        finished([(place, request) for place, request in enumerate(requests)][2:])
        return ManyExecuted(1, 1, 1)


def test_the_cheat_answers_one_request_in_the_middle_wrongly() -> None:
    given: dict[int, bytes | None] = {}
    requests = [b"a%d" % number for number in range(7)]
    cheat = BentMiddle(Right())  # type: ignore[arg-type]  # all that it asks of it
    asyncio.run(cheat.run_many(requests, given.update))
    assert [place for place, request in enumerate(requests) if given[place] != request] == [3] == [bent_place(7)]
