"""Units and tasks are named by the first digits of their ids, wherever a command takes one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from error_codes import ended_code
from gpu_tasks.client.commands import cancel, id_prefixes, task_runs
from gpu_tasks.data import market_reads
from planted_tasks import BOB_KEY
from task_customer import OF_BOB, ogpu, refusal
from wallet.keyfile import ScryptCost
from wallet.keyring import Keyring
from wallet_runner import answer, chain

pytestmark = pytest.mark.usefixtures("stored_nowhere", "nothing_final")

MINIMAL = str(Path(__file__).parents[4] / "examples" / "minimal.yaml")
SHOWN = len("0x62624cdb")


def bought(folder: Path, url: str) -> tuple[list[str], str]:
    """Two units and a task."""
    (folder / "prompts").write_text("def f():\nimport os\n")
    post = ["unit", "post", str(folder / "prompts"), *OF_BOB, "--racers", "3", "--anyway", "--yes"]
    units = [row["unit"] for row in answer(ogpu(folder, url, *post))]
    return units, answer(ogpu(folder, url, "task", "submit", MINIMAL, *OF_BOB, "--yes"))["task"]


def test_every_command_takes_the_id_as_tables_show_it(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        (unit, _), task = bought(tmp_path, url)
        for short in (unit[:SHOWN], unit[:SHOWN].upper().replace("X", "x"), f"{unit[:SHOWN]}…", unit[:6], unit[2:]):
            assert answer(ogpu(tmp_path, url, "unit", "show", short))["unit"] == unit
        assert answer(ogpu(tmp_path, url, "unit", "result", unit[:SHOWN], *OF_BOB))["unit"] == unit
        assert answer(ogpu(tmp_path, url, "task", "show", task[:SHOWN]))["task"] == task
        assert answer(ogpu(tmp_path, url, "task", "show", task[:SHOWN], "--key", "//Charlie"))["task"] == task
        assert answer(ogpu(tmp_path, url, "task", "bids", task[:SHOWN])) == []
        assert answer(ogpu(tmp_path, url, "task", "verify", task[:SHOWN]))
        dry = answer(ogpu(tmp_path, url, "task", "cancel", task[:SHOWN], *OF_BOB, "--dry-run"))
        assert dry["task"] == task
        told = ogpu(tmp_path, url, "events", "--unit", unit[:SHOWN], "--from", "0")
        assert unit in told.stdout
        for command in ("exec", "appeal", "stop", "confirm", "dispute"):
            done = ogpu(tmp_path, url, "task", command, task[:SHOWN], *OF_BOB)
            assert ended_code(done) not in {"task_unknown", "invalid_id"}, "it was found, and cannot be done now"
        waiting = ["task", "submit", MINIMAL, *OF_BOB, "--again", "--yes", "--after-ok", unit[:SHOWN]]
        assert ended_code(ogpu(tmp_path, url, *waiting)) == "wrong_kind", "a unit is no task"


@pytest.mark.parametrize("text", ["0x12", "0x123", "0xgggg", "1234", "0x" + "1" * 65, ""])
def test_what_is_no_beginning_is_refused(tmp_path: Path, text: str) -> None:
    with chain(tmp_path) as url:
        for command in (["unit", "show"], ["task", "show"], ["unit", "watch", *OF_BOB], ["unit", "result", *OF_BOB]):
            assert refusal(ogpu(tmp_path, url, *command, text))


def test_a_beginning_of_several_takes_none_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with chain(tmp_path) as url:
        units, task = bought(tmp_path, url)
        monkeypatch.setattr(id_prefixes, "DIGITS_LEAST", 0)
        assert set(re.findall("0x[0-9a-f]{64}", refusal(ogpu(tmp_path, url, "unit", "show", "0x")))) == set(units)
        several = refusal(ogpu(tmp_path, url, "unit", "cancel", "0x", *OF_BOB, "--yes"))
        assert set(re.findall("0x[0-9a-f]{64}", several)) == set(units)
        assert answer(ogpu(tmp_path, url, "task", "show", "0x"))["task"] == task, "there is one task"


def test_a_beginning_that_only_others_know_is_refused(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        (unit, _), _ = bought(tmp_path, url)
        assert refusal(ogpu(tmp_path, url, "unit", "show", "0xffffffff"))
        assert answer(ogpu(tmp_path, url, "unit", "show", unit))["unit"] == unit


def test_of_an_account_with_many_the_newest_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with chain(tmp_path) as url:
        (first, second), task = bought(tmp_path, url)
        monkeypatch.setattr(id_prefixes, "NUMBERS_LOOKED_AT", 1)
        assert answer(ogpu(tmp_path, url, "unit", "show", second[:SHOWN]))["unit"] == second
        assert answer(ogpu(tmp_path, url, "task", "show", task[:SHOWN]))["task"] == task
        assert refusal(ogpu(tmp_path, url, "unit", "show", first[:SHOWN]))


def test_a_beginning_is_looked_up_for_the_key_and_for_the_keys_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    awaited, watched = list[tuple[str, bool]](), list[str]()

    async def wait(_: object, task_id: bytes, *, is_ok_needed: bool) -> None:
        awaited.append(("0x" + task_id.hex(), is_ok_needed))

    async def follow(*given: Any, **_: object) -> None:
        watched.append("0x" + given[3].hex())

    with chain(tmp_path) as url:
        (unit, _), task = bought(tmp_path, url)
        short, of_task = unit[:SHOWN], task[:SHOWN]
        for names in ("DEV_NAMES", "CUSTOMER_NAMES"):
            monkeypatch.setattr(id_prefixes, names, ())
        monkeypatch.setattr(task_runs, "wait_for_end", wait)
        monkeypatch.setattr(task_runs, "follow_task", follow)
        assert ended_code(ogpu(tmp_path, url, "unit", "show", short)) == "unit_unknown"
        assert answer(ogpu(tmp_path, url, "unit", "result", short, *OF_BOB))["unit"] == unit
        assert answer(ogpu(tmp_path, url, "unit", "cancel", short, *OF_BOB, "--dry-run"))["unit"] == unit
        assert answer(ogpu(tmp_path, url, "task", "show", of_task, *OF_BOB))["task"] == task
        assert answer(ogpu(tmp_path, url, "task", "cancel", of_task, *OF_BOB, "--dry-run"))["task"] == task
        assert unit in ogpu(tmp_path, url, "events", "--unit", short, *OF_BOB, "--from", "0").stdout
        assert ogpu(tmp_path, url, "task", "watch", of_task, *OF_BOB).exit_code == 0
        assert watched == [task]
        for words in (
            ["unit", "appeal", short],
            ["exec", of_task],
            ["task", "dispute", of_task],
            ["unit", "dispute", short, "--leaf", "0"],
        ):
            assert ended_code(ogpu(tmp_path, url, *words, *OF_BOB)) not in {
                "unit_unknown",
                "task_unknown",
                "invalid_id",
            }
        for after in ("--after-ok", "--after-any"):
            answer(ogpu(tmp_path, url, "task", "submit", MINIMAL, *OF_BOB, "--again", "--yes", after, of_task))
        assert awaited == [(task, True), (task, False)]
        Keyring(tmp_path / "keys").add("mine", BOB_KEY, "secret", cost=ScryptCost(1 << 15, 1, 8))
        assert answer(ogpu(tmp_path, url, "unit", "show", short))["unit"] == unit


def test_what_the_chain_has_forgotten_is_no_match(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = market_reads.units
    with chain(tmp_path) as url:
        (first, second), _ = bought(tmp_path, url)

        async def forgotten(client: Any, ids: Any, *at: Any) -> list[Any]:
            found = await honest(client, ids, *at)
            return [None if "0x" + each.hex() == first else unit for each, unit in zip(ids, found, strict=True)]

        monkeypatch.setattr(market_reads, "units", forgotten)
        monkeypatch.setattr(id_prefixes, "DIGITS_LEAST", 0)
        assert answer(ogpu(tmp_path, url, "unit", "show", "0x"))["unit"] == second


def test_so_many_are_taken_back_at_once_and_a_run_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cancel, "CANCELS_PER_CALL", 2)
    ids = ["0x" + f"{number}" * 64 for number in range(3)]
    assert "at most 2" in refusal(ogpu(tmp_path, "ws://127.0.0.1:1", "unit", "cancel", *ids, *OF_BOB, "--yes"))
    said = refusal(ogpu(tmp_path, "ws://127.0.0.1:1", "unit", "cancel", ids[0], "answers", *OF_BOB, "--yes"))
    assert "by itself" in said


def states(folder: Path, url: str, names: list[str]) -> list[Any]:
    return [answer(ogpu(folder, url, "unit", "show", name))["state"] for name in names]


def test_several_are_cancelled_by_one_call_or_none(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        units, task = bought(tmp_path, url)
        short = [each[:SHOWN] for each in units]
        dry = answer(ogpu(tmp_path, url, "unit", "cancel", *short, *OF_BOB, "--dry-run"))
        ones = [answer(ogpu(tmp_path, url, "unit", "cancel", each, *OF_BOB, "--dry-run")) for each in short]
        gone = sum(int(each["burned"]["grains"]) for each in ones)
        assert (dry["taken_back"], dry["refused"], int(dry["gone"]["grains"])) == (2, None, gone)
        back = sum(int(each["comes_back"]["grains"]) for each in ones)
        assert int(dry["comes_back"]["grains"]) == back
        assert answer(ogpu(tmp_path, url, "unit", "cancel", units[0], *OF_BOB, "--yes"))["success"]
        assert units[0] in refusal(ogpu(tmp_path, url, "unit", "cancel", *short, *OF_BOB, "--yes"))
        assert states(tmp_path, url, units) == ["refunded", "queued"]
        assert answer(ogpu(tmp_path, url, "unit", "cancel", short[1], short[1], *OF_BOB, "--yes"))["success"]
        assert states(tmp_path, url, units) == ["refunded"] * 2
        assert refusal(ogpu(tmp_path, url, "unit", "cancel", units[0], str(tmp_path / "answers"), *OF_BOB, "--yes"))
        other = answer(ogpu(tmp_path, url, "task", "submit", MINIMAL, *OF_BOB, "--yes", "--again"))["task"]
        both = answer(ogpu(tmp_path, url, "scancel", task[:SHOWN], other[:SHOWN], *OF_BOB, "--yes"))
        assert (both["success"], both["taken_back"]) == (True, 2)


def test_a_wrong_kind_of_id_is_answered_with_the_right_command(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        (unit, _), task = bought(tmp_path, url)
        for name, more in (("show", []), ("watch", OF_BOB), ("result", OF_BOB), ("cancel", [*OF_BOB, "--yes"])):
            for typed in (unit, unit[:SHOWN]):
                done = ogpu(tmp_path, url, "task", name, typed, *more)
                assert (ended_code(done), f"`ogpu unit {name} {unit}`" in done.stderr) == ("wrong_kind", True)
            for typed in (task, task[:SHOWN]):
                done = ogpu(tmp_path, url, "unit", name, typed, *more)
                assert (ended_code(done), f"`ogpu task {name} {task}`" in done.stderr) == ("wrong_kind", True)
        done = ogpu(tmp_path, url, "logs", unit, *OF_BOB)
        assert (ended_code(done), f"`ogpu unit show {unit}`" in done.stderr) == ("wrong_kind", True)


def test_last_is_the_newest_of_the_key_or_of_the_keys_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with chain(tmp_path) as url:
        for what in ("unit", "task"):
            assert ended_code(ogpu(tmp_path, url, what, "show", "last")) == f"{what}_unknown"
        (_, newest), task = bought(tmp_path, url)
        assert answer(ogpu(tmp_path, url, "unit", "show", "last"))["unit"] == newest
        assert answer(ogpu(tmp_path, url, "unit", "result", "last", *OF_BOB))["unit"] == newest
        assert answer(ogpu(tmp_path, url, "task", "show", "last"))["task"] == task
        assert ended_code(ogpu(tmp_path, url, "unit", "result", "last", "--key", "//Alice")) == "unit_unknown"
        assert newest in ogpu(tmp_path, url, "events", "--unit", "last", "--from", "0").stdout
        other = answer(ogpu(tmp_path, url, "task", "submit", MINIMAL, "--key", "//Charlie", "--yes"))["task"]
        assert answer(ogpu(tmp_path, url, "task", "show", "last"))["task"] == other, "the newest of all keys"
        assert answer(ogpu(tmp_path, url, "scancel", "last", *OF_BOB, "--yes"))["task"] == task
        assert answer(ogpu(tmp_path, url, "unit", "cancel", "last", *OF_BOB, "--yes"))["unit"] == newest
        for names in ("DEV_NAMES", "CUSTOMER_NAMES"):
            monkeypatch.setattr(id_prefixes, names, ())
        assert ended_code(ogpu(tmp_path, url, "unit", "show", "last")) == "unit_unknown"
        Keyring(tmp_path / "keys").add("mine", BOB_KEY, "secret", cost=ScryptCost(1 << 15, 1, 8))
        assert answer(ogpu(tmp_path, url, "unit", "show", "last"))["unit"] == newest
        assert answer(ogpu(tmp_path, url, "task", "show", "last"))["task"] == task
