"""`describe --key`, `top` and `logs`: messages of providers, their permitted readers, and a broker's influence."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from error_codes import ended_code
from genesis import dev_accounts
from gpu_tasks.client.cli import main
from gpu_tasks.client.commands import logs
from gpu_tasks.client.tasks.subscriber import BrokerTrouble
from gpu_tasks.data import training_reads
from gpu_tasks.data.program_left import LogLine
from gpu_tasks.data.sealing import SealKey
from gpu_tasks.market.training.tasks import Slot, Task, TaskState
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.telemetry.broker import broker_connection, parse_broker
from gpu_tasks.telemetry.envelope import Channel, TaskSubject
from gpu_tasks.telemetry.notes import DeviceMeter, EventNote, LogNote, ProgressNote
from mosquitto import Mosquitto, mosquitto
from planted_state import chain_with
from priced_tasks import a_task
from runtime.cryptography import ss58
from runtime.cryptography.signatures import Scheme
from runtime.frame.runtime import Bound
from telemetry_senders import Teller
from wallet.client import ChainClient
from wallet.keypair import Keypair
from wallet.suri import keypair_from_suri
from wallet_runner import answer

# `describe --key`, `top`: what providers tell stands beside the chain's facts; what a broker does to it is said.


ALICE, FERDIE = dev_accounts.stash("Alice"), keypair_from_suri("//Ferdie")
TASK = b"t" * 32
NAME = "0x" + TASK.hex()
RUNNING = a_task(customer=FERDIE.account, state=TaskState.RUNNING, slots=(Slot(ALICE, b"d" * 32, 1, 1, 1),))
METER = DeviceMeter(83, 5 << 30, 61, 250_000)
Round = Callable[[Teller, int], list[tuple[str, bytes]]]


def honest(teller: Teller, number: int) -> list[tuple[str, bytes]]:
    now = time.time_ns() // 1_000_000
    lines = LogNote((LogLine(now, is_error=False, text=f"loss {number}\x1b[2J"),), 0)
    return [
        teller.told(number, EventNote("computed", ()), told_at_ms=now),
        teller.told(number, lines, channel=Channel.LOG, told_at_ms=now),
        teller.told(number, ProgressNote(3, 12, 1_000_000, METER), channel=Channel.METRICS, told_at_ms=now),
    ]


def forging(teller: Teller, number: int) -> list[tuple[str, bytes]]:
    """The broker hands over what a stranger made up, first."""
    stranger = Teller(Keypair.from_seed(Scheme.ED25519, b"q" * 32), genesis=teller.genesis, subject=teller.subject)
    told = stranger.told(number, ProgressNote(12, 12, 1, METER), channel=Channel.METRICS)
    return [told, *honest(teller, number)]


def late(teller: Teller, number: int) -> list[tuple[str, bytes]]:
    now = time.time_ns() // 1_000_000 - 90_000
    return [
        teller.told(number, EventNote("computed", ()), told_at_ms=now),
        teller.told(number, ProgressNote(3, 12, 1_000_000, METER), channel=Channel.METRICS, told_at_ms=now),
    ]


def nothing(teller: Teller, number: int) -> list[tuple[str, bytes]]:
    return []


@contextlib.contextmanager
def telling(url: str, broker: Mosquitto, said: Round) -> Iterator[None]:
    """A provider that tells, a few times a second, until the end."""
    done = threading.Event()

    async def tell() -> None:
        async with await ChainClient.connect(url) as client:
            genesis = client.genesis_hash
        key = keypair_from_suri("//Alice//provider", Scheme.ED25519)
        teller = Teller(key, ALICE, genesis, TaskSubject(TASK, 0), SealKey.of(FERDIE).public)
        number = 0
        async with broker_connection(parse_broker(broker.url, is_private_allowed=True), private=True) as publisher:
            while not done.is_set():
                number += 1
                for topic, raw in said(teller, number):
                    await publisher.publish(topic, raw, 1)
                await asyncio.sleep(0.2)

    thread = threading.Thread(target=lambda: asyncio.run(tell()))
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def ogpu(folder: Path, url: str, *words: str, as_json: bool = True) -> Result:
    options = ["--url", url, "--keyring", str(folder / "keys"), "--trust-node", *(["--json"] if as_json else [])]
    return CliRunner().invoke(main, [*options, *words])


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with on_chain(tmp_path, RUNNING) as url:
        yield url


@contextlib.contextmanager
def on_chain(folder: Path, task: Task) -> Iterator[str]:
    def plant(bound: Bound) -> None:
        bound[TrainingMarket].tasks[TASK] = task

    with chain_with(folder, plant) as url:
        yield url


def described(folder: Path, url: str, said: Round, *more: str) -> tuple[dict[str, Any], Result]:
    with mosquitto(folder) as broker, telling(url, broker, said):
        words = ["task", "show", NAME, "--key", "//Ferdie", "--mqtt", broker.url, *more]
        return answer(ogpu(folder, url, *words)), ogpu(folder, url, *words, as_json=False)


def test_what_a_provider_tells_stands_beside_the_chain_s_facts(tmp_path: Path, url: str) -> None:
    shown, text = described(tmp_path, url, honest)
    chain_only = answer(ogpu(tmp_path, url, "task", "show", NAME))
    assert chain_only.pop("telemetry") is None
    live = shown.pop("telemetry")
    assert shown == chain_only, "nothing of it changes what the chain says"
    (slot,) = live["slots"]
    assert (slot["done"], slot["total"], slot["percent"], slot["gpu_percent"], slot["watts"]) == (3, 12, 25, 83, 250)
    assert (slot["event"], slot["trouble"]) == ("computed", None)
    assert slot["lines"][-1].startswith("loss ")
    assert (live["is_proved"], live["troubles"]) == (False, {})
    assert "Reports of its providers" in text.stdout
    assert "\x1b" not in text.stdout


@pytest.mark.parametrize(
    ("said", "trouble"), [(forging, BrokerTrouble.LIES), (late, BrokerTrouble.SLOW), (nothing, BrokerTrouble.SILENT)]
)
def test_what_a_broker_does_is_said_in_words(tmp_path: Path, url: str, said: Round, trouble: BrokerTrouble) -> None:
    shown, text = described(tmp_path, url, said, "--listen", "2")
    (slot,) = shown["telemetry"]["slots"]
    assert slot["trouble"] == trouble.name.lower()
    assert shown["telemetry"]["troubles"][trouble.name.lower()] == trouble.value
    assert f"note: {trouble.value}" in text.stderr
    assert slot["percent"] in (25, None), "what a stranger made up is shown nowhere"


def test_a_broker_that_is_gone_is_said(tmp_path: Path, url: str) -> None:
    words = ["task", "show", NAME, "--key", "//Ferdie", "--mqtt", "mqtt://127.0.0.1:1", "--listen", "2"]
    shown = answer(ogpu(tmp_path, url, *words))
    assert shown["telemetry"]["troubles"] == {"gone": BrokerTrouble.GONE.value}
    assert "the broker mqtt://127.0.0.1:1 is unreachable" in shown["telemetry"]["slots"][0]["problem"]


def test_a_stranger_hears_nothing_and_sees_the_chain(tmp_path: Path, url: str) -> None:
    shown = ogpu(tmp_path, url, "task", "show", NAME, "--key", "//Bob")
    assert answer(shown)["telemetry"] is None
    assert "Only that customer's key" in shown.stderr


def test_where_nobody_works_nothing_is_listened_to(tmp_path: Path) -> None:
    (tmp_path / "chain").mkdir()
    with on_chain(tmp_path / "chain", a_task(customer=FERDIE.account)) as url:
        shown = ogpu(tmp_path, url, "task", "show", NAME, "--key", "//Ferdie")
    assert answer(shown)["telemetry"] is None
    assert "no provider works on the task" in shown.stderr


def test_a_broker_that_is_none_is_refused(tmp_path: Path, url: str) -> None:
    refused = ogpu(tmp_path, url, "task", "show", NAME, "--key", "//Ferdie", "--mqtt", "http://127.0.0.1")
    assert (refused.exit_code, "--mqtt:" in refused.stderr) == (2, True)


def test_top_shows_the_chain_s_state_beside_what_is_told(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "HEARD_SECONDS", 2.0)
    with mosquitto(tmp_path) as broker:
        with telling(url, broker, forging):
            words = ["top", NAME, "--key", "//Ferdie", "--once", "--mqtt", broker.url]
            (row,) = json.loads(ogpu(tmp_path, url, *words).stdout)
            text = ogpu(tmp_path, url, *words, as_json=False).stdout
        (silent,) = json.loads(ogpu(tmp_path, url, *words[:-1], "mqtt://127.0.0.1:1").stdout)
    assert (row["percent"], row["trouble"], row["milestones"]) == (25, "lies", "0/4")
    assert row["state"].startswith("running")
    assert row["last_line"].startswith("loss ")
    assert "state and milestones are the chain's; the rest is what providers tell" in text
    assert (silent["state"], silent["percent"], silent["trouble"]) == (row["state"], None, "gone")


# `ogpu logs` and `ogpu top`: who may ask, and of which tasks; what is heard is tried in `telemetry/` and live.


FERDIE_STASH, ALICE = dev_accounts.stash("Ferdie"), dev_accounts.stash("Alice")
NAME_OF_LOGS_COMMAND = "0x" + b"t".hex() * 32
RUNNING_OF_LOGS_COMMAND = a_task(
    customer=FERDIE_STASH, state=TaskState.RUNNING, slots=(Slot(ALICE, b"d" * 32, 1, 1, 1),)
)
WAITING = a_task(customer=FERDIE_STASH)
ENDED = a_task(customer=FERDIE_STASH, state=TaskState.ENDED, slots=RUNNING_OF_LOGS_COMMAND.slots)


def asked(folder: Path, task: Task, *words: str, key: str = "//Ferdie") -> Result:
    """Run a command against a chain that has the task, and return its result."""

    def plant(bound: Bound) -> None:
        bound[TrainingMarket].tasks[b"t" * 32] = task

    (folder / "chain").mkdir()
    with chain_with(folder / "chain", plant) as url:
        options = ["--url", url, "--keyring", str(folder / "keys"), "--trust-node", "--json"]
        return CliRunner().invoke(main, [*options, *words, "--key", key])


def test_only_its_customer_hears_of_a_task(tmp_path: Path) -> None:
    answer = asked(tmp_path, RUNNING_OF_LOGS_COMMAND, "logs", NAME_OF_LOGS_COMMAND, key="//Bob")
    assert answer.exit_code == 2
    assert (ended_code(answer), ss58.encode(FERDIE_STASH) in answer.output) == ("not_owner", True)


def test_of_a_task_that_has_ended_nothing_is_told(tmp_path: Path) -> None:
    answer = asked(tmp_path, ENDED, "logs", NAME_OF_LOGS_COMMAND)
    assert answer.exit_code == 2
    assert ended_code(answer) == "no_output_kept"


@pytest.mark.parametrize("url", ["gpu.example.org", "mqtt://a:b@gpu.example.org", "http://127.0.0.1"])
@pytest.mark.parametrize("command", ["logs", "top"])
def test_a_broker_that_is_none_is_refused_logs_command(tmp_path: Path, command: str, url: str) -> None:
    answer = asked(tmp_path, RUNNING_OF_LOGS_COMMAND, command, NAME_OF_LOGS_COMMAND, "--mqtt", url)
    assert answer.exit_code == 2
    assert "--mqtt:" in answer.output


def test_silence_ends_with_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "HEARD_SECONDS", 2.0)
    answer = asked(tmp_path, RUNNING_OF_LOGS_COMMAND, "logs", NAME_OF_LOGS_COMMAND)
    assert answer.exit_code == 1
    rows = [json.loads(line) for line in answer.stdout.splitlines()]
    assert rows[0]["kind"] == "problem"
    assert "its provider names no broker" in rows[0]["says"]
    assert ended_code(answer) == "no_report"


def test_a_task_without_slots_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "HEARD_SECONDS", 1.0)
    answer = asked(tmp_path, WAITING, "logs", NAME_OF_LOGS_COMMAND)
    assert (answer.exit_code, answer.stdout) == (1, "")
    assert ended_code(answer) == "no_provider_yet"


def test_top_needs_a_task_that_runs(tmp_path: Path) -> None:
    answer = asked(tmp_path, RUNNING_OF_LOGS_COMMAND, "top")
    assert answer.exit_code == 2
    assert ended_code(answer) == "no_running_task"


def test_top_shows_a_row_for_each_slot_and_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "HEARD_SECONDS", 2.0)
    answer = asked(tmp_path, RUNNING_OF_LOGS_COMMAND, "top", NAME_OF_LOGS_COMMAND, "--once")
    assert answer.exit_code == 0, answer.output
    (row,) = json.loads(answer.stdout)
    assert (row["task"], row["place"], row["done"]) == (NAME_OF_LOGS_COMMAND, 0, None)
    assert "names no broker" in row["problem"]


def test_top_finds_the_running_tasks_of_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "HEARD_SECONDS", 2.0)
    # An id holds the genesis hash, which what is planted would change.
    monkeypatch.setattr(training_reads, "task_id_of", lambda _genesis, _customer, number: bytes((number,)) * 32)

    def plant(bound: Bound) -> None:
        market = bound[TrainingMarket]
        market.submission_counts[FERDIE_STASH] = 3
        for number, task in enumerate((WAITING, RUNNING_OF_LOGS_COMMAND, ENDED)):
            market.tasks[bytes((number,)) * 32] = task

    with chain_with(tmp_path, plant) as url:
        options = ["--url", url, "--keyring", str(tmp_path / "keys"), "--trust-node", "--json"]
        answer = CliRunner().invoke(main, [*options, "top", "--once", "--key", "//Ferdie"])
    assert [row["task"] for row in json.loads(answer.stdout)] == ["0x" + "01" * 32]
