"""Bids as rows: what is said of one whose auction was not decided is true of it now."""

from dataclasses import replace
from typing import Any

import pytest

from cli.output import Output
from gpu_tasks.client.tasks.records import (
    HISTORY_SHOWN,
    auction_rows,
    history_row,
    history_shown,
    shortened,
    task_facts,
)
from gpu_tasks.market.training.bids import auction_id
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.tasks import TaskState
from runtime.cryptography import ss58
from simulation.chains.market_chain import OGPU
from task_chain import TaskChain, awarded, with_offers, work


def fates(chain: TaskChain) -> set[tuple[str, str]]:
    task, auction = chain.now(), auction_id(chain.task, chain.now().auction)
    bids = {device: bid for device, bid in chain.market.bids.under(auction) if bid is not None}
    rows = auction_rows(task, task.auction, chain.market.awards[auction], bids)
    return {(row["fate"], row["why"]) for row in rows}


def an_auction(*, opens: int) -> TaskChain:
    """One with two bids, as many of which are opened, up to the end of the opening."""
    chain = TaskChain()
    chain.submit()
    bids = with_offers(chain.keys, 6 * OGPU, 7 * OGPU)
    for keys, offer in bids.items():
        chain.do(keys, chain.commit_call(keys, offer))
    assert fates(chain) == {("sealed", "price, time and collateral are sealed until the opening begins")}
    chain.until(TaskState.REVEALING)
    for keys, offer in list(bids.items())[:opens]:
        chain.do(keys, chain.reveal_call(keys, offer))
    return chain


def test_a_bid_that_is_not_opened_in_time_is_not_called_sealed() -> None:
    chain = an_auction(opens=1)
    until = f"price, time and collateral are sealed up to block {chain.now().deadline}"
    opened = ("opened", "the award follows once all are opened, and the beacon is final")
    assert fates(chain) == {("sealed", until), opened}
    chain.until(TaskState.AWARDING)
    assert fates(chain) == {("not opened", "it was not opened in time: its bond burns"), opened}


def test_for_people_ids_and_roots_are_as_long_as_tells_them_apart() -> None:
    rows: list[dict[str, Any]] = [
        {"device": b"d" * 32, "result": b"r" * 32, "root": b"o" * 32},
        {"device": b"e" * 32, "result": None},
    ]
    assert shortened(rows) == [
        {"device": b"dddd", "result": b"rrrr", "root": b"o" * 32},
        {"device": b"eeee", "result": None},
    ]


@pytest.mark.parametrize("state", [TaskState.REVEALING, TaskState.AWARDING])
def test_of_a_task_that_was_taken_back_no_bid_is_sealed_and_no_award_follows(state: TaskState) -> None:
    chain = an_auction(opens=1)
    chain.until(state)
    chain.cancel()
    back = "the customer took the task back before the award"
    assert fates(chain) == {("not opened", f"it was never opened: {back}"), ("opened", back)}


def test_of_time_that_has_ended_the_intervals_that_were_paid_are_still_told() -> None:
    chain, _ = awarded()
    work(chain, chain.alice, milestones=2, counted=2)
    slot = replace(chain.now().slots[0], outcome=TaskOutcome.TIME_OVER)
    ended = replace(chain.now(), slots=(slot,), state=TaskState.ENDED, outcome=TaskOutcome.TIME_OVER)
    assert task_facts(chain.task, ended)["milestones"] == "2/4"


def test_a_line_of_the_history_has_room_for_its_id() -> None:
    chain, _ = awarded()
    work(chain, chain.alice, milestones=2, counted=2)
    provider = ss58.encode(chain.alice.stash)
    row = history_shown(history_row(chain.task, chain.now()))
    assert row["provider"] == provider[:8]
    output = Output(as_json=False)
    with output.console.capture() as shown:
        output.rows("History", HISTORY_SHOWN, [row | {"kind": "train-int8", "state": "completed"}])
    assert any(
        all(part in line for part in ("0x" + chain.task.hex(), provider[:8], "train-int8", "completed"))
        for line in shown.get().splitlines()
    )


def test_what_counts_is_counted_over_all_legs() -> None:
    chain, _ = awarded()
    work(chain, chain.alice, milestones=2, counted=1)
    rest = replace(chain.now(), behind=1, milestones=3)
    facts = task_facts(chain.task, rest, None)
    assert (facts["milestones"], facts["milestones_that_count"]) == ("3/4", 2)
