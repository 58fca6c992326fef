"""The required events of a random run, and the missing ones by name."""

import pytest

from genesis.chain import PALLETS, VERSION, runtime_of
from genesis.presets import load_spec
from gpu_tasks.market.claims.claim_events import CheckEnded, ClaimEnded
from gpu_tasks.market.claims.claims import CheckEnd, ClaimOutcome
from gpu_tasks.market.claims.collateral import PPM
from gpu_tasks.market.claims.dispute_events import DisputeEnded, DisputeOpened
from gpu_tasks.market.claims.disputes import DisputeQuestion
from gpu_tasks.market.claims.findings import CANNOT_FETCH
from gpu_tasks.market.sessions.events import SessionEnded
from gpu_tasks.market.sessions.records import SessionEnd
from gpu_tasks.market.training.events import TaskDisputed
from gpu_tasks.market.training.training_market import TrainingMarket
from runtime.encoding.types import Signed
from runtime.frame.pallet import HoldReason, Pallet, call, event
from runtime.frame.runtime import Runtime
from runtime.pallets.system import System
from simulation.books import blind_spots
from simulation.catalogue import WORLDS
from simulation.economy.claim_watch import DRAWN, ENDS, EXPECTED, FOUND
from simulation.economy.figures import (
    ALL_SEEN_FROM_STEPS,
    CLAIM_ENDS,
    LIVELY_FROM_STEPS,
    SETTLED_SESSIONS_MIN,
    UNDECIDED,
    Tally,
    claim_ends,
    lacks,
    session_ends,
)


class Novelties(Pallet, index=99):
    """A pallet that the economy does not know."""

    hold_reasons = (HoldReason("Novelty", "Nobody knows."),)

    @call(index=0)
    def invent(self, origin: Signed) -> None:
        """Something new."""


@event(0)
class Invented:
    """It is there."""


Novelties.events = (Invented,)


def test_the_books_know_every_reason_of_the_chain() -> None:
    assert not blind_spots(runtime_of(load_spec("local")), WORLDS)


def test_what_the_books_would_not_know_of_a_new_pallet_is_named() -> None:
    found = blind_spots(Runtime((*PALLETS, Novelties), VERSION), WORLDS)
    assert [line.rpartition(" ")[2] for line in found] == ["Novelties.Novelty"]


def test_a_call_that_was_never_made_and_an_event_that_never_happened_are_named() -> None:
    tally, runtime = Tally(), Runtime((System, Novelties), VERSION)
    tally.steps["taken"] = tally.calls["Novelties.invent"] = ALL_SEEN_FROM_STEPS
    long_run = lacks(tally, runtime)
    assert "Invented never happens" in long_run
    tally.steps["taken"] = LIVELY_FROM_STEPS
    shorter = lacks(tally, runtime)
    assert "Invented never happens" not in shorter, "a few kinds of events are seldom"
    for found in (long_run, shorter):
        assert "no extrinsic calls System.remark" in found
        assert any("kinds of errors" in line for line in found)
    assert {f"never {end}" for end in (*CLAIM_ENDS, *ENDS)} <= set(long_run)
    assert "Novelties.invent never succeeds" in long_run
    assert "Novelties.invent never succeeds" not in shorter, "a few calls succeed seldom"
    tally.calls["System.remark"] = tally.calls["System.remark_with_event"] = 1
    assert {f"{name} never succeeds" for name in tally.calls} <= set(lacks(tally, runtime)), "these are too many"
    tally.steps["taken"] -= 1
    assert not lacks(tally, runtime), "a short run is asked for its books alone"


@pytest.mark.parametrize(("found", "is_misdrawn"), [(59, True), (61, False), (139, False), (141, True)])
def test_false_items_are_drawn_at_their_rate(found: int, *, is_misdrawn: bool) -> None:
    tally, runtime = Tally(), Runtime((System, Novelties), VERSION)
    tally.steps["taken"] = tally.calls["System.remark"] = LIVELY_FROM_STEPS
    tally.draws.update({f"task: {FOUND}": found, f"task: {EXPECTED}": 100 * PPM})
    assert any("false items of tasks" in line for line in lacks(tally, runtime)) is is_misdrawn


@pytest.mark.parametrize(("paid", "is_bad"), [(13, False), (14, True)])
def test_few_drawn_lies_are_paid(paid: int, *, is_bad: bool) -> None:
    tally, runtime = Tally(), Runtime((System, Novelties), VERSION)
    tally.steps["taken"] = tally.calls["System.remark"] = LIVELY_FROM_STEPS
    tally.truths.update({f"task: {DRAWN} REFUTED": 100, f"task: {DRAWN} PASSED": paid})
    assert any("drawn lies about tasks" in line for line in lacks(tally, runtime)) is is_bad


def test_a_long_run_settles_many_sessions() -> None:
    tally, runtime = Tally(), Runtime((System, Novelties), VERSION)
    tally.steps["taken"] = tally.calls["System.remark"] = ALL_SEEN_FROM_STEPS
    session = bytes(32)
    ends = session_ends((SessionEnded(session, SessionEnd.SETTLED, 1), SessionEnded(session, SessionEnd.NO_PLACE, 0)))
    tally.sessions.update(ends)
    found = lacks(tally, runtime)
    assert "no session ends as WITHDRAWN" in found
    assert "no session ends as NO_PLACE" not in found
    too_few = f"fewer than {SETTLED_SESSIONS_MIN:,} sessions are settled"
    assert too_few in found
    tally.sessions["SETTLED"] = SETTLED_SESSIONS_MIN
    assert too_few not in lacks(tally, runtime)


def test_the_ends_of_claims_are_read_off_the_events() -> None:
    claim = bytes(32)
    events = (
        ClaimEnded(claim, ClaimOutcome.RETURNED),
        CheckEnded(claim, 0, CheckEnd.SILENT),
        DisputeEnded(claim, CANNOT_FETCH),
        DisputeEnded(claim, None),
        DisputeOpened(claim, TrainingMarket.index, DisputeQuestion.SIDES),
        TaskDisputed(claim, claim, DisputeQuestion.SIDES),
    )
    ends = list(claim_ends(events))
    asked = "TrainingMarket asks about SIDES"
    assert ends == ["claim RETURNED", "check SILENT", "dispute UNAVAILABLE", UNDECIDED, asked]
    assert set(ends) <= set(CLAIM_ENDS)
