"""`ogpu units`: what the chain knows of a key's units, and what the records of this machine add."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from gpu_tasks.client.units import watch
from gpu_tasks.client.units.costs import UnitSums
from gpu_tasks.client.units.file_plan import ACCOUNT
from gpu_tasks.client.units.run_record import BatchRecord, RunPlan, run_id
from gpu_tasks.client.units.watch import FORGOTTEN
from gpu_tasks.data import market_reads
from planted_tasks import BOB
from runtime.cryptography import ss58
from task_customer import OF_BOB, ogpu
from wallet_runner import answer, chain

pytestmark = pytest.mark.usefixtures("stored_nowhere")


def posted(folder: Path, url: str, *more: str) -> list[str]:
    (folder / "prompts").write_text("def f():\nimport os\n")
    post = ["post", str(folder / "prompts"), *OF_BOB, "--racers", "3", "--anyway", "--yes", *more]
    return [row["unit"] for row in answer(ogpu(folder, url, *post))]


def test_open_and_ended_units_are_listed_with_their_cost(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        assert answer(ogpu(tmp_path, url, "units", *OF_BOB)) == []
        first, second = posted(tmp_path, url)
        burned = int(answer(ogpu(tmp_path, url, "cancel", first, *OF_BOB, "--yes", "--dry-run"))["burned"]["grains"])
        answer(ogpu(tmp_path, url, "cancel", first, *OF_BOB, "--yes"))
        rows = answer(ogpu(tmp_path, url, "units", "--key", ss58.encode(BOB)))
        assert [row["unit"] for row in rows] == [first, second]
        assert [row["state"] for row in rows] == ["refunded, cancelled", "queued"]
        assert [row["service"] for row in rows] == [0, 0]
        ended, waiting = rows
        prepaid = int(waiting["cost_before_fees"]["grains"])
        assert prepaid > 0
        assert int(ended["cost_before_fees"]["grains"]) == prepaid + burned
        assert ended["posted_in_block"] < ended["ended_in_block"]
        assert ended["posted_about"] <= ended["ended_about"]
        assert (waiting["ended_in_block"], waiting["ended_about"], waiting["run"]) == (None, None, None)
        assert [row["unit"] for row in answer(ogpu(tmp_path, url, "units", *OF_BOB, "--open"))] == [second]
        assert first[:10] in ogpu(tmp_path, url, "units", *OF_BOB, as_json=False).stdout.replace("\n", "")


def test_a_unit_of_several_requests_says_how_many(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        (unit,) = posted(tmp_path, url, "--batch", "2")
        (row,) = answer(ogpu(tmp_path, url, "units", *OF_BOB))
        assert (row["unit"], row["requests"]) == (unit, 2)


def test_units_that_the_chain_has_forgotten_are_known_by_the_record_of_their_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest, runs = market_reads.units, list[str]()
    with chain(tmp_path) as url:
        first, second = posted(tmp_path, url)
        for number, account in enumerate((BOB, bytes(32))):
            settings = {ACCOUNT: account.hex()}
            plan = RunPlan("ab", "lines", None, "00", settings, 1, "/out", "/errors", 0, [(0, 2)])
            with BatchRecord.open(tmp_path / "postings", bytes([number])) as record:
                record.begin(plan)
                record.note_posted(0, (first, second)[number][2:], UnitSums(locked=9, prepaid=4))
                record.note_written(0, 2, 0, record.ends, (3, 2))
                runs.append(run_id(record.path))
        (row, other) = answer(ogpu(tmp_path, url, "units", *OF_BOB))
        assert (row["run"], other["run"]) == (runs[0], None)

        async def forgotten(client: Any, ids: Any, *at: Any) -> list[Any]:
            return [None, *(await honest(client, ids, *at))[1:]]

        monkeypatch.setattr(market_reads, "units", forgotten)
        row, other = answer(ogpu(tmp_path, url, "units", *OF_BOB))
        assert (row["unit"], row["state"], row["run"]) == (first, FORGOTTEN, runs[0])
        assert row["cost_before_fees"]["grains"] == "7"
        assert other["unit"] == second
        assert [row["unit"] for row in answer(ogpu(tmp_path, url, "units", *OF_BOB, "--open"))] == [second]


def test_of_many_units_the_newest_are_listed_with_times_by_the_chain_s_slots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "slot_ms", lambda _: 86_400_000)
    with chain(tmp_path) as url:
        _, second = posted(tmp_path, url)
        answer(ogpu(tmp_path, url, "cancel", second, *OF_BOB, "--yes"))
        assert "older" not in ogpu(tmp_path, url, "units", *OF_BOB).stderr
        monkeypatch.setattr(watch, "UNITS_LISTED_MAX", 1)
        listed = ogpu(tmp_path, url, "units", *OF_BOB)
        (row,) = answer(listed)
        assert row["unit"] == second
        assert "older" in listed.stderr
        begin, end = (date.fromisoformat(row[name][:10]) for name in ("posted_about", "ended_about"))
        assert len(row["posted_about"]) == len("2026-11-26 02:16 UTC"), "no second of a block is known"
        assert (end - begin).days == row["ended_in_block"] - row["posted_in_block"] > 0


def test_who_watches_nothing_is_told_so(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        done = ogpu(tmp_path, url, "watch", *OF_BOB)
        assert (done.exit_code, done.stdout) == (0, "")
        assert "ogpu units" in done.stderr


def test_who_watches_without_a_terminal_is_told_what_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []

    async def moments(_: object) -> AsyncIterator[None]:
        for _each in range(2):
            yield
            while not any("is queued" in text for text in told):  # until the command has said it
                await asyncio.sleep(0.01)
        raise KeyboardInterrupt

    with chain(tmp_path) as url:
        first, _ = posted(tmp_path, url)
        monkeypatch.setattr("gpu_tasks.client.units.watch.moments", moments)
        monkeypatch.setattr("cli.session.WAIT_SECONDS", 0.05)
        monkeypatch.setattr("cli.session.note", told.append)
        for as_json in (True, False):
            told.clear()
            assert ogpu(tmp_path, url, "watch", *OF_BOB, as_json=as_json).exit_code == 1
            said = next(text for text in told if "is queued" in text)
            assert first[:10] in said
            assert "needs 3 owners" in said
