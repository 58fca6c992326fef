"""`ogpu events` against a real RPC server: whose events are told, and that a broken connection loses none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from between import spoiled
from gpu_tasks.client.cli import main
from gpu_tasks.client.units import events
from gpu_tasks.market.training.tasks import TaskState
from planted_state import chain_with
from planted_tasks import ALICE, PlantedTask
from runtime.cryptography import ss58
from wallet.suri import keypair_from_suri
from wallet_runner import answer, chain

BOB = ss58.encode(keypair_from_suri("//Bob").account)
pytestmark = pytest.mark.usefixtures("stored_nowhere")


def ogpu(folder: Path, url: str, *words: str, as_json: bool = True) -> Result:
    options = ["--url", url, "--keyring", str(folder / "keys"), *(["--json"] if as_json else [])]
    return CliRunner().invoke(main, [*options, *words])


def post(folder: Path, url: str, key: str = "//Bob") -> str:
    (folder / "prompts").write_text("def f():\n")
    words = ["post", str(folder / "prompts"), "--key", key, "--racers", "3", "--anyway", "--yes"]
    (row,) = answer(ogpu(folder, url, *words, "--postings", str(folder / "postings")))
    unit: str = row["unit"]
    return unit


def lines(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_the_market_s_events_are_told_of_who_asks(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        unit = post(tmp_path, url)
        answer(ogpu(tmp_path, url, "cancel", unit, "--key", "//Bob", "--yes"))
        told = lines(ogpu(tmp_path, url, "events"))
        assert [row["event"] for row in told] == ["UnitPosted", "UnitRefunded"]
        assert told[0]["fields"]["customer"] == BOB
        assert told[0]["fields"]["unit"] == unit
        assert told[1]["says"].startswith(f"unit {unit[:10]} ends without a result (cancelled)")

        assert lines(ogpu(tmp_path, url, "events", "--key", "//Bob")) == told, "also those that do not name it"
        assert lines(ogpu(tmp_path, url, "events", "--key", BOB)) == told
        assert lines(ogpu(tmp_path, url, "events", "--key", "//Charlie")) == []
        assert lines(ogpu(tmp_path, url, "events", "--unit", unit)) == told
        nothing = ogpu(tmp_path, url, "events", "--task", "0x" + "ee" * 32)
        assert lines(nothing) == []
        assert "nothing of the kind has happened in these blocks, up to" in nothing.stderr

        later = ogpu(tmp_path, url, "events", "--from", str(told[1]["block"]))
        assert lines(later) == told[1:]
        assert f"--from {told[1]['block'] + 1} goes on here" in later.stderr
        text = ogpu(tmp_path, url, "events", as_json=False).stdout
        assert f"posts unit {unit[:10]} of service 0, for 0.0033 oGPU at most, to 3 racers" in text

        for words, why in (
            (["--task", "0x12"], "is no unit"),
            (["--key", "Nobody"], "is no account"),
            (["--from", "-1"], "not in the range"),
        ):
            refused = ogpu(tmp_path, url, "events", *words)
            assert (refused.exit_code, why in refused.stderr) == (2, True), refused.output


def test_a_task_s_events_are_its_customer_s_and_its_provider_s(tmp_path: Path) -> None:
    planted = PlantedTask(state=TaskState.RUNNING, milestone=2)
    with chain_with(tmp_path, planted) as url:
        answer(ogpu(tmp_path, url, "amend", planted.name, "--key", "//Bob", "--stop", "--yes"))
        told = lines(ogpu(tmp_path, url, "events", "--task", planted.name))
        assert "TaskEnded" in [row["event"] for row in told]
        assert {row["fields"]["task"] for row in told if "task" in row["fields"]} == {planted.name}
        mine = lines(ogpu(tmp_path, url, "events", "--key", "//Bob"))
        assert [row["event"] for row in mine if "task" in row["fields"]] == [row["event"] for row in told]
        theirs = lines(ogpu(tmp_path, url, "events", "--key", ss58.encode(ALICE)))
        assert "SlotSettled" in [row["event"] for row in theirs]
        assert "TaskEnded" not in [row["event"] for row in theirs]


def test_a_connection_that_breaks_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "RETRY_SECONDS", (0.0, 0.0, 0.0))
    broken: list[str] = []

    async def cut(direction: str, message: dict[str, Any], wallet_side: Any, _: Any) -> bool:
        if direction == "ask" and message["method"] == "chain_getBlockHash" and message["params"] == [2] and not broken:
            broken.append("cut")
            await wallet_side.close()
            return True
        return False

    with chain(tmp_path) as node:
        unit = post(tmp_path, node)
        answer(ogpu(tmp_path, node, "cancel", unit, "--key", "//Bob", "--yes"))
        with spoiled(node, cut) as (url, _):
            told = ogpu(tmp_path, url, "events", "--from", "0")
        assert [row["event"] for row in lines(told)] == ["UnitPosted", "UnitRefunded"]
        assert broken
        assert "trying again; block 2 is next" in told.stderr
