"""The required events of a random run, and the missing ones by name."""

from genesis.chain import PALLETS, VERSION, runtime_of
from genesis.presets import load_spec
from gpu_tasks.market.claims.claim_events import CheckEnded, ClaimEnded
from gpu_tasks.market.claims.claims import CheckEnd, ClaimOutcome
from gpu_tasks.market.claims.dispute_events import DisputeEnded
from gpu_tasks.market.claims.findings import CANNOT_FETCH
from gpu_tasks.market.courts.benches import BenchKind
from gpu_tasks.market.courts.cases import CaseKind
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.courts.events import BenchDrawn, CaseAppealed, CaseEnded, CaseOpened, JudgeCharged
from gpu_tasks.market.courts.money import CaseOutcome
from gpu_tasks.market.devices.events import ProviderUnregistered
from runtime.encoding.types import Signed
from runtime.frame.pallet import HoldReason, Pallet, call, event
from runtime.frame.runtime import Runtime
from runtime.pallets.system import System
from simulation.actors import ACTORS
from simulation.books import blind_spots
from simulation.catalogue import WORLDS
from simulation.economy.figures import (
    ALL_SEEN_FROM_STEPS,
    CLAIM_ENDS,
    CONVICTED,
    EXPECTED,
    EXPELLED,
    FINED,
    LIVELY_FROM_STEPS,
    RARE,
    UNDECIDED,
    Tally,
    claim_ends,
    doings,
    lacks,
)

ALICE = ACTORS[0].stash.account


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


def test_the_books_know_every_reason_of_the_chain_and_its_courts() -> None:
    assert not blind_spots(runtime_of(load_spec("local")), WORLDS)
    assert not blind_spots(Runtime(tuple(dict.fromkeys((*PALLETS, Courts))), VERSION), WORLDS)


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
        assert "no court: ended APPEAL_LOST" in found
    assert {f"never {end}" for end in CLAIM_ENDS} <= set(long_run)
    assert "Novelties.invent never succeeds" in long_run
    assert "Novelties.invent never succeeds" not in shorter, "a few calls succeed seldom"
    tally.calls["System.remark"] = tally.calls["System.remark_with_event"] = 1
    assert {f"{name} never succeeds" for name in tally.calls} <= set(lacks(tally, runtime)), "these are too many"
    tally.steps["taken"] -= 1
    assert not lacks(tally, runtime), "a short run is asked for its books alone"


def test_what_a_court_may_seldom_do_is_asked_for_in_long_runs_alone() -> None:
    tally, runtime = Tally(), Runtime((System, Novelties), VERSION)
    tally.calls["System.remark"] = 1
    tally.courts.update(doing for doing in EXPECTED if doing not in RARE)
    for steps, missing in (
        (LIVELY_FROM_STEPS, set[str]()),
        (ALL_SEEN_FROM_STEPS, {f"no court: {name}" for name in RARE}),
    ):
        tally.steps["taken"] = steps
        assert {line for line in lacks(tally, runtime) if line.startswith("no court")} == missing
    assert set(EXPECTED) > RARE


def test_what_the_courts_did_is_read_off_the_events_of_hooks() -> None:
    case, judge = bytes(32), ALICE
    events = (
        CaseOpened(case, 13, CaseKind.AUDIT),
        BenchDrawn(case, BenchKind.COURT, (judge,), 1),
        CaseEnded(case, CaseOutcome.APPEAL_WON, None),
        JudgeCharged(case, judge, 1, is_convicted=True),
        JudgeCharged(case, judge, 1, is_convicted=False),
        ProviderUnregistered(judge),
        CaseAppealed(case, judge, 1),
    )
    assert list(doings(events)) == ["AUDIT opened", "COURT drawn", "ended APPEAL_WON", CONVICTED, FINED, EXPELLED]


def test_the_ends_of_claims_are_read_off_the_events() -> None:
    claim = bytes(32)
    events = (
        ClaimEnded(claim, ClaimOutcome.RETURNED),
        CheckEnded(claim, 0, CheckEnd.SILENT),
        DisputeEnded(claim, CANNOT_FETCH),
        DisputeEnded(claim, None),
        ProviderUnregistered(ALICE),
    )
    ends = list(claim_ends(events))
    assert ends == ["claim RETURNED", "check SILENT", "dispute UNAVAILABLE", UNDECIDED]
    assert set(ends) <= set(CLAIM_ENDS)
