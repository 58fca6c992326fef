"""Tasks as customers command them: submitted once, listed, described, reckoned again, decided about."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from between import lose_after_submit, lose_before_submit, spoiled
from error_codes import ended_code
from genesis import dev_accounts
from gpu_tasks.data import training_reads
from gpu_tasks.data.sealing import SealKey, address_of
from gpu_tasks.data.unit_input import commitment_of, decode_input
from gpu_tasks.market.training.money import TABLE, TaskOutcome
from gpu_tasks.market.training.tasks import Milestone, Task, TaskResult, TaskState
from gpu_tasks.market.training.training_market import TrainingMarket
from planted_state import chain_with
from planted_tasks import ALICE, BOB, BOB_KEY, MILESTONES, STATES, PlantedTask, run_blob, run_root
from runtime.cryptography import ss58
from runtime.cryptography.signatures import Scheme
from runtime.frame.call import Call
from runtime.frame.runtime import Bound
from runtime.pallets.system import System
from runtime.pallets.utility import Utility
from task_customer import OF_BOB, UNKNOWN, ogpu, refusal
from wallet.client import ChainClient
from wallet.keypair import Keypair
from wallet.outbox import OutboxFile
from wallet_runner import answer, chain

# Tasks as customers call for them: submitted once, listed, described, reckoned again, decided about.


EXAMPLES = Path(__file__).parents[4] / "examples"
MINIMAL = str(EXAMPLES / "minimal.yaml")


def submitted(folder: Path, url: str, *more: str) -> str:
    task: str = answer(ogpu(folder, url, "task", "submit", MINIMAL, *OF_BOB, "--yes", *more))["task"]
    return task


async def count(url: str) -> int:
    async with await ChainClient.connect(url) as client:
        return int(await client.read(TrainingMarket.submission_counts, BOB, at=await client.finalized()))


# ---------------------------------------------------------------------------------------------------------- submitting

REFUSED_AFTER_THE_END = (
    (["task", "cancel"], "not_cancellable"),
    (["task", "stop"], "not_running"),
    (["task", "dispute"], "claim_over"),
    (["task", "appeal"], "no_dispute"),
    (["task", "confirm"], "no_checkpoint"),
    (["task", "result"], "no_result"),
)


def test_a_task_is_submitted_listed_described_reckoned_and_taken_back(
    tmp_path: Path, blobs: dict[bytes, bytes]
) -> None:
    with chain(tmp_path) as url:
        prepaid = prepaid_of(tmp_path, url)
        done = answer(ogpu(tmp_path, url, "task", "submit", MINIMAL, *OF_BOB, "--yes"))
        task = done["task"]
        assert (done["name"], done["sent"]) == ("minimal", True)
        (row,) = answer(ogpu(tmp_path, url, "ps", *OF_BOB))
        assert (row["task"], row["state"], row["auction"], row["milestones"]) == (
            task,
            "committing, 0 bids",
            "1/2",
            "0/10",
        )
        assert row["why"].startswith("at auction: sealed bids are accepted until block ")
        for words in (["ps", *OF_BOB], ["task", "show", task]):
            assert re.search(
                r"until\s+block\s+\d+\s+\(in\s+about\s+\d+", ogpu(tmp_path, url, *words, as_json=False).stdout
            )
        shown = answer(ogpu(tmp_path, url, "task", "show", task))
        assert (shown["customer"], shown["workload"], shown["slots"]) == (ss58.encode(BOB), "train-int8", [])
        assert shown["price_max"]["ogpu"] == "2.5"
        assert answer(ogpu(tmp_path, url, "task", "bids", task)) == []
        assert {len(row["device"]) for row in answer(ogpu(tmp_path, url, "offer", "providers"))} == {2 + 64}, (
            "whole for programs"
        )
        assert "there are no bids" in ogpu(tmp_path, url, "task", "bids", task, as_json=False).stderr
        assert {check["what"]: check["is_right"] for check in answer(ogpu(tmp_path, url, "task", "verify", task))} == {
            "id": True, "auction 1": None, "milestones": None, "result": None, "statements": None,
        }  # fmt: skip
        check_sealed(url, task, blobs)

        dry = answer(ogpu(tmp_path, url, "task", "cancel", task, *OF_BOB, "--dry-run"))
        assert dry["gone"]["ogpu"] == "0.0125"  # a tenth of the bond, which is 5 % of 2.5 oGPU
        assert float(dry["locked"]["ogpu"]) == pytest.approx(float(dry["comes_back"]["ogpu"]) + 0.0125)
        assert dry["comes_back_later"]["ogpu"] == "1"
        back = answer(ogpu(tmp_path, url, "task", "cancel", task, *OF_BOB, "--yes"))
        assert (back["task"], back["gone"], back["sent"]) == (task, dry["gone"], True)
        check_ended(tmp_path, url, task, cost=prepaid + int(dry["gone"]["grains"]))
        (ended,) = answer(ogpu(tmp_path, url, "ps", *OF_BOB, "--all"))
        assert ended["state"] == "ended, cancelled before award"
        assert ended["why"].startswith(TABLE[TaskOutcome.CANCELLED_BEFORE_AWARD].says)
        for words, code in REFUSED_AFTER_THE_END:
            yes = [] if words[1] == "result" else ["--yes"]
            assert ended_code(ogpu(tmp_path, url, *words[:2], task, *words[2:], *OF_BOB, *yes)) == code, words


def check_sealed(url: str, task: str, blobs: dict[bytes, bytes]) -> None:
    """Its input is stored sealed, also to its customer, and is the one that the chain names."""
    ((blob, content),) = [(blob, SealKey.of(BOB_KEY).open(blob)) for blob in blobs.values()]
    assert SealKey.of(BOB_KEY).public == decode_input(content).reply_key
    assert len(blob) > len(content)
    asyncio.run(input_is(url, bytes.fromhex(task[2:]), commitment_of(content)))


def check_ended(folder: Path, url: str, task: str, *, cost: int) -> None:
    """Check the output about a cancelled task: its cost, and the time until which its record is kept."""
    (row,) = answer(ogpu(folder, url, "task", "history", *OF_BOB))
    assert (row["state"], row["price"], int(row["cost_before_fees"]["grains"])) == ("cancelled", None, cost)
    for more, count in (
        (["--since", str(row["submitted"])], 1), (["--since", str(row["submitted"] + 1)], 0),
        (["--state", "completed"], 0), (["--state", "failed", "--state", "cancelled"], 1),
    ):  # fmt: skip
        assert len(answer(ogpu(folder, url, "task", "history", *OF_BOB, *more))) == count, more
    shown = answer(ogpu(folder, url, "task", "show", task))
    assert shown["deadline_of_this_state"] is None
    assert shown["record_kept_up_to_block"] > row["submitted"]
    assert answer(ogpu(folder, url, "ps", *OF_BOB)) == []


def prepaid_of(folder: Path, url: str) -> int:
    """Grains that a submission prepays."""
    return int(answer(ogpu(folder, url, "task", "submit", MINIMAL, *OF_BOB, "--dry-run"))["prepaid"]["grains"])


async def input_is(url: str, task_id: bytes, commitment: bytes) -> None:
    async with await ChainClient.connect(url) as client:
        task = await client.read(TrainingMarket.tasks, task_id)
        assert task.order.input_root == commitment


def test_who_has_no_task_is_told_so(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        said = ogpu(tmp_path, url, "ps", *OF_BOB)
    assert answer(said) == []
    assert "//Bob has no task" in said.stderr


@pytest.mark.usefixtures("stored_nowhere")
def test_money_is_shown_and_asked_before_anything_is_sent(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        words = ["task", "submit", MINIMAL, *OF_BOB]
        dry = answer(ogpu(tmp_path, url, *words, "--dry-run"))
        assert (dry["task"], dry["could_bid"], dry["sent"]) == ("minimal", 1, False)
        # the price, 2 % for a standby, 5 % bond, a deposit of 1; no checks among so few validators
        assert float(dry["locked"]["ogpu"]) == pytest.approx(2.5 * 1.07 + 1)
        assert ended_code(ogpu(tmp_path, url, *words)) == "no_terminal"
        declined = ogpu(tmp_path, url, *words, typed="n\n", as_json=False)
        assert declined.exit_code == 1
        assert "Submit minimal, locking 3.6" in declined.stderr
        assert "spendable" in declined.stdout
        assert asyncio.run(count(url)) == 0
        agreed = ogpu(tmp_path, url, *words, typed="y\n", as_json=False)
        assert agreed.exit_code == 0, agreed.output
        assert asyncio.run(count(url)) == 1
        with OutboxFile.looked(tmp_path / "postings") as outbox:
            assert outbox is not None
            assert outbox.rows("SELECT extrinsic FROM parts") == [(b"",)], "nothing of the signed bytes stays"


@pytest.mark.usefixtures("stored_nowhere")
def test_a_task_that_cannot_be_submitted_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bad.yaml").write_text("apiVersion: ogpu/v1\n")
    with chain(tmp_path) as url:
        for words, says in (
            ([str(tmp_path / "none.yaml"), *OF_BOB], "file_unreadable"),
            ([str(tmp_path / "bad.yaml"), *OF_BOB], "kind"),
            ([MINIMAL, "--key", "//Nobody"], '"funds"'),
        ):
            assert says in refusal(ogpu(tmp_path, url, "task", "submit", *words, "--yes")), words
        unserved = refusal(
            ogpu(tmp_path, url, "task", "submit", MINIMAL, "--key", "//Alice", "--yes"), 1
        )  # as `plan` does
        assert '"not_served"' in unserved
        planned = refusal(ogpu(tmp_path, url, "task", "plan", MINIMAL, "--key", "//Alice"), 1)
        assert "`why not`" in planned, "as the table heads its column"
        monkeypatch.setattr("gpu_tasks.client.offers.outlook.sells_tasks", lambda _: False)
        monkeypatch.setattr("gpu_tasks.client.commands.id_prefixes.sells_tasks", lambda _: False)
        for words in (["task", "submit", MINIMAL, *OF_BOB, "--yes"], ["ps", *OF_BOB]):
            assert ended_code(ogpu(tmp_path, url, *words)) == "no_task_market"
        assert "sells no tasks yet" in ogpu(tmp_path, url, "task", "plan", MINIMAL).stderr
        assert asyncio.run(count(url)) == 0


@pytest.mark.usefixtures("stored_nowhere")
def test_every_example_could_be_submitted(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        for path in sorted(EXAMPLES.glob("*.yaml")):
            words = ["task", "submit", str(path), *OF_BOB, "--anyway", "--dry-run"]
            dry = answer(ogpu(tmp_path, url, *words))
            assert (dry["task"], dry["sent"]) == (path.stem, False), path
            assert int(dry["most"]["grains"]) >= int(dry["price_max"]["grains"]) * dry["devices"]
        for path in sorted((EXAMPLES / "containers").glob("*.yaml")):
            dry = answer(ogpu(tmp_path, url, "task", "submit", str(path), *OF_BOB, "--anyway", "--dry-run"))
            assert (dry["kind"], dry["sent"]) == (path.stem.capitalize(), False), path


def test_intervals_that_the_chain_does_not_pay_in_are_refused_before_anything_is_sent(tmp_path: Path) -> None:
    lease = (EXAMPLES / "containers" / "lease.yaml").read_text()
    (tmp_path / "long.yaml").write_text(lease.replace("interval: 2m", "interval: 151 blocks"))
    with chain(tmp_path) as url:
        for words in (["task", "plan"], ["task", "submit", *OF_BOB, "--yes"], ["task", "submit", *OF_BOB, "--dry-run"]):
            said = refusal(ogpu(tmp_path, url, *words[:2], str(tmp_path / "long.yaml"), *words[2:]), 1)
            assert all(part in said for part in ("spec.limits.interval", "151 blocks", "150 blocks"))
        assert asyncio.run(count(url)) == 0


def test_what_no_store_takes_is_not_submitted(tmp_path: Path, blobs: dict[bytes, bytes]) -> None:
    with chain(tmp_path) as url, patch("gpu_tasks.client.tasks.orders.stores_for", lambda *_: []):
        refused = refusal(ogpu(tmp_path, url, "task", "submit", MINIMAL, *OF_BOB, "--yes"))
        assert "nothing was posted" in refused
        assert asyncio.run(count(url)) == 0
        assert not blobs


@pytest.mark.usefixtures("stored_nowhere")
@pytest.mark.parametrize("spoil", [lose_after_submit, lose_before_submit])
def test_a_retry_after_a_lost_answer_submits_once(tmp_path: Path, spoil: Any) -> None:
    with chain(tmp_path) as url:
        with spoiled(url, spoil) as (lossy, _):
            lost = refusal(ogpu(tmp_path, lossy, "task", "submit", MINIMAL, *OF_BOB, "--yes"))
        assert "task 0x" in lost
        assert "may have been sent. Repeat" in lost
        dry = answer(ogpu(tmp_path, url, "task", "submit", MINIMAL, *OF_BOB, "--dry-run"))
        assert (dry["locked"]["grains"], dry["fees"]["grains"]) == ("0", "0")
        task = submitted(tmp_path, url)
        assert asyncio.run(count(url)) == 1
        assert [row["task"] for row in answer(ogpu(tmp_path, url, "ps", *OF_BOB))] == [task]


# Tasks that run, or have a result: described, held, stopped, fetched; every refusal.


@pytest.fixture
def running(tmp_path: Path, blobs: dict[bytes, bytes]) -> Iterator[tuple[PlantedTask, str]]:
    """A task of which Alice has stated the first milestone."""
    planted = PlantedTask(milestone=1, checkpoint=run_blob(1))
    with chain_with(tmp_path, planted) as url:
        yield planted, url


@pytest.fixture
def finished(tmp_path: Path, blobs: dict[bytes, bytes]) -> Iterator[tuple[PlantedTask, str]]:
    """A task of which Alice has stated the result."""
    planted = PlantedTask(TaskState.CLAIMED, result=run_blob(MILESTONES))
    with chain_with(tmp_path, planted) as url:
        yield planted, url


def store(blobs: dict[bytes, bytes], *stored: bytes) -> None:
    blobs.update({address_of(blob): blob for blob in stored})


def test_a_task_that_runs_is_described_with_who_works_and_its_bids_say_why(
    tmp_path: Path, running: tuple[PlantedTask, str]
) -> None:
    planted, url = running
    shown = answer(ogpu(tmp_path, url, "task", "show", planted.name))
    (slot,) = shown["slots"]
    assert (slot["provider"], slot["price"]["ogpu"], slot["milestone"]) == (ss58.encode(ALICE), "1", 1)
    assert shown["why"].startswith("at work: milestone 2 is due by block ")
    (shift,) = shown["shifts"]
    assert (shift["provider"], shift["role"], shift["from"]) == (ss58.encode(ALICE), "began", "the beginning")
    assert [(each["party"], each["paid"]["grains"]) for each in shown["payments"]] == [
        ("provider", "0"),
        ("customer", "0"),
    ]
    (bid,) = answer(ogpu(tmp_path, url, "task", "bids", planted.name, "--explain"))
    assert (bid["fate"], bid["pay"]["ogpu"]) == ("won", "1")
    assert "no losing bid" in bid["why"]
    assert "why" not in answer(ogpu(tmp_path, url, "task", "bids", planted.name))[0]
    of_unit = ogpu(tmp_path, url, "unit", "show", planted.name)
    assert ended_code(of_unit) == "wrong_kind"
    assert f"`ogpu task show {planted.name}`" in refusal(of_unit)
    table = ogpu(tmp_path, url, "task", "show", planted.name, as_json=False).output
    assert "Slots" in table
    told = ogpu(tmp_path, url, "task", "bids", planted.name, "--explain", as_json=False).output
    assert bid["why"] in told, "a sentence that is broken over lines nobody reads"
    assert ended_code(ogpu(tmp_path, url, "task", "bids", planted.name, "--auction", "2")) == "auction_unknown"
    assert f"`ogpu task watch {planted.name}`" in refusal(ogpu(tmp_path, url, "unit", "watch", planted.name, *OF_BOB))
    for command, *more in (["show"], ["bids"], ["verify"], ["watch", *OF_BOB], ["dispute", "--compute", *OF_BOB]):
        assert ended_code(ogpu(tmp_path, url, "task", command, UNKNOWN, *more)) == "task_unknown"
        assert ended_code(ogpu(tmp_path, url, "task", command, "0x12", *more)) == "invalid_id"
    said = ogpu(tmp_path, url, "task", "verify", planted.name)
    # its name was made before there was a genesis hash
    assert (said.exit_code, ended_code(said)) == (1, "verification_failed")
    right = {check["what"]: check["is_right"] for check in json.loads(said.stdout)}
    nothing_yet = dict.fromkeys(("milestones", "result", "statements"))
    assert right == {"id": False, "auction 1": True, "auction 1: terms": True, **nothing_yet}


def test_a_task_that_is_not_as_the_rules_say_ends_verify_with_code_1(tmp_path: Path, blobs: dict[bytes, bytes]) -> None:
    planted = PlantedTask(TaskState.STARTING, change=lambda task: replace(task, owed=3))
    with chain_with(tmp_path, planted) as url:
        said = ogpu(tmp_path, url, "task", "verify", planted.name)
        assert (said.exit_code, ended_code(said)) == (1, "verification_failed")
        assert "milestones" in said.stderr


def test_a_checkpoint_is_fetched_checked_kept_and_signed_for(
    tmp_path: Path, running: tuple[PlantedTask, str], blobs: dict[bytes, bytes]
) -> None:
    planted, url = running
    hold = ["task", "confirm", planted.name, *OF_BOB, "--yes"]
    dry = answer(ogpu(tmp_path, url, *hold, "--dry-run"))
    assert (dry["milestone"], dry["refused"], dry["sent"]) == (1, None, False), "nothing is fetched or kept"
    assert "no store serves the checkpoint of milestone 1" in refusal(ogpu(tmp_path, url, *hold))
    store(blobs, planted.checkpoint)
    foreign = ogpu(tmp_path, url, "task", "confirm", planted.name, "--key", "//Charlie", "--yes")
    assert ended_code(foreign) == "not_owner"
    held = answer(ogpu(tmp_path, url, *hold))
    assert (held["milestone"], held["of"], held["success"]) == (1, MILESTONES, True)
    (kept,) = (tmp_path / "checkpoints").iterdir()
    assert kept.read_bytes() == planted.checkpoint
    shown = answer(ogpu(tmp_path, url, "task", "show", planted.name))
    assert (shown["milestones_that_count"], shown["checkpoint_holder"]) == (1, ss58.encode(BOB))
    assert shown["checkpoint_root"] == "0x" + run_root(1).hex()
    assert ended_code(ogpu(tmp_path, url, *hold)) == "no_checkpoint"


@pytest.mark.parametrize(
    ("blob", "says"),
    [
        (run_blob(1, SealKey.of(BOB_KEY).public[:31] + b"\x11"), "cannot open the checkpoint"),
        (run_blob(2), "6 states; milestone 1 has 3"),
    ],
)
def test_a_checkpoint_that_is_not_what_was_stated_is_not_signed_for(
    tmp_path: Path, blobs: dict[bytes, bytes], blob: bytes, says: str
) -> None:
    planted = PlantedTask(milestone=1, checkpoint=blob)
    store(blobs, blob)
    with chain_with(tmp_path, planted) as url:
        assert says in refusal(ogpu(tmp_path, url, "task", "confirm", planted.name, *OF_BOB, "--yes"))
        assert answer(ogpu(tmp_path, url, "task", "show", planted.name))["checkpoint"] is None
        assert not (tmp_path / "checkpoints").exists()


def test_a_running_task_is_stopped(tmp_path: Path, running: tuple[PlantedTask, str]) -> None:
    planted, url = running
    assert "`ogpu task stop`" in refusal(ogpu(tmp_path, url, "task", "cancel", planted.name, *OF_BOB, "--yes"))
    stop = answer(ogpu(tmp_path, url, "task", "stop", planted.name, *OF_BOB, "--yes"))
    assert float(stop["gone"]["ogpu"]) > 0
    watched = ogpu(tmp_path, url, "task", "watch", planted.name, *OF_BOB)
    assert (watched.exit_code, ended_code(watched)) == (1, "no_result")
    assert f": {TABLE[TaskOutcome.CANCELLED_RUNNING].says}." in watched.stderr, "which end it was"


def test_a_result_is_fetched_checked_and_written_once(
    tmp_path: Path, finished: tuple[PlantedTask, str], blobs: dict[bytes, bytes]
) -> None:
    planted, url = finished
    result = ["task", "result", planted.name, *OF_BOB]
    assert "no store serves the result" in refusal(ogpu(tmp_path, url, *result))
    store(blobs, planted.result)
    out = tmp_path / "model.state"
    shown = answer(ogpu(tmp_path, url, *result, "--out", str(out)))
    assert (shown["root"], shown["metric"], shown["states_checked"]) == ("0x" + run_root(MILESTONES).hex(), 7, 11)
    assert out.read_bytes() == STATES[-1]
    assert ended_code(ogpu(tmp_path, url, *result, "--out", str(out))) == "file_exists"
    assert ended_code(ogpu(tmp_path, url, *result, "--out", str(out / "below"))) == "folder_missing"
    foreign = ogpu(tmp_path, url, "task", "result", planted.name, "--key", "//Charlie")
    assert ended_code(foreign) == "not_owner"


def test_of_a_task_that_was_stopped_the_newest_checkpoint_is_the_customer_s(
    tmp_path: Path, running: tuple[PlantedTask, str], blobs: dict[bytes, bytes]
) -> None:
    planted, url = running
    store(blobs, planted.checkpoint)
    result = ["task", "result", planted.name, *OF_BOB]
    answer(ogpu(tmp_path, url, "task", "confirm", planted.name, *OF_BOB, "--yes"))
    assert "there is no result yet" in refusal(ogpu(tmp_path, url, *result))
    answer(ogpu(tmp_path, url, "task", "stop", planted.name, *OF_BOB, "--yes"))
    watched = refusal(ogpu(tmp_path, url, "task", "watch", planted.name, *OF_BOB), 1)
    assert "`ogpu task result`" in watched
    assert "milestone 1" in watched
    out = tmp_path / "model.state"
    shown = answer(ogpu(tmp_path, url, *result, "--out", str(out)))
    assert (shown["milestone"], shown["root"]) == (f"1/{MILESTONES}", "0x" + run_root(1).hex())
    assert out.read_bytes() == STATES[shown["states_checked"] - 1]


def test_bids_of_an_earlier_auction_are_those_of_its_own_records(tmp_path: Path) -> None:
    def sold_again(task: Task) -> Task:
        return replace(task, state=TaskState.COMMITTING, auction=2, slots=(), standby=None, bids=0)

    planted = PlantedTask(change=sold_again)
    with chain_with(tmp_path, planted) as url:
        assert answer(ogpu(tmp_path, url, "task", "bids", planted.name)) == []
        (row,) = answer(ogpu(tmp_path, url, "task", "bids", planted.name, "--auction", "1"))
        assert row["fate"] == "won"
        checks = json.loads(ogpu(tmp_path, url, "task", "verify", planted.name).stdout)
        assert {"auction 1", "auction 1: terms", "auction 2"} <= {check["what"] for check in checks}


def test_what_has_ended_is_counted_where_it_is_not_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def ended(task: Task) -> Task:
        return replace(task, state=TaskState.ENDED, outcome=TaskOutcome.CANCELLED_BEFORE_AWARD)

    planted = [PlantedTask(TaskState.COMMITTING, change=change) for change in (ended, None, ended)]

    def plant(bound: Bound) -> None:
        for task in planted:
            task(bound)

    # what stands in the first block had to be named before that had a hash
    monkeypatch.setattr(training_reads, "task_id_of", lambda _genesis, _customer, number: planted[number].id)
    with chain_with(tmp_path, plant) as url:
        listed, every = ogpu(tmp_path, url, "ps", *OF_BOB), ogpu(tmp_path, url, "ps", *OF_BOB, "--all")
        nobody = ogpu(tmp_path, url, "ps", "--key", "//Alice")
    assert [row["task"] for row in answer(listed)] == [planted[1].name]
    assert "--all" in listed.stderr
    assert "2 have ended" in listed.stderr
    assert [row["task"] for row in answer(every)] == [task.name for task in planted], "the oldest first"
    assert answer(nobody) == []
    assert "have ended" not in every.stderr + nobody.stderr


def test_a_claimed_task_is_followed_to_its_payment(tmp_path: Path, blobs: dict[bytes, bytes]) -> None:
    planted = PlantedTask(TaskState.CLAIMED, result=run_blob(MILESTONES))
    store(blobs, planted.result)
    with chain_with(tmp_path, planted, beat_seconds=0.1) as url:
        watched = ogpu(tmp_path, url, "task", "watch", planted.name, *OF_BOB)
        assert watched.exit_code == 0, watched.output
        rows = [json.loads(line) for line in watched.stdout.splitlines()]
        (claim,) = rows[0]["claims"]
        assert (rows[0]["state"], claim["stage"], claim["actor"], rows[0]["dispute"]) == (
            "claimed",
            "drawing",
            "beacon",
            None,
        )
        assert (rows[-1]["state"], rows[-1]["claims"]) == ("ended, on time", None)
        shown = answer(ogpu(tmp_path, url, "task", "show", planted.name))
        assert (shown["outcome"], shown["claims"], shown["payments_not_shown"]) == ("on_time", [], None)
        paid = {each["party"]: each["paid"]["ogpu"] for each in shown["payments"]}
        assert (paid["provider"], paid["customer"]) == ("0.98", "0"), "1 oGPU, less the fee"
        table = ogpu(tmp_path, url, "task", "show", planted.name, as_json=False).output
        assert "Providers of the task" in table
        assert "Payments and losses" in table


def test_what_was_stated_and_held_is_found_in_the_blocks(tmp_path: Path, blobs: dict[bytes, bytes]) -> None:
    planted, checkpoint, result = PlantedTask(), run_blob(1), run_blob(MILESTONES)
    store(blobs, checkpoint, result)
    stated = Milestone(1, run_root(1), 5, address_of(checkpoint))
    done = TaskResult(run_root(MILESTONES), address_of(result), 7)
    with chain_with(tmp_path, planted) as url:
        # of block 1, in which it was planted, nothing is read
        asyncio.run(alice_does(url, System.remark(remark=b"")))
        step = TrainingMarket.report_milestone(task=planted.id, place=0, milestone=stated)
        asyncio.run(alice_does(url, Utility.batch(calls=(step,))))
        answer(ogpu(tmp_path, url, "task", "confirm", planted.name, *OF_BOB, "--yes"))
        asyncio.run(alice_does(url, TrainingMarket.finish(task=planted.id, place=0, result=done)))
        stated_in = "milestone 1 of slot 0 in block 2, the result of slot 0 in block 4, milestone 1 held in block 3"
        assert statements(tmp_path, url, planted) == (True, stated_in)
        few = statements(tmp_path, url, planted, "--blocks", "1")
        assert few == (None, "not in blocks 4 to 4: milestone 1 of slot 0, milestone 1 held")
        assert statements(tmp_path, url, planted, "--blocks", "0") == (None, "no block was read")


def test_what_nobody_stated_is_found_out(tmp_path: Path, blobs: dict[bytes, bytes]) -> None:
    planted = PlantedTask(milestone=1, checkpoint=run_blob(1))
    with chain_with(tmp_path, planted, beat_seconds=1.0) as url:
        while statements(tmp_path, url, planted)[0] is None:
            pass
        says = statements(tmp_path, url, planted)
        assert says[0] is False
        assert says[1].endswith(": milestone 1 of slot 0")


def statements(folder: Path, url: str, planted: PlantedTask, *words: str) -> tuple[bool | None, str]:
    rows = json.loads(ogpu(folder, url, "task", "verify", planted.name, *words).stdout)
    return next((row["is_right"], row["says"]) for row in rows if row["what"] == "statements")


async def alice_does(url: str, call: Call) -> None:
    """A call, signed with her provider key."""
    key = Keypair.from_seed(Scheme.ED25519, dev_accounts.key_seed("Alice", dev_accounts.PROVIDER))
    async with await ChainClient.connect(url) as client:
        assert (await client.submit(call, key)).is_success
