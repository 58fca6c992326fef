"""`ogpu logs` and `ogpu top`: who may ask, and of which tasks; what is heard is tried in `telemetry/` and live."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from genesis import dev_accounts
from gpu_tasks.client.cli import main
from gpu_tasks.client.commands import logs
from gpu_tasks.data import training_reads
from gpu_tasks.market.training.tasks import Slot, Task, TaskState
from gpu_tasks.market.training.training_market import TrainingMarket
from planted_state import chain_with
from priced_tasks import a_task
from runtime.cryptography import ss58
from runtime.frame.runtime import Bound

FERDIE, ALICE = dev_accounts.stash("Ferdie"), dev_accounts.stash("Alice")
NAME = "0x" + b"t".hex() * 32
RUNNING = a_task(customer=FERDIE, state=TaskState.RUNNING, slots=(Slot(ALICE, b"d" * 32, 1, 1, 1),))
WAITING = a_task(customer=FERDIE)
ENDED = a_task(customer=FERDIE, state=TaskState.ENDED, slots=RUNNING.slots)


def asked(folder: Path, task: Task, *words: str, key: str = "//Ferdie") -> Result:
    """What a command answers where the chain has the task."""

    def plant(bound: Bound) -> None:
        bound[TrainingMarket].tasks[b"t" * 32] = task

    (folder / "chain").mkdir()
    with chain_with(folder / "chain", plant) as url:
        options = ["--url", url, "--keyring", str(folder / "keys"), "--trust-node", "--json"]
        return CliRunner().invoke(main, [*options, *words, "--key", key])


def test_only_its_customer_hears_of_a_task(tmp_path: Path) -> None:
    answer = asked(tmp_path, RUNNING, "logs", NAME, key="//Bob")
    assert answer.exit_code == 2
    assert f"the task is {ss58.encode(FERDIE)}'s: only the key that submitted it hears of it" in answer.output


def test_of_a_task_that_has_ended_nothing_is_told(tmp_path: Path) -> None:
    answer = asked(tmp_path, ENDED, "logs", NAME)
    assert answer.exit_code == 2
    assert "the task has ended, and nothing that a program of it wrote was kept" in answer.output


@pytest.mark.parametrize("url", ["gpu.example.org", "mqtt://a:b@gpu.example.org", "http://127.0.0.1"])
@pytest.mark.parametrize("command", ["logs", "top"])
def test_a_broker_that_is_none_is_refused(tmp_path: Path, command: str, url: str) -> None:
    answer = asked(tmp_path, RUNNING, command, NAME, "--mqtt", url)
    assert answer.exit_code == 2
    assert "--mqtt:" in answer.output


def test_silence_ends_with_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "HEARD_SECONDS", 2.0)
    answer = asked(tmp_path, RUNNING, "logs", NAME)
    assert answer.exit_code == 1
    rows = [json.loads(line) for line in answer.stdout.splitlines()]
    assert rows[0]["kind"] == "problem"
    assert "its provider names no broker" in rows[0]["says"]
    assert "nothing was heard" in answer.stderr


def test_a_task_without_slots_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "HEARD_SECONDS", 1.0)
    answer = asked(tmp_path, WAITING, "logs", NAME)
    assert (answer.exit_code, answer.stdout) == (1, "")
    assert "the task may wait for its auction" in answer.stderr


def test_top_needs_a_task_that_runs(tmp_path: Path) -> None:
    answer = asked(tmp_path, RUNNING, "top")
    assert answer.exit_code == 2
    assert "none of the key's tasks runs" in answer.output


def test_top_shows_a_row_for_each_slot_and_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "HEARD_SECONDS", 2.0)
    answer = asked(tmp_path, RUNNING, "top", NAME, "--once")
    assert answer.exit_code == 0, answer.output
    (row,) = json.loads(answer.stdout)
    assert (row["task"], row["place"], row["done"]) == (NAME, 0, None)
    assert "names no broker" in row["problem"]


def test_top_finds_the_running_tasks_of_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "HEARD_SECONDS", 2.0)
    # An id holds the genesis hash, which what is planted would change.
    monkeypatch.setattr(training_reads, "task_id_of", lambda _genesis, _customer, number: bytes((number,)) * 32)

    def plant(bound: Bound) -> None:
        market = bound[TrainingMarket]
        market.submitted[FERDIE] = 3
        for number, task in enumerate((WAITING, RUNNING, ENDED)):
            market.tasks[bytes((number,)) * 32] = task

    with chain_with(tmp_path, plant) as url:
        options = ["--url", url, "--keyring", str(tmp_path / "keys"), "--trust-node", "--json"]
        answer = CliRunner().invoke(main, [*options, "top", "--once", "--key", "//Ferdie"])
    assert [row["task"] for row in json.loads(answer.stdout)] == ["0x" + "01" * 32]
