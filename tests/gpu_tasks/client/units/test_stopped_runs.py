"""Runs with an early end: cancelled, interrupted, out of time, or for a closed service.

The chain draws no providers and grows by hand, as in the tests of other commands. No store receives the inputs.
"""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from error_codes import ended_code
from gpu_tasks.client.cli import main
from gpu_tasks.client.commands import purchase
from gpu_tasks.client.units.answers import CANCELS_PER_CALL, FileAnswers, RunStop
from gpu_tasks.client.units.posting import Sealer
from gpu_tasks.client.units.posting_once import ENDED, PostedPart
from gpu_tasks.client.units.run_record import BatchRecord, runs_of
from gpu_tasks.client.units.watch import FollowedUnit, FollowedUnits
from gpu_tasks.market.inference.units import UnitState, UnitTerms
from runtime.frame.call import Call
from wallet.outbox import OutboxFile
from wallet_runner import chain

Ogpu = Callable[..., Result]

pytestmark = pytest.mark.usefixtures("stored_nowhere")


@pytest.fixture
def ogpu(url: str) -> Ogpu:
    return lambda *words: CliRunner().invoke(main, ["--url", url, "--json", *words])


class StoppedFile:
    """A file of five lines, the third of them refused, in units of two."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.out, self.file = folder, folder / "out", folder / "file"
        self.file.write_text("".join(self._line(number) for number in range(5)))
        self.postings = ("--postings", str(folder / "records"))

    def _line(self, number: int) -> str:
        body = {"model": "decoder-int8:ogpu-bytes", "prompt": "Once", **({"n": 2} if number == 2 else {})}
        asked = {"custom_id": f"r{number}", "method": "POST", "url": "/v1/completions", "body": body}
        return json.dumps(asked) + "\n"

    def post(self, ogpu: Ogpu, *more: str) -> Result:
        words = ["--key", "//Bob", "--racers", "3", "--anyway", "--max-tokens", "8", "--batch", "2", "--yes"]
        return ogpu("unit", "post", str(self.file), "--out", str(self.out), *words, *self.postings, *more)

    def begin(self, ogpu: Ogpu, monkeypatch: pytest.MonkeyPatch, *more: str) -> None:
        """Post it, and be interrupted before anything has ended."""

        async def broken_off(self: FileAnswers, enough: int = 0) -> list[int]:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(FileAnswers, "follow", broken_off)
            patch.setattr(sys, "argv", ["/bin/ogpu", "--url", "ws://here", "unit", "post", "a file", "--out", "x"])
            broken = self.post(ogpu, *more)
        assert broken.exit_code == 1
        assert re.search(r"interrupted: \d of 2 units are posted, 0 more may be", broken.stderr)
        assert "`ogpu --url ws://here unit post 'a file' --out x`" in broken.stderr
        assert (
            f"`ogpu --url ws://here unit cancel {self.out} --key //Bob --postings {self.postings[1]}`" in broken.stderr
        )

    def cancel(self, ogpu: Ogpu, *more: str, name: str = "") -> Result:
        return ogpu("unit", "cancel", name or str(self.out), "--key", "//Bob", *self.postings, *more)

    def batch(self, ogpu: Ogpu, *names: str) -> Any:
        answer = ogpu("unit", "runs", *names, *self.postings)
        assert answer.exit_code == 0, answer.output
        return json.loads(answer.stdout)

    def spendable(self, ogpu: Ogpu) -> int:
        """Grains of the customer."""
        other = str(self.folder / "other-out")  # the run's own file is of other settings
        found = json.loads(self.post(ogpu, "--max-tokens", "4", "--dry-run", "--out", other).stdout)
        return int(found["spendable"]["grains"])

    def errors(self) -> dict[str, str]:
        """By its id, why a line has no answer."""
        lines = [json.loads(line) for line in (self.folder / "out.errors").read_text().splitlines()]
        assert len({line["custom_id"] for line in lines}) == len(lines)
        return {
            line["custom_id"]: line["error"]["code"] if line["error"] else line["response"]["body"]["error"]["code"]
            for line in lines
        }


@pytest.fixture
def stopped(tmp_path: Path) -> StoppedFile:
    return StoppedFile(tmp_path)


ALL_CANCELLED = {"r2": "unsupported_parameter", **dict.fromkeys(("r0", "r1", "r3", "r4"), "batch_cancelled")}


def test_a_run_is_cancelled_by_its_results_and_each_line_says_so(
    ogpu: Ogpu, stopped: StoppedFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "is no run of" in stopped.cancel(ogpu, "--yes").stderr
    stopped.begin(ogpu, monkeypatch, "--completion-window", "24h")
    (row,) = stopped.batch(ogpu)
    assert (row["status"], row["total"], row["completed"], row["failed"]) == ("in_progress", 5, 0, 1)
    foreign = ogpu("unit", "cancel", str(stopped.out), "--key", "//Charlie", "--yes", *stopped.postings)
    assert ended_code(foreign) == "not_owner"
    assert ended_code(stopped.cancel(ogpu)) == "no_terminal"
    dry = json.loads(stopped.cancel(ogpu, "--dry-run").stdout)
    assert (dry["run"], dry["taken_back"], dry["waited_for"], dry["not_posted"]) == (row["run"], 2, 0, 0)
    assert (float(dry["burned"]["ogpu"]) > 0, float(dry["fees"]["ogpu"]) > 0, dry["sent"]) == (True, True, False)
    done = stopped.cancel(ogpu, "--yes", name=row["run"])
    assert done.exit_code == 0, done.output
    batch = json.loads(done.stdout)
    assert (dry["answered"], "waited_for_because" in dry) == (0, False)
    assert (batch["status"], batch["completion_window"]) == ("cancelled", "24h")
    assert batch["request_counts"] == {"total": 5, "completed": 0, "failed": 5}
    assert batch["in_progress_at"] <= batch["cancelling_at"] <= batch["cancelled_at"] < batch["expires_at"]
    assert stopped.errors() == ALL_CANCELLED
    assert stopped.out.read_bytes() == b""
    assert stopped.batch(ogpu, str(stopped.file)) == {**batch, "errors": None}
    assert "the run is cancelled" in stopped.cancel(ogpu, "--yes").stderr
    again = stopped.post(ogpu)
    assert (again.exit_code, json.loads(again.stdout)) == (1, batch)
    missing = "4 requests were given up when the run was cancelled; 1 line was refused"
    assert missing in again.stderr
    events = json.loads(ogpu("events", "--key", "//Bob", "--from", "1").stdout.splitlines()[-1])
    assert events["event"] == "UnitRefunded"


def test_a_run_tells_its_costs_as_the_account_has_them(
    ogpu: Ogpu, stopped: StoppedFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    def grains() -> dict[str, int]:
        return {name: int(sum_["grains"]) for name, sum_ in stopped.batch(ogpu, str(stopped.out))["costs"].items()}

    before = stopped.spendable(ogpu)
    asked = json.loads(stopped.post(ogpu, "--dry-run").stdout)
    assert (asked["requests"], asked["units"], asked["refused"]) == (4, 2, 1)
    (refused,) = asked["refused_first"]
    assert (refused["line"], refused["code"]) == (3, "unsupported_parameter")
    stopped.begin(ogpu, monkeypatch)
    begun = grains()
    assert [begun[name] for name in ("locked", "prepaid")] == [
        int(asked[name]["grains"]) for name in ("locked", "prepaid")
    ]
    assert 0 < begun["fees"] <= int(asked["fees"]["grains"])
    assert (begun["paid"], begun["returned"]) == (0, 0)
    assert begun["still_locked"] + begun["cost"] == before - stopped.spendable(ogpu)
    assert stopped.cancel(ogpu, "--yes").exit_code == 0
    ended = grains()
    assert ended["fees"] > begun["fees"], "of taking back"
    assert ended["paid"] > 0, "a tenth of the bonds"
    assert ended["still_locked"] == 2 * 10_000_000, "a deposit for each record"
    assert ended["still_locked"] + ended["cost"] == before - stopped.spendable(ogpu)


def test_each_call_that_cancels_a_run_pays_the_tip(
    ogpu: Ogpu, stopped: StoppedFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped.begin(ogpu, monkeypatch)
    before = stopped.spendable(ogpu)
    asked = json.loads(stopped.cancel(ogpu, "--tip", "0.5", "--dry-run").stdout)
    assert stopped.cancel(ogpu, "--tip", "0.5", "--yes").exit_code == 0
    paid = before + int(asked["comes_back"]["grains"]) - stopped.spendable(ogpu)
    assert 50_000_000 < paid <= int(asked["fees"]["grains"])


def test_when_its_time_is_over_what_waits_is_taken_back(ogpu: Ogpu, stopped: StoppedFile) -> None:
    assert ended_code(stopped.post(ogpu, "--completion-window", "soon")) == "invalid_window"
    ended = stopped.post(ogpu, "--completion-window", "2s")
    assert ended.exit_code == 1
    batch = json.loads(ended.stdout)
    assert (batch["status"], batch["completion_window"]) == ("expired", "2s")
    assert batch["created_at"] + 2 == batch["expires_at"] <= batch["expired_at"]
    assert stopped.errors() == {
        "r2": "unsupported_parameter",
        **dict.fromkeys(("r0", "r1", "r3", "r4"), "batch_expired"),
    }
    assert json.loads(stopped.post(ogpu, "--completion-window", "2s").stdout) == batch


def test_who_is_at_the_run_is_told_to_cancel_it(
    ogpu: Ogpu, stopped: StoppedFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped.begin(ogpu, monkeypatch)
    (run,) = runs_of(stopped.folder / "records")
    with BatchRecord.open_named(stopped.folder / "records", run.name):
        told = stopped.cancel(ogpu, "--yes")
        assert (told.exit_code, json.loads(told.stdout)["status"]) == (0, "cancelling")
        assert stopped.batch(ogpu)[0]["status"] == "cancelling"
    ended = stopped.post(ogpu)
    assert json.loads(ended.stdout)["status"] == "cancelled"
    assert stopped.errors() == ALL_CANCELLED


def test_a_run_without_its_file_is_cancelled_on_the_chain_and_written_later(
    ogpu: Ogpu, stopped: StoppedFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped.begin(ogpu, monkeypatch)
    text = stopped.file.read_bytes()
    stopped.file.write_bytes(text + b"\n")
    answer = stopped.cancel(ogpu, "--yes")
    assert answer.exit_code == 1
    assert "run_file_missing" in answer.stderr
    stopped.file.unlink()
    assert "No such file" in stopped.cancel(ogpu, "--yes").stderr
    assert stopped.batch(ogpu)[0]["status"] == "cancelling"
    stopped.file.write_bytes(text)
    assert json.loads(stopped.post(ogpu).stdout)["status"] == "cancelled"
    assert stopped.errors() == ALL_CANCELLED


def test_what_was_posted_to_a_service_that_was_closed_is_taken_up(
    ogpu: Ogpu, stopped: StoppedFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("gpu_tasks.client.units.posting.UNITS_PER_POST_MAX", 1)
        patch.setattr("gpu_tasks.client.units.answers.RunStop.is_due", _after(2))
        stopped.begin(ogpu, patch)
    (row,) = stopped.batch(ogpu)
    closed = ogpu("offer", "close-service", "0", "--key", "//Alice", "--yes")
    assert closed.exit_code == 0, closed.output
    with monkeypatch.context() as patch:
        patch.setattr(FileAnswers, "follow", _nothing)
        answer = stopped.post(ogpu)
    assert answer.exit_code == 1
    assert "No more units are posted" in answer.stderr
    assert "1 unit of the file could not be posted: there is no open service 0" in answer.stderr
    dry = json.loads(stopped.cancel(ogpu, "--dry-run").stdout)
    assert (dry["taken_back"], dry["not_posted"]) == (1, 1)
    ended = stopped.cancel(ogpu, "--yes")
    assert (ended.exit_code, json.loads(ended.stdout)["status"]) == (0, "cancelled")
    assert stopped.errors() == ALL_CANCELLED
    assert stopped.batch(ogpu, row["run"])["request_counts"]["failed"] == 5
    other = stopped.post(ogpu, "--max-tokens", "4")
    assert (other.exit_code, "there is no open service 0" in other.stderr) == (2, True)


def test_no_more_units_are_open_than_somebody_may_take_in_time(
    ogpu: Ogpu, stopped: StoppedFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, int]] = []

    async def forgotten(self: FileAnswers, enough: int = 0) -> list[int]:
        seen.append((len(self._record.posted), enough))
        for place in self._record.to_write()[: None if not enough else -enough]:
            self._write_failed(place, bytes(32), None)
        return self._record.to_write()

    async def posted(*given: Any, places: list[int], **_: Any) -> None:
        units = [bytes([place] * 32).hex() for place in places]
        given[2].add(PostedPart(places, "", 0, 0, 0, 0, units, units, block=1))

    monkeypatch.setattr(purchase, "post_once", posted)
    monkeypatch.setattr(purchase, "UNITS_OPEN_LEAST", 2)
    monkeypatch.setattr(purchase, "UNITS_PER_DEVICE", 1)
    monkeypatch.setattr(FileAnswers, "follow", forgotten)
    ended = stopped.post(ogpu, "--batch", "1")
    assert ended.exit_code == 1, ended.stderr
    assert json.loads(ended.stdout)["status"] == "completed"
    assert seen == [(2, 1), (3, 1), (4, 0)]
    assert len(stopped.errors()) == 5


@pytest.mark.parametrize("is_watched", [False, True])
def test_who_interrupts_is_told_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_watched: bool
) -> None:
    (tmp_path / "prompts").write_text("def f():\nimport os\n")
    followed: list[list[bytes]] = []
    honest = Sealer.terms

    async def sealed_at_genesis(*given: Any) -> list[UnitTerms]:
        return [replace(each, sealed_at=0) for each in await honest(*given)]  # all that this chain's beacon calls final

    async def ended(*given: Any) -> None:
        units: FollowedUnits = given[2]
        followed.append(list(units.rows))
        state = "refunded" if len(followed) == 2 else "settled"
        units.rows.update({unit: FollowedUnit(unit.hex(), state=state) for unit in units.rows})

    async def forgotten(_client: object, ids: list[bytes], *_: object) -> list[None]:
        return [None for _ in ids]

    async def interrupted(*given: Any) -> Any:
        if is_watched:
            await ended(*given)
        raise KeyboardInterrupt

    stage = "commands.units.follow" if is_watched else "units.posting_once.PostingRun._sent"
    words = ["unit", "post", str(tmp_path / "prompts"), "--key", "//Bob", "--racers", "3", "--anyway", "--yes"]
    words += ["--postings", str(tmp_path / "postings")]
    words += ["--watch"] if is_watched else []
    monkeypatch.setattr(sys, "argv", ["ogpu", "--url", "ws://here", *words])

    def story(ogpu: Ogpu) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(f"gpu_tasks.client.{stage}", interrupted)
            broken = ogpu(*words)
        assert broken.exit_code == 1
        if is_watched:
            assert "interrupted: all of 2 units are posted" in broken.stderr
            assert "`ogpu --url ws://here unit watch --key //Bob`" in broken.stderr
            monkeypatch.setattr(f"gpu_tasks.client.{stage}", ended)
            monkeypatch.setattr(Sealer, "terms", sealed_at_genesis)
            with monkeypatch.context() as patch:
                patch.setattr("gpu_tasks.data.market_reads.units", forgotten)
                refused = ogpu(*words)
                assert (refused.exit_code, len(followed)) == (2, 1)
            for code in (1, 0):
                done = ogpu(*words)
                assert done.exit_code == code, done.output
                assert ("--again" in done.stderr) is bool(code), "an earlier try posted all of it"
            begun, taken_up, others = followed
            assert begun == taken_up, "nothing was posted twice"
            assert len({*begun, *others}) == 4, "once their end was told, the same command posts others"
            with OutboxFile(tmp_path / "postings") as outbox:
                assert outbox.rows("SELECT told FROM parts") == [(ENDED,)]
            return
        assert "interrupted: 0 of 2 units are posted, and 2 more may be" in broken.stderr
        assert f"`{shlex.join(['ogpu', '--url', 'ws://here', *words])}`" in broken.stderr

    with chain(tmp_path) as url:  # which grows for what is sent alone: its epoch is long enough
        story(lambda *words: CliRunner().invoke(main, ["--url", url, "--json", *words]))


def test_a_signal_ends_what_follows_with_the_command_to_go_on(url: str, tmp_path: Path) -> None:
    (tmp_path / "prompts").write_text("import os\n")
    words = ["--key", "//Bob", "--racers", "3", "--anyway", "--yes", "--postings", str(tmp_path / "postings")]
    posted = CliRunner().invoke(main, ["--url", url, "unit", "post", str(tmp_path / "prompts"), *words])
    assert posted.exit_code == 0, posted.output
    command = [sys.executable, "-m", "gpu_tasks.client.cli", "--url", url, "--json", "unit", "watch", "--key", "//Bob"]
    # a shell has what it starts in the background ignore the signal, and so what that starts
    heeding = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heeding,  # noqa: PLW1509  # it does nothing else
    ) as watching:
        assert watching.stdout is not None
        assert json.loads(watching.stdout.readline())["state"] == "queued"
        watching.send_signal(signal.SIGINT)
        said = json.loads(watching.communicate(timeout=60)[1].splitlines()[-1])["error"]
    assert watching.returncode == 1
    assert said.startswith("interrupted: ")
    assert said.endswith(f"Go on with `ogpu --url {url} --json unit watch --key //Bob`")


def test_taking_back_is_done_in_calls_of_bounded_size() -> None:
    calls: list[Call] = []

    async def send(call: Call) -> int:
        calls.append(call)
        return 4

    fees: list[int] = []
    record: Any = SimpleNamespace(note_fee=fees.append)
    many: Any = [
        (number.to_bytes(32, "little"), SimpleNamespace(state=UnitState.QUEUED))
        for number in range(2 * CANCELS_PER_CALL + 1)
    ]
    asyncio.run(RunStop(record, send).take_back(many))
    assert [len(call.named_arguments["calls"]) for call in calls] == [CANCELS_PER_CALL, CANCELS_PER_CALL, 1]
    assert fees == [4, 4, 4], "each is written down with the run's costs"


def _after(times: int) -> Callable[[Any], bool]:
    """Says yes when it was asked so often, and writes nothing down."""
    asked = iter(range(times))
    return lambda _: next(asked, None) is None


async def _nothing(self: FileAnswers, enough: int = 0) -> list[int]:
    return []
