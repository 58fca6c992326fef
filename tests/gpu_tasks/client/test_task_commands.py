"""Tasks as customers call for them: submitted once, listed, described, reckoned again, decided about."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from between import lose_after_submit, lose_before_submit, spoiled
from gpu_tasks.data.sealing import SealKey
from gpu_tasks.data.unit_input import commitment_of, decode_input
from gpu_tasks.market.training.training_market import TrainingMarket
from planted_tasks import BOB, BOB_KEY
from runtime.cryptography import ss58
from task_customer import OF_BOB, ogpu, refusal
from wallet.client import ChainClient
from wallet_runner import answer, chain

EXAMPLES = Path(__file__).parents[3] / "examples"
MINIMAL = str(EXAMPLES / "minimal.yaml")


def submitted(folder: Path, url: str, *more: str) -> str:
    task: str = answer(ogpu(folder, url, "submit", MINIMAL, *OF_BOB, "--yes", *more))["task"]
    return task


async def count(url: str) -> int:
    async with await ChainClient.connect(url) as client:
        return int(await client.read(TrainingMarket.submitted, BOB, at=await client.finalized()))


# ---------------------------------------------------------------------------------------------------------- submitting


def test_a_task_is_submitted_listed_described_reckoned_raised_and_taken_back(
    tmp_path: Path, blobs: dict[bytes, bytes]
) -> None:
    with chain(tmp_path) as url:
        prepaid = prepaid_of(tmp_path, url)
        done = answer(ogpu(tmp_path, url, "submit", MINIMAL, *OF_BOB, "--yes"))
        task = done["task"]
        assert (done["name"], done["sent"]) == ("minimal", True)
        (row,) = answer(ogpu(tmp_path, url, "ps", *OF_BOB))
        assert (row["task"], row["state"], row["auction"], row["milestones"]) == (
            task,
            "committing, 0 bids",
            "1/2",
            "0/10",
        )
        assert row["why"].startswith("at auction: sealed bids are committed to up to block ")
        shown = answer(ogpu(tmp_path, url, "describe", task))
        assert (shown["customer"], shown["workload"], shown["slots"]) == (ss58.encode(BOB), "train-int8", [])
        assert shown["price_max"]["ogpu"] == "2.5"
        assert answer(ogpu(tmp_path, url, "bids", task)) == []
        assert {len(row["device"]) for row in answer(ogpu(tmp_path, url, "providers"))} == {2 + 64}, (
            "whole for programs"
        )
        assert "nobody has bid: at auction" in ogpu(tmp_path, url, "bids", task, as_json=False).stderr
        assert {check["what"]: check["is_right"] for check in answer(ogpu(tmp_path, url, "verify", task))} == {
            "id": True, "auction 1": None, "milestones": None, "result": None, "statements": None,
        }  # fmt: skip
        check_sealed(url, task, blobs)

        same = refusal(ogpu(tmp_path, url, "amend", task, *OF_BOB, "--raise", "2.5", "--yes"))
        assert "the task pays at most 2.5 oGPU now: a price is only raised" in same
        raised = answer(ogpu(tmp_path, url, "amend", task, *OF_BOB, "--raise", "3", "--yes"))
        assert (raised["price_max_before"]["ogpu"], raised["price_max"]["ogpu"]) == ("2.5", "3")
        assert float(raised["locked_more"]["ogpu"]) > 0.5
        assert answer(ogpu(tmp_path, url, "describe", task))["price_max"]["ogpu"] == "3"

        dry = answer(ogpu(tmp_path, url, "cancel", task, *OF_BOB, "--dry-run"))
        assert dry["gone"]["ogpu"] == "0.015"  # a tenth of the bond, which is 5 % of 3 oGPU
        assert float(dry["locked"]["ogpu"]) == pytest.approx(float(dry["comes_back"]["ogpu"]) + 0.015)
        assert dry["comes_back_later"]["ogpu"] == "1"
        back = answer(ogpu(tmp_path, url, "cancel", task, *OF_BOB, "--yes"))
        assert (back["task"], back["gone"], back["sent"]) == (task, dry["gone"], True)
        check_ended(tmp_path, url, task, cost=prepaid + int(dry["gone"]["grains"]))
        (ended,) = answer(ogpu(tmp_path, url, "ps", *OF_BOB, "--all"))
        assert ended["state"] == "ended, cancelled before award"
        assert ended["why"].startswith("The customer took the task back before the award. Its record is kept up to")
        for words, says in (
            (["cancel"], "the task is ended, cancelled before award: it cannot be taken back any more"),
            (["amend", "--raise", "4"], "a price is raised before the first bid only"),
            (["amend", "--stop"], "only one that runs is extended or stopped; see `ogpu describe`"),
            (["accept"], "the task ended without a result: `ogpu describe` says how"),
            (["dispute"], "the task ended without a result"),
            (["close"], "another end is agreed on between award and acceptance only"),
            (["hold"], "no checkpoint waits to be held: The customer took the task back"),
            (["result"], "the task ended without a result"),
        ):
            yes = [] if words[0] == "result" else ["--yes"]
            assert says in refusal(ogpu(tmp_path, url, words[0], task, *words[1:], *OF_BOB, *yes)), words


def check_sealed(url: str, task: str, blobs: dict[bytes, bytes]) -> None:
    """Its input is stored sealed, also to its customer, and is the one that the chain names."""
    ((blob, content),) = [(blob, SealKey.of(BOB_KEY).open(blob)) for blob in blobs.values()]
    assert SealKey.of(BOB_KEY).public == decode_input(content).reply_key
    assert len(blob) > len(content)
    asyncio.run(input_is(url, bytes.fromhex(task[2:]), commitment_of(content)))


def check_ended(folder: Path, url: str, task: str, *, cost: int) -> None:
    """What is shown of a task that was taken back: its cost, and until when its record is kept."""
    (row,) = answer(ogpu(folder, url, "history", *OF_BOB))
    assert (row["state"], row["price"], int(row["cost_before_fees"]["grains"])) == ("cancelled", None, cost)
    for more, count in (
        (["--since", str(row["submitted"])], 1), (["--since", str(row["submitted"] + 1)], 0),
        (["--state", "completed"], 0), (["--state", "failed", "--state", "cancelled"], 1),
    ):  # fmt: skip
        assert len(answer(ogpu(folder, url, "history", *OF_BOB, *more))) == count, more
    shown = answer(ogpu(folder, url, "describe", task))
    assert shown["deadline_of_this_state"] is None
    assert shown["record_kept_up_to_block"] > row["submitted"]
    assert answer(ogpu(folder, url, "ps", *OF_BOB)) == []


def prepaid_of(folder: Path, url: str) -> int:
    """Grains that a submission prepays."""
    return int(answer(ogpu(folder, url, "submit", MINIMAL, *OF_BOB, "--dry-run"))["prepaid"]["grains"])


async def input_is(url: str, task_id: bytes, commitment: bytes) -> None:
    async with await ChainClient.connect(url) as client:
        task = await client.read(TrainingMarket.tasks, task_id)
        assert task.order.input_root == commitment


def test_who_has_no_task_is_told_so(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        said = ogpu(tmp_path, url, "ps", *OF_BOB)
    assert answer(said) == []
    assert "//Bob has submitted no task that this chain still knows" in said.stderr


@pytest.mark.usefixtures("stored_nowhere")
def test_money_is_shown_and_asked_before_anything_is_sent(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        words = ["submit", MINIMAL, *OF_BOB]
        dry = answer(ogpu(tmp_path, url, *words, "--dry-run"))
        assert (dry["task"], dry["could_bid"], dry["sent"]) == ("minimal", 1, False)
        # the price, 2 % for a standby, the audits' premium; 5 % bond; a deposit of 1
        assert 2.5 * 1.11 + 1 < float(dry["locked"]["ogpu"]) < 2.5 * 1.15 + 1
        assert "nobody is here to be asked" in refusal(ogpu(tmp_path, url, *words))
        declined = ogpu(tmp_path, url, *words, typed="n\n", as_json=False)
        assert declined.exit_code == 1
        assert "Submit minimal, locking 3.8" in declined.stderr
        assert "spendable" in declined.stdout
        assert asyncio.run(count(url)) == 0
        agreed = ogpu(tmp_path, url, *words, typed="y\n", as_json=False)
        assert agreed.exit_code == 0, agreed.output
        assert asyncio.run(count(url)) == 1
        (record,) = (tmp_path / "postings").glob("*.json")
        assert [part["extrinsic"] for part in json.loads(record.read_text())] == [""], "nothing of what was signed"


@pytest.mark.usefixtures("stored_nowhere")
def test_a_task_that_cannot_be_submitted_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bad.yaml").write_text("apiVersion: ogpu/v1\n")
    with chain(tmp_path) as url:
        for words, says in (
            ([str(tmp_path / "none.yaml"), *OF_BOB], "cannot be read"),
            ([str(tmp_path / "bad.yaml"), *OF_BOB], "lacks kind"),
            ([MINIMAL, "--key", "//Nobody"], "the account can spend 0 oGPU, and submitting the task takes 3."),
        ):
            assert says in refusal(ogpu(tmp_path, url, "submit", *words, "--yes")), words
        unserved = refusal(ogpu(tmp_path, url, "submit", MINIMAL, "--key", "//Alice", "--yes"), 1)  # as `plan` does
        assert "nobody could serve the task now: it takes 1 device, and 0 could bid" in unserved
        planned = refusal(ogpu(tmp_path, url, "plan", MINIMAL, "--key", "//Alice"), 1)
        assert "`why not`" in planned, "as the table heads its column"
        monkeypatch.setattr("gpu_tasks.client.offers.outlook.sells_tasks", lambda _: False)
        monkeypatch.setattr("gpu_tasks.client.commands.id_prefixes.sells_tasks", lambda _: False)
        assert "this chain sells no tasks" in refusal(ogpu(tmp_path, url, "submit", MINIMAL, *OF_BOB, "--yes"))
        assert "this chain sells no tasks" in refusal(ogpu(tmp_path, url, "ps", *OF_BOB))
        assert "this chain sells no tasks yet" in ogpu(tmp_path, url, "plan", MINIMAL).stderr
        assert asyncio.run(count(url)) == 0


@pytest.mark.usefixtures("stored_nowhere")
def test_every_example_could_be_submitted(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        for path in sorted(EXAMPLES.glob("*.yaml")):
            words = ["submit", str(path), *OF_BOB, "--anyway", "--dry-run"]
            dry = answer(ogpu(tmp_path, url, *words))
            assert (dry["task"], dry["sent"]) == (path.stem, False), path
            assert int(dry["most"]["grains"]) >= int(dry["price_max"]["grains"]) * dry["devices"]
        for path in sorted((EXAMPLES / "containers").glob("*.yaml")):
            dry = answer(ogpu(tmp_path, url, "submit", str(path), *OF_BOB, "--anyway", "--dry-run"))
            assert (dry["kind"], dry["sent"]) == (path.stem.capitalize(), False), path


def test_intervals_that_the_chain_does_not_pay_in_are_refused_before_anything_is_sent(tmp_path: Path) -> None:
    lease = (EXAMPLES / "containers" / "lease.yaml").read_text()
    (tmp_path / "long.yaml").write_text(lease.replace("interval: 2m", "interval: 151 blocks"))
    with chain(tmp_path) as url:
        for words in (["plan"], ["submit", *OF_BOB, "--yes"], ["submit", *OF_BOB, "--dry-run"]):
            said = refusal(ogpu(tmp_path, url, words[0], str(tmp_path / "long.yaml"), *words[1:]), 1)
            assert "spec.limits.interval: it comes to 151 blocks, and this chain pays for 150 blocks" in said
        assert asyncio.run(count(url)) == 0


def test_what_no_store_takes_is_not_submitted(tmp_path: Path, blobs: dict[bytes, bytes]) -> None:
    with chain(tmp_path) as url, patch("gpu_tasks.client.tasks.orders.stores_for", lambda *_: []):
        refused = refusal(ogpu(tmp_path, url, "submit", MINIMAL, *OF_BOB, "--yes"))
        assert "an input could not be stored, so nothing was posted" in refused
        assert asyncio.run(count(url)) == 0
        assert not blobs


@pytest.mark.usefixtures("stored_nowhere")
@pytest.mark.parametrize("spoil", [lose_after_submit, lose_before_submit])
def test_a_retry_after_a_lost_answer_submits_once(tmp_path: Path, spoil: Any) -> None:
    with chain(tmp_path) as url:
        with spoiled(url, spoil) as (lossy, _):
            lost = refusal(ogpu(tmp_path, lossy, "submit", MINIMAL, *OF_BOB, "--yes"))
        assert "task 0x" in lost
        assert "may have been sent: repeat the same command" in lost
        dry = answer(ogpu(tmp_path, url, "submit", MINIMAL, *OF_BOB, "--dry-run"))
        assert (dry["locked"]["grains"], dry["fees"]["grains"]) == ("0", "0")
        task = submitted(tmp_path, url)
        assert asyncio.run(count(url)) == 1
        assert [row["task"] for row in answer(ogpu(tmp_path, url, "ps", *OF_BOB))] == [task]
