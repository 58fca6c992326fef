"""Figures of batch checks and racers' disputes: equal to the state in each block, from any start on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gpu_tasks.market.leaf_checks.checks import LeafStage
from gpu_tasks.market.leaf_checks.leaf_checks import LeafChecks
from gpu_tasks.market.leaf_disputes.leaf_disputes import LeafDisputes
from node.monitoring import check_figures
from node.monitoring.check_figures import CheckFigures, status_of
from node.monitoring.metrics import CHECK_STATUSES, DISPUTE_OUTCOMES, DISPUTE_STATUSES, Metrics
from runtime.pallets.system import System
from simulation.chains.batch_chain import DisputeChain, LeafChain
from simulation.chains.market_chain import CUSTOMER, signed
from watched_chain import WatchedChain

OUTCOMES = ("passed", "unlooked", "refuted", "withheld")


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
    def open(self) -> tuple[Counter[str], Counter[str]]:
        return (
            self.of("ogpu_leaf_checks", "status", CHECK_STATUSES),
            self.of("ogpu_leaf_disputes", "status", DISPUTE_STATUSES),
        )

    @property
    def ended(self) -> tuple[Counter[str], Counter[str]]:
        return (
            self.of("ogpu_leaf_checks_ended_total", "outcome", OUTCOMES),
            self.of("ogpu_leaf_disputes_ended_total", "outcome", DISPUTE_OUTCOMES),
        )


def in_state(chain: WatchedChain, height: int) -> tuple[Counter[str], Counter[str]]:
    bound = chain.runtime.at(chain.states[height])
    checks = Counter(status_of(check) for _, check in bound[LeafChecks].checks.items() if check is not None)
    disputes = Counter(status_of(each) for _, each in bound[LeafDisputes].disputes.items() if each is not None)
    return checks, disputes


def passed(stage: LeafChain) -> None:
    unit = stage.settled()
    auditor = stage.shown(unit)
    stage.chain.block(stage.passes(unit, auditor))
    stage.until(unit)


def doubted(stage: LeafChain) -> None:
    unit = stage.settled(range(40))
    auditor = stage.shown(unit)
    leaf = stage.check(unit).shown[0].index
    stage.chain.block(stage.doubts(unit, auditor, leaf, stage.claim(unit, leaf)))
    stage.until(unit)


def withheld(stage: LeafChain) -> None:
    stage.until(stage.settled())


def unlooked(stage: LeafChain) -> None:
    unit = stage.settled()
    stage.shown(unit)
    stage.until(unit, LeafStage.OPEN)
    call = stage.dispute_call(unit, 7, stage.claim(unit, 7, is_right=False))
    stage.chain.block(signed(CUSTOMER.stash, call))
    stage.until(unit)


PLAYS = [
    (passed, "passed"), (doubted, "refuted"), (withheld, "withheld"),
    pytest.param(unlooked, "unlooked", marks=pytest.mark.nightly),
]  # fmt: skip


@pytest.mark.parametrize(("play", "outcome"), PLAYS)
def test_a_check_is_counted_where_it_is_and_once_when_it_ends(play: Callable[[LeafChain], None], outcome: str) -> None:
    stage = LeafChain(kind=WatchedChain)
    chain, before = cast("WatchedChain", stage.chain), stage.chain.height
    play(stage)
    whole, seen = Watching(chain, before), set[str]()
    for height in range(before + 1, chain.height + 1):
        assert not whole.ended[0]
        whole.hear(chain, height)
        assert whole.open == in_state(chain, height)
        assert Watching(chain, height).open == whole.open, "a node that starts here says the same"
        seen |= set(whole.open[0])
    assert whole.open == (Counter(), Counter())
    assert whole.ended == (Counter({outcome: 1}), Counter())
    told = {"passed": {"draw", "leaves", "auditor", "audit", "customer"}, "refuted": {"court"}, "unlooked": {"court"}}
    assert told.get(outcome, {"leaves"}) <= seen
    at_once = Watching(chain, before)
    at_once.hear(chain, *range(before + 1, chain.height + 1))
    assert at_once.ended == whole.ended, "a node that catches up counts the same"


def settled_by_a_leaf(stage: DisputeChain) -> None:
    stage.play(stage.disputed((), [70]))


def nobody_shows(stage: DisputeChain) -> None:
    stage.play(stage.disputed((), [70]), 0, 1)


def undecided(stage: DisputeChain) -> None:
    stage.silent = [keys.name for keys in stage.chain.validators]
    stage.play(stage.disputed((), [70]))


@pytest.mark.parametrize(
    ("play", "outcome"), [(settled_by_a_leaf, "settled"), (nobody_shows, "redrawn"), (undecided, "refunded")]
)
def test_a_dispute_of_racers_is_counted_the_same(play: Callable[[DisputeChain], None], outcome: str) -> None:
    stage = DisputeChain(kind=WatchedChain, requests=100)
    chain, before = cast("WatchedChain", stage.chain), stage.chain.height
    play(stage)
    whole, seen = Watching(chain, before), set[str]()
    for height in range(before + 1, chain.height + 1):
        whole.hear(chain, height)
        assert whole.open == in_state(chain, height)
        seen |= set(whole.open[1])
    assert seen == ({"trees"} if outcome == "redrawn" else {"trees", "judges"})
    assert whole.ended == (Counter(), Counter({outcome: 1}))


def test_events_are_read_only_where_something_ended_and_a_start_lists_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = LeafChain(kind=WatchedChain)
    chain, before = cast("WatchedChain", stage.chain), stage.chain.height
    passed(stage)
    watching, read = Watching(chain, before), list[int]()
    events = watching.figures._events_item
    real = events.decode

    def counted(raw: bytes) -> Any:
        read.append(1)
        return real(raw)

    monkeypatch.setattr(events, "decode", counted)
    for height in range(before + 1, chain.height + 1):
        watching.hear(chain, height)
    assert len(read) == 1
    with monkeypatch.context() as patch:
        patch.setattr(check_figures, "LISTED_MAX", 0)
        assert Watching(chain, before + 20).open == (Counter(), Counter())
    nothing = {key: raw for key, raw in chain.changed[chain.height].items() if key != System.event_records.key()}
    watching.figures.on_final([cast("Any", SimpleNamespace(changes=nothing))])
