"""The reason of a device's pause in `status`, and the notes of `pause` and `resume` for the daemon."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cli import calls
from cli.session import SENT_FOLDER
from gpu_tasks.market.devices.records import Device, DeviceClass
from gpu_tasks.market.inference.gpu_tasks_api import DeviceStatus
from gpu_tasks.provider.commands.register import START_NOW
from gpu_tasks.provider.duties.resumer import (
    BY_OPERATOR,
    MEANING,
    MISSED,
    OVERDUE,
    REFUTED,
    UNKNOWN,
    PauseNote,
    charged,
    resuming_risk,
    why_paused,
)
from gpu_tasks.provider.earnings import LossBook, LostPart
from gpu_tasks.provider.journal.pause_book import NotedDevice, PauseBook, PauseCause, pause_notes
from gpu_tasks.provider.journal.schema import JOURNAL_FILE, open_journal
from provider_runner import Operator
from runtime.encoding.types import GRAINS_PER_OGPU
from wallet_runner import chain

DEVICE = b"d" * 32
PAUSED = DeviceStatus(DEVICE, Device(b"o" * 32, DeviceClass.CPU, b"u" * 32, 80, 1, 1, is_paused=True), ())
MISS = NotedDevice(80, True, PauseCause.MISSED, MISSED, 1, 90)


@pytest.mark.parametrize(
    ("noted", "height", "note", "risk"),
    [
        (None, 100, PauseNote(UNKNOWN), ""),
        (NotedDevice(80, False), 100, PauseNote(BY_OPERATOR), ""),
        (NotedDevice(85, False), 100, PauseNote(charged(5)), charged(5)),
        (NotedDevice(85, True), 100, PauseNote(BY_OPERATOR), ""),
        (MISS, 110, PauseNote(MISSED, 90), ""),
        (MISS, 111, PauseNote(MISSED + OVERDUE, 90), ""),
        (NotedDevice(80, True, PauseCause.MISSED, "the vectors do not match", 1, 110), 100,
         PauseNote("the vectors do not match", 110), ""),
        (NotedDevice(80, True, PauseCause.REFUTED, "", 0), 100, PauseNote(REFUTED), MEANING),
        (NotedDevice(80, False, PauseCause.REFUTED, "", 0), 100, PauseNote(REFUTED), MEANING),
        (NotedDevice(90, True, PauseCause.REFUTED, "", 0), 100, PauseNote(REFUTED), MEANING),
        (NotedDevice(80, True, PauseCause.OPERATOR), 100, PauseNote(BY_OPERATOR), ""),
        (NotedDevice(80, True, PauseCause.UNSERVED, "it is not here"), 100, PauseNote("it is not here"), ""),
        (replace(MISS, cause=PauseCause.DRAINED, why="it drains"), 200, PauseNote("it drains", 90), ""),
    ],
)  # fmt: skip
def test_the_note_of_a_device_says_why(noted: NotedDevice | None, height: int, note: PauseNote, risk: str) -> None:
    assert why_paused(PAUSED, noted, height) == note
    assert resuming_risk(PAUSED, noted) == risk


@pytest.fixture
def alice(tmp_path: Path) -> Iterator[Operator]:
    with chain(tmp_path) as url:
        yield Operator(tmp_path, url, "Alice")


@pytest.fixture
def eve(tmp_path: Path) -> Iterator[Operator]:
    with chain(tmp_path) as url:
        yield Operator(tmp_path, url, "Eve")


def test_register_notes_the_device_before_its_first_daemon(eve: Operator) -> None:
    join = [
        "register", "--key", "//Eve", "--bond", "1000", "--device-bond", "100", "--node-keys", "//Eve",
    ]  # fmt: skip
    assert START_NOW not in eve.run(*join, "--dry-run").stderr
    assert notes_of(eve) == {}, "a trial notes nothing"
    file = eve.folder / eve.name / JOURNAL_FILE
    file.mkdir(parents=True)
    assert JOURNAL_FILE in eve.refusal(*join, "--yes")
    file.rmdir()
    eve.refusal(*join)
    assert notes_of(eve) == {}, "nobody agreed"
    assert START_NOW in eve.run(*join, "--yes").stderr, "nothing was sent before"
    (device,) = eve.answer("status")["devices"]
    name = bytes.fromhex(device["device"][2:])
    noted = NotedDevice(bond=100 * GRAINS_PER_OGPU)
    assert notes_of(eve) == {name: noted}
    note(eve, name, bond=7, misses=2)
    assert START_NOW not in eve.run(*join, "--yes").stderr
    assert notes_of(eve) == {name: replace(noted, bond=7, misses=2)}, "it is registered already"


def notes_of(operator: Operator) -> dict[bytes, NotedDevice]:
    return pause_notes(operator.folder / operator.name)


def note(operator: Operator, device: bytes, **changes: object) -> None:
    with open_journal(operator.folder / operator.name / JOURNAL_FILE) as database:
        PauseBook(database).note(device, **changes)


def shown(operator: Operator) -> tuple[object, ...]:
    (device,) = operator.answer("status")["devices"]
    return device["paused"], device["why_paused"], device["resumes_at"]


def test_status_says_why_a_device_is_paused_and_until_when(alice: Operator) -> None:
    (device,) = alice.answer("status")["devices"]
    name = bytes.fromhex(device["device"][2:])
    assert shown(alice) == (False, None, None)
    assert "Why devices are paused" not in alice.run("status", as_json=False).output
    assert [(alice.answer("drain", *words), alice.answer("status")["draining"])[1] for words in ([], ["--off"])] == [
        True, False,
    ]  # fmt: skip
    alice.answer("pause")
    assert [path.name for path in (alice.folder / "keys").iterdir()] == [SENT_FOLDER], "the keyring of the environment"
    assert shown(alice) == (True, BY_OPERATOR, None)
    note(alice, name, is_paused=True, cause=PauseCause.MISSED, why=MISSED, resumes_at=90)
    assert shown(alice) == (True, MISSED, 90)
    assert "Why devices are paused" in alice.run("status", as_json=False).output
    alice.answer("pause", "--dry-run")
    assert notes_of(alice)[name].cause is PauseCause.MISSED, "a trial notes nothing"
    assert alice.answer("pause")["changed"] is False
    assert shown(alice) == (True, BY_OPERATOR, None), "the daemon was to resume it, and is not any more"
    noted = notes_of(alice)[name]
    assert (noted.cause, noted.resumes_at) == (PauseCause.OPERATOR, None)


def test_who_resumes_a_refuted_device_is_told_what_that_means_and_asked(
    alice: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = bytes.fromhex(alice.answer("status")["devices"][0]["device"][2:])
    alice.answer("pause")
    note(alice, name, is_paused=True, cause=PauseCause.REFUTED)
    alice.answer("pause")
    assert MEANING in alice.answer("resume", "--dry-run").values(), "a pause of the operator's hides no refutation"
    assert "--yes" in alice.refusal("resume")
    assert notes_of(alice)[name].cause is PauseCause.REFUTED
    monkeypatch.setattr(calls, "is_attended", lambda: True)
    assert alice.run("resume", typed="n\n").exit_code == 1
    assert shown(alice)[0] is True
    assert alice.run("resume", typed="y\n").exit_code == 0
    assert shown(alice)[0] is False
    noted = notes_of(alice)[name]
    assert (noted.cause, noted.is_paused, noted.why) == (None, False, ""), "the next pause is another one"
    alice.answer("pause")
    assert alice.answer("resume")["success"], "what the operator paused is resumed unasked"


def test_after_a_slash_status_and_resume_give_its_amount_case_and_deadline(alice: Operator) -> None:
    (device,) = alice.answer("status")["devices"]
    columns = ("lost", "block", "case", "appealable_until_block", "appealable_until")
    assert [device[column] for column in columns] == [None] * 5
    name, case = bytes.fromhex(device["device"][2:]), "0x" + "c" * 64
    alice.answer("pause")
    with open_journal(alice.folder / alice.name / JOURNAL_FILE) as database:
        LossBook(database).note(LostPart(5, "loss", device["device"], 150_000_000, "lied", 7, case, 160, 60_000))
    (device,) = alice.answer("status")["devices"]
    assert device["lost"] is None, "the operator paused it"
    note(alice, name, is_paused=True, cause=PauseCause.REFUTED)
    (device,) = alice.answer("status")["devices"]
    assert [device[column] for column in columns] == [
        {"grains": "150000000", "ogpu": "1.5"}, 7, case, 160, "1970-01-01 00:01 UTC",
    ]  # fmt: skip
    told = alice.answer("resume", "--dry-run")[f"lost_by_{device['device'][:10]}"]
    assert all(value in told for value in ("1.5 oGPU", case, "160", "1970-01-01 00:01 UTC"))
