"""The figures of a run, the conditions under which it proves something, and the report.

Invariant: a long run fails if some call was never made or some event never occurred. So a call of a new pallet is
either drawn or reported as missing.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import sqrt
from typing import Any

from gpu_tasks.market.claims.claim_events import CheckEnded, ClaimEnded
from gpu_tasks.market.claims.claims import CheckEnd, ClaimOutcome
from gpu_tasks.market.claims.collateral import PPM
from gpu_tasks.market.claims.dispute_events import DisputeEnded, DisputeOpened
from gpu_tasks.market.claims.disputes import DisputeQuestion
from gpu_tasks.market.claims.findings import Verdict
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.sessions.events import SessionEnded
from gpu_tasks.market.sessions.records import SessionEnd
from gpu_tasks.market.training.events import BidEnded, SlotSettled, StandbyReleased, TaskEnded
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.training_market import TrainingMarket
from runtime.encoding.types import Signed
from runtime.frame.pallet import Pallet
from runtime.frame.runtime import Runtime
from simulation.catalogue import HOOKS_MAX
from simulation.economy.claim_watch import DRAWN, ENDS, EXPECTED, FOUND, MARKETS
from simulation.runs import Counted

UNDECIDED = "dispute UNDECIDED"
OPENERS: dict[int, type[Pallet]] = {pallet.index: pallet for pallet in (ResultClaims, InferenceMarket, TrainingMarket)}
CLAIM_ENDS = (
    *(f"claim {outcome.name}" for outcome in ClaimOutcome),
    *(f"check {end.name}" for end in CheckEnd if end is not CheckEnd.OPEN),
    *(f"dispute {verdict.name}" for verdict in Verdict),
    UNDECIDED,
    f"{ResultClaims.__name__} asks about {DisputeQuestion.ITEM.name}",
    *(
        f"{market.__name__} asks about {question.name}"
        for market in (InferenceMarket, TrainingMarket)
        for question in (DisputeQuestion.SIDES, DisputeQuestion.INPUT)
    ),
)
"""The ends of claims, checks and disputes, and the questions to voters."""


def claim_ends(happened: Iterable[Any]) -> Iterator[str]:
    """Yield the ends of claims, checks and disputes in a block's events, and the questions to voters."""
    for event in happened:
        if isinstance(event, ClaimEnded):
            yield f"claim {event.outcome.name}"
        elif isinstance(event, CheckEnded):
            yield f"check {event.end.name}"
        elif isinstance(event, DisputeEnded):
            yield UNDECIDED if event.vote is None else f"dispute {event.vote.verdict.name}"
        elif isinstance(event, DisputeOpened):
            yield f"{OPENERS[event.handler].__name__} asks about {event.question.name}"


WITHOUT_SLOTS = (TaskOutcome.NO_AWARD, TaskOutcome.CANCELLED_BEFORE_AWARD)


def task_ends(happened: Iterable[Any]) -> Iterator[str]:
    """Yield the money table's rows in a block's events. A task's own end counts if it had no slot."""
    for event in happened:
        if isinstance(event, SlotSettled) or (isinstance(event, TaskEnded) and event.outcome in WITHOUT_SLOTS):
            yield event.outcome.name
        elif isinstance(event, StandbyReleased):
            yield TaskOutcome.STOOD_BY.name
        elif isinstance(event, BidEnded) and event.burned:
            yield TaskOutcome.NOT_REVEALED.name


def session_ends(happened: Iterable[Any]) -> Iterator[str]:
    """Yield the ends of sessions in a block's events."""
    return (event.end.name for event in happened if isinstance(event, SessionEnded))


def unseen(ends: Iterable[str]) -> list[str]:
    """Return the rows that did not occur."""
    seen = set(ends)
    return [outcome.name for outcome in TaskOutcome if outcome.name not in seen]


LIVELY_FROM_STEPS = 50_000
"""A shorter run is judged by its books alone."""
ERRORS_MIN, FAILING_PERCENT_MIN = 30, 30
PICOSECONDS_PER_MS = 10**9
SETTLED_SESSIONS_MIN = 10_000
"""The least settled sessions of a run with all kinds of events."""
UNSEEN_MAX, ALL_SEEN_FROM_STEPS = 8, 1_000_000
"""The most kinds of events that a shorter run may lack, because rare ones occur by chance."""


@dataclass
class Tally(Counted):
    """Counts of a run, by name."""

    greatest = frozenset({"heaviest_hooks", "most_open"})
    steps: Counter[str] = field(default_factory=Counter)
    """Signed and accepted, signed and refused, or an author's."""
    calls: Counter[str] = field(default_factory=Counter)
    done: Counter[str] = field(default_factory=Counter)
    """Successful calls. Calls that only Root may make show by their events."""
    failures: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    claims: Counter[str] = field(default_factory=Counter)
    """The ends of claims, checks and disputes."""
    truths: Counter[str] = field(default_factory=Counter)
    """The ends of claims on calm chains, by market and truth."""
    draws: Counter[str] = field(default_factory=Counter)
    """The drawn and the expected points in false items, by market."""
    tasks: Counter[str] = field(default_factory=Counter)
    """The ends of tasks' slots, by rows of the money table."""
    sessions: Counter[str] = field(default_factory=Counter)
    """The ends of sessions."""
    blocks: int = 0
    full_counts: int = 0
    heaviest_hooks: int = 0
    """The largest reference time of the hooks of one block."""
    most_open: int = 0
    """The most open units at a time."""


VAIN_MAX = 2
"""The most calls that may never succeed in a short run, because some need rare events."""
DEVIATIONS_MAX = 4
PAID_LIES_MAX, PAID_LIES_MIN = 0.1, 2
"""The greatest share of drawn lies that may be paid, beside a few.

Voters compute another drawn item if checkers fail.
"""


def lacks(tally: Tally, runtime: Runtime) -> list[str]:
    """Return the reasons why a run proves too little. A run that proves enough, or is short, has none."""
    if tally.steps.total() < LIVELY_FROM_STEPS:
        return []
    methods = [method for pallet in runtime.pallets for method in pallet.methods if not method.is_inherent]
    names = [f"{method.pallet.__name__}.{method.name}" for method in methods]
    events = sorted({event.__name__ for pallet in runtime.pallets for event in pallet.events})
    failing = 100 * tally.failures.total() // tally.calls.total()
    found = [f"no extrinsic calls {name}" for name in names if name not in tally.calls]
    is_long = tally.steps.total() >= ALL_SEEN_FROM_STEPS
    signable = [name for name, method in zip(names, methods, strict=True) if Signed in method.origins]
    vain = [f"{name} never succeeds" for name in signable if name in tally.calls and name not in tally.done]
    if is_long or len(vain) > VAIN_MAX:
        found += vain
    found += [f"never {end}" for end in CLAIM_ENDS if end not in tally.claims and is_long]
    found += [f"never {end}" for end in ENDS if end not in tally.truths and is_long]
    found += [*_misdrawn(tally.draws), *_uncaught(tally.truths)]
    found += [f"no slot of a task ends as {name}" for name in unseen(tally.tasks) if is_long]
    if is_long:
        found += [f"no session ends as {end.name}" for end in SessionEnd if end.name not in tally.sessions]
        if tally.sessions[SessionEnd.SETTLED.name] < SETTLED_SESSIONS_MIN:
            found.append(f"fewer than {SETTLED_SESSIONS_MIN:,} sessions are settled")
    missing = [f"{name} never happens" for name in events if name not in tally.events]
    if is_long or len(missing) > UNSEEN_MAX:
        found += missing
    if failing < FAILING_PERCENT_MIN or len(tally.failures) < ERRORS_MIN:
        found.append(f"only {failing} % of the extrinsics fail, with {len(tally.failures)} kinds of errors")
    return found


def _misdrawn(draws: Counter[str]) -> Iterator[str]:
    """Yield the markets whose false items were drawn too often or too seldom."""
    for subject in MARKETS.values():
        found, expected = draws[f"{subject}: {FOUND}"], draws[f"{subject}: {EXPECTED}"] / PPM
        # Each point is drawn or not, so the variance is at most the expected number.
        if abs(found - expected) > DEVIATIONS_MAX * sqrt(expected):
            yield f"{found} points were drawn in false items of {subject}s, and {expected:.1f} were expected"


def _uncaught(truths: Counter[str]) -> Iterator[str]:
    """Yield the markets in which too many drawn lies were paid."""
    for subject in MARKETS.values():
        lies = _drawn_lies(truths, subject)
        paid, refuted = lies[ClaimOutcome.PASSED], lies[ClaimOutcome.REFUTED]
        if paid > PAID_LIES_MAX * (paid + refuted) + PAID_LIES_MIN:
            yield f"{paid} drawn lies about {subject}s were paid, and only {refuted} were refuted"


def _drawn_lies(truths: Counter[str], subject: str) -> dict[ClaimOutcome, int]:
    return {outcome: truths[f"{subject}: {DRAWN} {outcome.name}"] for outcome in ClaimOutcome}


def summary(tally: Tally, seasons: int, seconds: float, *, holds: bool) -> str:
    """Return one line of figures."""
    taken = max(1, tally.calls.total())
    return (
        f"economy {'holds' if holds else 'DOES NOT HOLD'}: {tally.steps.total():,} steps in {tally.blocks:,} blocks of"
        f" {seasons} chains ({100 * tally.failures.total() // taken} % fail with {len(tally.failures)} kinds of errors,"
        f" {tally.refusals.total():,} refused; {len(tally.calls)} calls, {len(tally.events)} kinds of events),"
        f" {_checked(tally)}, {_sold(tally)}, {_reserved(tally)},"
        f" books balanced after each and counted anew {tally.full_counts:,} times; hooks at most"
        f" {tally.heaviest_hooks / PICOSECONDS_PER_MS:.1f} of {HOOKS_MAX.ref_time / PICOSECONDS_PER_MS:.0f} ms a block,"
        f" {tally.most_open} units open at most; {1_000 * seconds / max(1, tally.steps.total()):.2f} ms a step"
    )


def _checked(tally: Tally) -> str:
    claims = tally.claims
    ends = {kind: sum(count for end, count in claims.items() if end.startswith(kind)) for kind in ("claim", "dispute")}
    lies = (
        f"{lies_of[ClaimOutcome.REFUTED]:,} drawn lies about {subject}s refuted, {lies_of[ClaimOutcome.PASSED]:,} paid"
        for subject, lies_of in ((subject, _drawn_lies(tally.truths, subject)) for subject in MARKETS.values())
    )
    return (
        f"{ends['claim']:,} claims ({claims['check PASSED']:,} checks passed, {claims['claim REFUTED']:,} claims"
        f" refuted, {ends['dispute']:,} disputes), {', '.join(lies)}"
    )


def _sold(tally: Tally) -> str:
    right = sum(tally.tasks[name] for name in ("ON_TIME", "LATE"))
    return (
        f"{tally.events['TaskSubmitted']:,} tasks ({tally.events['TaskAwarded']:,} slots awarded, {right:,} paid,"
        f" {tally.tasks['DIED']:,} died, {tally.tasks['LIED']:,} lied, {len(tally.tasks)} rows of the money table)"
    )


def _reserved(tally: Tally) -> str:
    return (
        f"{tally.events['SessionOpened']:,} sessions ({tally.sessions[SessionEnd.SETTLED.name]:,} settled,"
        f" {tally.events['PeriodClaimed']:,} claims, {tally.events['SessionHandedOver']:,} handed over)"
    )


def report(tally: Tally, seed: int, seconds: float, problems: list[str]) -> dict[str, Any]:
    """Return the content of out/economy.json."""
    total = {"seed": seed, "total_steps": tally.steps.total(), "seconds": round(seconds, 1)}
    return {**total, **tally.told(), "problems": problems}
