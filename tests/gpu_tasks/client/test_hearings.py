"""What a customer is told of a unit that judges look at: why they do, what they do now, and until when."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from gpu_tasks.client.units.wait_reasons import why_differing, why_heard, why_judging
from gpu_tasks.market.courts.cases import CaseKind, CaseRules, CaseStage, CaseTerms, ClaimKind, CourtCase, PartyClaim
from gpu_tasks.market.courts.courts_api import CaseStatus
from gpu_tasks.market.inference.units import Unit, UnitTerms
from gpu_tasks.market.leaf_disputes.disputes import DisputeStage, LeafDispute, Side
from gpu_tasks.market.rounds import Round

ROOT, OTHER = b"r" * 32, b"o" * 32
TERMS = CaseTerms(b"c" * 32, 100, 5, 100, 0, 1_900, 0, 3, 30, (), ())
CASE = CourtCase(
    10, CaseKind.DISPUTE, TERMS, 50, 2_000, CaseRules(50_000, 33, 20, 12, 20), None, CaseStage.COMMITTEE, 9
)


def said(*claims: tuple[ClaimKind, bytes | None], **changed: Any) -> CourtCase:
    parties = tuple(PartyClaim(bytes([place]) * 32, kind, root, 1_900) for place, (kind, root) in enumerate(claims))
    return replace(CASE, terms=replace(TERMS, claims=parties), **changed)


ANSWERS = ((ClaimKind.ANSWERED, ROOT), (ClaimKind.ANSWERED, OTHER))


@pytest.mark.parametrize(
    ("claims", "cause"),
    [
        (ANSWERS, "its racers gave different answers"),
        (((ClaimKind.ANSWERED, ROOT), (ClaimKind.ABSENT, None)), "one answer came where more were asked for"),
        (((ClaimKind.DECLINED, None), (ClaimKind.DECLINED, None)), "2 providers could not use its input"),
        (((ClaimKind.WITHHELD, None), (ClaimKind.WITHHELD, None)), "no answer was opened in time"),
    ],
)
def test_what_brought_it_there_is_said(claims: tuple[tuple[ClaimKind, bytes | None], ...], cause: str) -> None:
    assert why_judging(CaseStatus(said(*claims), 0, 0, 0)) == f"{cause}; a committee will be drawn"


@pytest.mark.parametrize(
    ("changed", "clocks", "step"),
    [
        ({"stage": CaseStage.PAIR}, (0, 0, 0), "a pair of judges will be drawn"),
        ({"stage": CaseStage.COURT, "round": Round(12)}, (0, 0, 0), "a court computes it again"),
        ({"round": Round(12)}, (40, 0, 0), "a committee computes it again, at the latest up to block 40"),
        ({"round": Round(12)}, (40, 42, 54), "a committee opens what it found, at the latest in block 54"),
        (
            {"stage": CaseStage.APPEALABLE, "appealable_until": 70},
            (0, 0, 0),
            "judges have decided, which stands if nobody appeals up to block 70",
        ),
    ],
)
def test_what_judges_do_now_is_said(changed: dict[str, Any], clocks: tuple[int, int, int], step: str) -> None:
    assert why_judging(CaseStatus(said(*ANSWERS, **changed), *clocks)) == f"its racers gave different answers; {step}"


SIDES = (Side(ROOT, (b"a" * 32,)), Side(OTHER, (b"b" * 32,)))
DISPUTE = LeafDispute(3, 200, SIDES, 100, DisputeStage.SUBTREES, deadline=140)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, "its racers differ; both show their trees until block 140, none so far"),
        (
            {"stage": DisputeStage.LEAVES, "sides": (replace(SIDES[0], has_shown=True), SIDES[1])},
            "its racers differ; both show their leaves until block 140, 1 so far",
        ),
        (
            {"sides": (*SIDES, Side(b"t" * 32, (b"c" * 32,)))},
            "its racers differ; all 3 sides show their trees until block 140, none so far",
        ),
    ],
)
def test_what_racers_of_a_batch_show_is_said(changed: dict[str, Any], said: str) -> None:
    assert why_differing(replace(DISPUTE, **changed)) == said


def test_the_leaf_that_judges_compute_is_named() -> None:
    status = CaseStatus(replace(said(*ANSWERS), round=Round(12)), 40, 0, 0)
    leaf = "its racers differ first in leaf 100, which alone is judged"
    assert why_judging(status, 100) == f"{leaf}; a committee computes it again, at the latest up to block 40"


class ToldOf:
    """Stands for a client: what the chain says of a dispute and of a case."""

    def __init__(self, dispute: LeafDispute | None, case: CaseStatus | None) -> None:
        self.answers = {"LeafDisputesApi_dispute": dispute, "CourtsApi_case": case}

    async def query(self, function: str, *arguments: Any, at: bytes | None = None) -> Any:
        assert (arguments, at) == ((UNIT_ID,), AT)
        return self.answers[function]


UNIT_ID, AT = b"u" * 32, b"b" * 32
JUDGED = replace(DISPUTE, stage=DisputeStage.JUDGED, leaf=100, deadline=0)
BATCH = Unit(0, b"c" * 32, UnitTerms(100, 2, bytes(32), bytes(32), 1, 64, 200), 0, 0, 0, 1, 1, leaf_audit_ppm=1)


@pytest.mark.parametrize(
    ("dispute", "case", "unit", "begins"),
    [
        (DISPUTE, None, BATCH, "its racers differ; both show their trees"),
        (JUDGED, CaseStatus(said(*ANSWERS), 0, 0, 0), BATCH, "its racers differ first in leaf 100, which alone"),
        (None, CaseStatus(said(*ANSWERS), 0, 0, 0), BATCH, "its racers gave different answers; a committee"),
        (DISPUTE, CaseStatus(said(*ANSWERS), 0, 0, 0), replace(BATCH, leaf_audit_ppm=0), "its racers gave different"),
        (None, None, BATCH, None),
        (JUDGED, None, BATCH, None),
    ],
)
def test_what_is_said_follows_the_stage(
    dispute: LeafDispute | None, case: CaseStatus | None, unit: Unit, begins: str | None
) -> None:
    client: Any = ToldOf(dispute, case)
    told = asyncio.run(why_heard(client, UNIT_ID, unit, AT))
    assert told is None if begins is None else told is not None and told.startswith(begins)
