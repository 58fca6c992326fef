"""Figures of claims and disputes: equal to the state in each block, from any start on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gpu_tasks.market.claims.claims import ClaimOutcome
from gpu_tasks.market.claims.disputes_pallet import Disputes
from gpu_tasks.market.claims.findings import Verdict
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.inference.units import UnitState
from node.monitoring import check_figures
from node.monitoring.check_figures import CheckFigures
from node.monitoring.metrics import CLAIM_STATUSES, DISPUTE_OUTCOMES, DISPUTE_STATUSES, Metrics
from runtime.pallets.system import System
from simulation.chains.market_chain import named_keys
from unit_cases import RIGHT, WRONG, concluded, decided, declined_twice, raced, vote_for
from watched_chain import WatchedChain

OUTCOMES = tuple(outcome.name.lower() for outcome in ClaimOutcome)
CHECKED = {"ResultClaims.check_rate": 1_000_000}
SHORT = {
    "ResultClaims.duty_blocks": 5,
    "Disputes.vote_blocks": 5,
    "Disputes.open_blocks": 5,
    "Disputes.appeal_blocks": 4,
}
Figures = tuple[Counter[str], Counter[str]]


class Watching:
    """The figures of a node that started at some block and sees every later final one."""

    def __init__(self, chain: WatchedChain, since: int) -> None:
        self.metrics = Metrics("test", "node", "0", is_validator=False)
        final = SimpleNamespace(state=chain.states[since])
        self.figures = CheckFigures(cast("Any", SimpleNamespace(runtime=chain.runtime, final=final)), self.metrics)

    def hear(self, chain: WatchedChain, *heights: int) -> None:
        self.figures.on_final([cast("Any", SimpleNamespace(changes=chain.changed[height])) for height in heights])

    def of(self, name: str, label: str, values: tuple[str, ...]) -> Counter[str]:
        """Return the figures that are not 0."""
        sample = self.metrics.registry.get_sample_value
        found = {value: sample(name, {"chain": "test", label: value}) for value in values}
        assert None not in found.values(), "every one is there from the start on"
        return Counter({value: int(count or 0) for value, count in found.items() if count})

    @property
    def open(self) -> Figures:
        return (
            self.of("ogpu_claims", "status", CLAIM_STATUSES),
            self.of("ogpu_disputes", "status", DISPUTE_STATUSES),
        )

    @property
    def ended(self) -> Figures:
        return (
            self.of("ogpu_claims_ended_total", "outcome", OUTCOMES),
            self.of("ogpu_disputes_ended_total", "outcome", DISPUTE_OUTCOMES),
        )


def in_state(chain: WatchedChain, height: int) -> Figures:
    bound = chain.runtime.at(chain.states[height])
    claims = (claim for _, claim in bound[ResultClaims].claims.items())
    disputes = (dispute for _, dispute in bound[Disputes].disputes.items())
    return (
        Counter(claim.stage.name.lower() for claim in claims if claim is not None),
        Counter(dispute.stage.name.lower() for dispute in disputes if dispute is not None),
    )


def watched() -> WatchedChain:
    return WatchedChain(named_keys(12), [], CHECKED | SHORT)


def passed(chain: WatchedChain) -> None:
    unit, _, _ = raced(chain, {0: RIGHT, 1: RIGHT})
    chain.block()
    assert concluded(chain, unit).state is UnitState.SETTLED


def refuted(chain: WatchedChain) -> None:
    unit, _, _ = raced(chain, {0: WRONG, 1: WRONG})
    chain.block()
    weight = chain.now()[ResultClaims].open_claim(unit).terms.weight
    assert concluded(chain, unit, Verdict.WRONG, vote_for(Verdict.WRONG, weight=weight)).state is UnitState.REFUNDED


def silent(chain: WatchedChain) -> None:
    unit, _, _ = raced(chain, {0: RIGHT, 1: RIGHT})
    while chain.unit(unit).state in (UnitState.RACING, UnitState.CLAIMED):
        chain.block()


def sides_differ(chain: WatchedChain) -> None:
    unit, _, _ = raced(chain, {0: RIGHT, 1: WRONG})
    chain.block()
    assert decided(chain, unit, vote_for(Verdict.RIGHT)).state is UnitState.CLAIMED


def input_is_bad(chain: WatchedChain) -> None:
    unit, _ = declined_twice(chain)
    assert decided(chain, unit, vote_for(Verdict.WRONG)).state is UnitState.REFUNDED


def nobody_votes(chain: WatchedChain) -> None:
    unit, _, _ = raced(chain, {0: RIGHT, 1: WRONG})
    chain.block()
    assert decided(chain, unit, lambda _: None).state is UnitState.REFUNDED


def heard(chain: WatchedChain, before: int) -> tuple[Watching, set[str]]:
    """Return the figures after all blocks from `before` on, and every status that they had."""
    whole, seen = Watching(chain, before), set[str]()
    for height in range(before + 1, chain.height + 1):
        whole.hear(chain, height)
        assert whole.open == in_state(chain, height)
        if height % 5 == 0:
            assert Watching(chain, height).open == whole.open, "a node that starts here has the same figures"
        seen |= {*whole.open[0], *whole.open[1]}
    at_once = Watching(chain, before)
    at_once.hear(chain, *range(before + 1, chain.height + 1))
    assert at_once.ended == whole.ended, "a node that catches up counts the same"
    return whole, seen


CHECKS = {"drawing", "committing", "showing", "opening"}
VOTES = {"drawing", "voting", "appealable"}
PLAYS: list[tuple[Callable[[WatchedChain], None], Counter[str], Counter[str], set[str]]] = [
    (passed, Counter({"passed": 1}), Counter(), CHECKS),
    (refuted, Counter({"refuted": 1}), Counter({"wrong": 1}), {*CHECKS, "conceding", "disputed", *VOTES}),
    (sides_differ, Counter(), Counter({"right": 1}), VOTES),
    (input_is_bad, Counter(), Counter({"wrong": 1}), VOTES),
    (nobody_votes, Counter(), Counter({"undecided": 1}), {"drawing", "voting", "appeal"}),
]
LONG = (silent, Counter({"returned": 1}), Counter({"undecided": 1}), {"drawing", "committing", "calling", "disputed"})


@pytest.mark.parametrize(
    ("play", "claims", "disputes", "statuses"), [*PLAYS, pytest.param(*LONG, marks=pytest.mark.nightly)]
)
def test_a_claim_and_a_dispute_are_counted_by_stage_and_once_when_they_end(
    play: Callable[[WatchedChain], None], claims: Counter[str], disputes: Counter[str], statuses: set[str]
) -> None:
    chain = watched()
    play(chain)
    whole, seen = heard(chain, 0)
    assert statuses <= seen
    assert whole.ended == (claims, disputes)


def test_events_are_read_only_where_something_ended_and_a_start_lists_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = watched()
    passed(chain)
    watching, read = Watching(chain, 0), list[int]()
    events = watching.figures._events_item
    real = events.decode

    def counted(raw: bytes) -> Any:
        read.append(1)
        return real(raw)

    monkeypatch.setattr(events, "decode", counted)
    for height in range(1, chain.height + 1):
        watching.hear(chain, height)
    assert len(read) == 1
    open_at = next(height for height in range(chain.height) if in_state(chain, height)[0])
    with monkeypatch.context() as patch:
        patch.setattr(check_figures, "LISTED_MAX", 0)
        assert Watching(chain, open_at).open == (Counter(), Counter())
    nothing = {key: raw for key, raw in chain.changed[chain.height].items() if key != System.event_records.key()}
    watching.figures.on_final([cast("Any", SimpleNamespace(changes=nothing))])
