"""A task in rows and sentences: how far it is, why it waits, what became of it."""

from dataclasses import replace
from typing import Any

import pytest

from cli.chain_time import ChainTime, date_text
from cli.output import Account, Output
from gpu_tasks.client.tasks import records
from gpu_tasks.client.tasks.records import (
    HISTORY_COLUMNS,
    HISTORY_SHOWN,
    HISTORY_STATES,
    TAKEN_BACK,
    auction_rows,
    ended_well,
    exit_code_of,
    history_row,
    history_shown,
    how_ended,
    progress,
    shortened,
    slot_rows,
    task_facts,
    unheld,
    why,
)
from gpu_tasks.client.tasks.task_checks import CAN_READ
from gpu_tasks.market.training.bids import auction_id
from gpu_tasks.market.training.money import TABLE, TaskOutcome
from gpu_tasks.market.training.orders import CheckedBy
from gpu_tasks.market.training.tasks import TaskResult, TaskState
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.workloads.model_forms import form_named
from replica_chain import replicated
from runtime.cryptography import ss58
from simulation.chains.market_chain import OGPU
from task_chain import WRONG, TaskChain, a_result, awarded, finish_and_pass, hold, time_order, with_offers, work
from wallet.amounts import Grains, format_duration

NOW = ChainTime(height=100, now_ms=0, passed_ms=2_000, passed_blocks=1, epoch_blocks=60, era_epochs=1)

# Bids as rows: what is said of one whose auction was not decided is true of it now.


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
    assert fates(chain) == {("sealed", "price, time and collateral are sealed until the reveal phase")}
    chain.until(TaskState.REVEALING)
    for keys, offer in list(bids.items())[:opens]:
        chain.do(keys, chain.reveal_call(keys, offer))
    return chain


def test_a_bid_that_is_not_opened_in_time_is_not_called_sealed() -> None:
    chain = an_auction(opens=1)
    until = f"price, time and collateral are sealed up to block {chain.now().deadline}"
    opened = ("opened", "the award follows once all bids are revealed and the beacon is final")
    assert fates(chain) == {("sealed", until), opened}
    chain.until(TaskState.AWARDING)
    assert fates(chain) == {("not opened", "it was not revealed in time: its bond burns"), opened}


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
    back = TAKEN_BACK
    assert fates(chain) == {("not opened", f"it was never revealed: {back}"), ("opened", back)}


def test_of_time_that_has_ended_the_intervals_that_were_paid_are_still_told() -> None:
    chain, _ = awarded()
    work(chain, chain.alice, milestones=2, counted=2)
    slot = replace(chain.now().slots[0], outcome=TaskOutcome.TIME_OVER)
    ended = replace(chain.now(), slots=(slot,), state=TaskState.ENDED, outcome=TaskOutcome.TIME_OVER)
    assert task_facts(chain.task, ended, NOW)["milestones"] == "2/4"


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
    facts = task_facts(chain.task, rest, NOW)
    assert (facts["milestones"], facts["milestones_that_count"]) == ("3/4", 2)


def test_a_time_stands_beside_each_block_of_a_task() -> None:
    chain, _ = awarded()
    task = chain.now()
    minute = replace(NOW, height=task.deadline - 60)
    facts = task_facts(chain.task, task, minute)
    assert (facts["deadline_of_this_state"], facts["time_to_the_deadline"]) == (task.deadline, "in about 2 min")
    assert facts["record_kept_until_about"] is facts["record_kept_up_to_block"] is None
    assert facts["time_max"] == f"about {format_duration(task.terms.blocks_max * 2)}"
    assert facts["submitted_about"] == date_text((task.submitted_at - minute.height) * 2_000)
    ended = task_facts(chain.task, replace(task, state=TaskState.ENDED, outcome=TaskOutcome.LATE), minute)
    assert ended["deadline_of_this_state"] is ended["time_to_the_deadline"] is None
    assert ended["record_kept_until_about"] == date_text(120_000)


# How far a task is, and why it waits: a sentence for every state, which names who, what and until which block.


def test_an_auction_says_until_when_bids_are_sealed_opened_and_what_is_awaited() -> None:
    chain = TaskChain()
    chain.submit()
    task = chain.now()
    assert progress(task) == "committing, 0 bids"
    assert why(task).startswith("at auction: ")
    assert why(task).endswith(f"until block {task.deadline}")
    bids = with_offers(chain.keys, 6 * OGPU)
    for keys, offer in bids.items():
        chain.do(keys, chain.commit_call(keys, offer))
    assert progress(chain.now()) == "committing, 1 bid"
    chain.until(TaskState.REVEALING)
    task = chain.now()
    assert progress(task) == "revealing, 0 of 1 bid opened"
    assert f"reveal their bids by block {task.deadline} " in why(task)
    for keys, offer in bids.items():
        chain.do(keys, chain.reveal_call(keys, offer))
    chain.until(TaskState.AWARDING)
    task = chain.now()
    assert f"block {task.beacon_at} is final" in why(task)
    chain.until(TaskState.STARTING)
    task = chain.now()
    alice = ss58.encode(chain.alice.stash)
    assert why(task).startswith(f"awarded: {alice} must start by block {task.deadline}, ")
    assert why(task).endswith("it is auctioned again")
    chain.until(TaskState.COMMITTING)
    assert why(chain.now()).startswith("at auction 2 of 2, from its beginning: ")


def test_a_running_task_says_what_is_due_and_what_its_customer_can_hold() -> None:
    chain, _ = awarded()
    assert "the runner-up takes its place" in why(chain.now())
    alice, bob = chain.keys[:2]
    chain.start(alice)
    assert why(chain.now()).startswith(f"at work: milestone 1 is due by block {chain.now().deadline}")
    rest = replace(chain.now(), behind=2, milestones=2)
    goes_on = f"{ss58.encode(alice.stash)} continues from the checkpoint of milestone 2: milestone 3 is due"
    assert why(rest).startswith(goes_on), "who began may be another one"
    assert progress(rest) == "running, milestone 2 of 4"
    assert unheld(chain.now()) is None
    chain.report(alice, 1)
    assert unheld(chain.now()) == 1
    assert "milestone 1" in why(chain.now()).rpartition("; ")[2]
    chain.do(bob, hold(chain, 1))
    assert unheld(chain.now()) == 1, "what the standby holds is a place to go on from, and not owed for"
    chain.count(1)
    assert unheld(chain.now()) is None
    chain.report(alice, 2)
    chain.report(alice, 3)
    chain.count(3)
    assert progress(chain.now()) == "running, milestone 3 of 4"
    assert why(chain.now()).startswith("at work: the result is due by block")
    chain.until(TaskState.ASKING)
    asked = f"{ss58.encode(bob.stash)} may take over by block {chain.now().deadline}."
    assert asked in why(chain.now())
    assert unheld(chain.now()) is None
    chain.until(TaskState.COMMITTING)
    assert why(chain.now()).startswith("at auction 2 of 2, from milestone 3: ")


def test_partners_that_do_not_agree_have_nothing_to_hold() -> None:
    chain, _ = awarded(5 * OGPU, 6 * OGPU, 7 * OGPU, slots=2)
    for place, slot in enumerate(chain.now().slots):
        chain.start(chain.chain.keys_of(slot.provider), place)
    first, second = chain.now().slots
    chain.report(chain.chain.keys_of(first.provider), 1)
    assert unheld(chain.now()) is None
    chain.report(chain.chain.keys_of(second.provider), 1, 1, root=b"x" * 32)
    assert unheld(chain.now()) is None


def test_a_result_can_be_read_while_its_payment_waits() -> None:
    chain, _ = awarded()
    work(chain, chain.alice, milestones=3)
    chain.finish(chain.alice)
    assert (progress(chain.now()), why(chain.now())) == ("claimed", CAN_READ)
    chain.until(TaskState.ENDED)
    task = chain.now()
    assert progress(task) == "ended, on time"
    assert why(task) == how_ended(task)
    assert how_ended(task).startswith(TABLE[TaskOutcome.ON_TIME].says)
    assert how_ended(task).endswith(f"block {task.deadline}")


def test_false_results_beside_the_first_one_are_counted() -> None:
    chain, _ = awarded()
    slot = chain.now().slots[0]
    slots = tuple(replace(slot, outcome=each) for each in (TaskOutcome.ON_TIME, TaskOutcome.LIED))
    ended = replace(chain.now(), state=TaskState.ENDED, outcome=TaskOutcome.ON_TIME, slots=slots)
    assert "1 provider has stated a false result" in how_ended(ended)
    assert "1 provider" not in how_ended(replace(ended, outcome=TaskOutcome.LIED))


@pytest.mark.parametrize("outcome", TaskOutcome)
def test_every_end_has_a_sentence(outcome: TaskOutcome) -> None:
    chain, _ = awarded()
    ended = replace(chain.now(), state=TaskState.ENDED, outcome=outcome)
    assert progress(ended).startswith("ended, ")
    assert why(ended).startswith(how_ended(ended))
    assert f"block {ended.deadline}" in why(ended)


def test_what_nobody_bid_for_says_what_did_not_suit() -> None:
    chain = TaskChain()
    chain.submit()
    unsold = replace(chain.now(), state=TaskState.ENDED, outcome=TaskOutcome.NO_AWARD)
    assert how_ended(unsold).startswith("No bids: no free provider has the time ")
    program = replace(unsold, order=replace(unsold.order, checked_by=CheckedBy.METERED))
    assert "runs its image within its limits" in how_ended(program)
    assert how_ended(replace(program, bids=2)).startswith(TABLE[TaskOutcome.NO_AWARD].says)
    copies = replace(program, bids=2, order=replace(program.order, checked_by=CheckedBy.REPLICATED))
    assert "other replicas" in how_ended(copies)


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (3, "Its program has ended, with exit code 3"),
        (143, "Its time is up, and its program was stopped, with exit code 143"),
    ],
)
def test_bought_time_that_is_over_says_how_its_program_ended(code: int, says: str) -> None:
    chain, _ = awarded()
    task = replace(chain.now(), state=TaskState.ENDED, outcome=TaskOutcome.TIME_OVER)
    assert "the program has ended, or the bought time is over" in how_ended(task)
    slot = replace(task.slots[0], result=TaskResult(bytes(32), bytes(32), code))
    assert how_ended(replace(task, slots=(slot,))).startswith(f"{says}. ")


# What became of tasks, as `ogpu task history` lists them: states as Slurm's, exit codes, blocks that were worked.


def begun(**order: Any) -> TaskChain:
    """Four intervals of three blocks, which Alice has begun."""
    chain = TaskChain()
    wanted = {**time_order(), **order}
    chain.submit(**wanted)
    chain.auction(with_offers(chain.keys, 6 * OGPU, 7 * OGPU, blocks=wanted["blocks_max"]))
    chain.start(chain.alice)
    return chain


def end(chain: TaskChain, exit_code: int) -> None:
    """The program ends in the third block after its start."""
    chain.blocks(2)
    result = replace(a_result(chain.alice), metric=exit_code)
    chain.do(chain.alice, TrainingMarket.finish(task=chain.task, place=0, result=result))


def row(chain: TaskChain) -> dict[str, Any]:
    found = history_row(chain.task, chain.now())
    assert tuple(found) == HISTORY_COLUMNS
    assert found["state"] in HISTORY_STATES
    return found


@pytest.mark.parametrize(("exit_code", "state"), [(0, "completed"), (3, "failed")])
def test_a_job_went_as_its_exit_code_says(exit_code: int, state: str) -> None:
    chain = begun()
    running = row(chain)
    assert (running["state"], running["exit_code"], running["blocks"]) == ("running", None, None)
    end(chain, exit_code)
    task, found = chain.now(), row(chain)
    assert (found["kind"], found["state"], found["exit_code"]) == ("job", state, exit_code)
    assert ended_well(task) is (exit_code == 0)
    assert (found["submitted"], found["started"], found["blocks"]) == (task.submitted_at, task.started_at, 3)
    assert (found["provider"], found["price"]) == (Account(chain.alice.stash), Grains(7 * OGPU))
    assert (found["milestones"], found["outcome"]) == ("0/4", "time_over")


def test_a_lease_went_well_whatever_its_program_ended_with() -> None:
    chain = begun(**time_order(blocks_max=4, milestones=1, is_lease=True))
    chain.blocks(3)
    chain.do(chain.alice, TrainingMarket.finish(task=chain.task, place=0, result=a_result(chain.alice)))
    found = row(chain)
    assert (found["kind"], found["state"], found["exit_code"]) == ("lease", "completed", 7)
    assert ended_well(chain.now())


def test_what_its_customer_ended_is_cancelled() -> None:
    chain = TaskChain()
    chain.submit(**time_order())
    assert (row(chain)["state"], row(chain)["provider"], row(chain)["price"]) == ("pending", None, None)
    chain.cancel()
    assert row(chain)["state"] == "cancelled"
    stopped = begun()
    stopped.ask(TrainingMarket.stop(task=stopped.task))
    assert (row(stopped)["state"], row(stopped)["outcome"]) == ("cancelled", "time_stopped")
    assert not ended_well(stopped.now())


def test_what_nobody_bid_for_or_whose_worker_left_has_failed() -> None:
    chain = TaskChain()
    chain.submit(**time_order(), auctions=1)
    chain.until(TaskState.ENDED)
    assert (row(chain)["state"], row(chain)["outcome"]) == ("failed", "no_award")
    left = begun(auctions=1)
    for keys in left.keys[:2]:
        left.do(keys, TrainingMarket.leave(task=left.task))
        if left.state() is not TaskState.ENDED:
            left.start(left.keys[1])
    assert (row(left)["state"], ended_well(left.now())) == ("failed", False)


def test_a_task_without_a_program_has_no_exit_code() -> None:
    chain, _ = awarded()
    work(chain, chain.alice, milestones=3, counted=3)
    finish_and_pass(chain, chain.alice)
    found = row(chain)
    assert (found["state"], found["exit_code"], found["milestones"]) == ("completed", None, "4/4")
    assert ended_well(chain.now())


def test_of_copies_the_exit_code_is_that_of_who_most_agree_with() -> None:
    chain, _, _ = replicated()
    task = chain.now()
    told = [a_result(chain.keys[place], WRONG if place == 0 else b"r" * 32) for place in range(3)]
    slots = tuple(
        replace(slot, result=replace(told[place], metric=0 if place else 1),
                outcome=TaskOutcome.ON_TIME if place else TaskOutcome.OUTVOTED)
        for place, slot in enumerate(task.slots)
    )  # fmt: skip
    ended = replace(task, slots=slots, state=TaskState.ENDED, outcome=TaskOutcome.ON_TIME)
    assert exit_code_of(ended) == 0
    assert ended_well(ended)
    assert exit_code_of(replace(ended, slots=task.slots)) is None


def test_of_a_program_the_number_that_is_stated_is_its_exit_code_and_of_a_run_it_has_a_unit() -> None:
    chain = begun()
    end(chain, 3)
    (slot,) = slot_rows(chain.now(), {})
    assert (slot["exit_code"], slot["metric"], slot["metric_unit"]) == (3, None, None)
    chain, _ = awarded()
    work(chain, chain.alice, milestones=1, counted=1)
    training = replace(chain.now().order, workload=form_named("train-int8").workload_id)
    (slot,) = slot_rows(replace(chain.now(), order=training), {})
    assert slot["exit_code"] is None
    assert slot["metric"] is not None
    assert "bit" in slot["metric_unit"]


@pytest.mark.parametrize(("code", "says"), [(0, "done"), (3, "failed"), (records.EXIT_STOPPED, "time over")])
def test_a_job_that_ended_by_itself_is_not_called_out_of_time(code: int, says: str) -> None:
    chain = begun()
    end(chain, code)
    assert says in records.progress(chain.now())
    assert ("time over" in records.progress(chain.now())) == (says == "time over")
