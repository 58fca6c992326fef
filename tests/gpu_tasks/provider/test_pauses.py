"""Why a device is paused: what the daemon told last of it, as `status` shows it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpu_tasks.provider.commands.pauses import BY_NOBODY_HERE, OVERDUE, PauseNote, why_paused
from gpu_tasks.provider.duties.resuming import MISSED, REFUTED
from gpu_tasks.provider.telemetry import TELEMETRY_FILE, JsonLinesTelemetry
from provider_runner import Operator
from wallet_runner import chain

DEVICE, OTHER = b"d" * 32, b"o" * 32
Told = tuple[str, dict[str, Any]]
LIFE: tuple[tuple[Told, PauseNote], ...] = (
    (("not_served", {"problem": "it is not here"}), PauseNote("it is not here")),
    (("missed", {"resumes_at": 90, "problem": MISSED}), PauseNote(MISSED, 90)),
    (("not_resumed", {"resumes_at": 110, "problem": "the vectors do not match"}),
     PauseNote("the vectors do not match", 110)),
    (("resumed", {"height": 115}), PauseNote(BY_NOBODY_HERE)),
    (("not_resumed", {"problem": REFUTED}), PauseNote(REFUTED)),
    (("paused", {"why": "nothing new is taken: `ogpu-provider drain`"}),
     PauseNote("nothing new is taken: `ogpu-provider drain`")),
)  # fmt: skip


def noted(path: Path, height: int = 100) -> PauseNote:
    return why_paused(path, [DEVICE], height)[DEVICE]


def test_what_was_told_last_of_a_device_says_why(tmp_path: Path) -> None:
    path = tmp_path / TELEMETRY_FILE
    assert noted(path) == PauseNote(BY_NOBODY_HERE)
    telemetry = JsonLinesTelemetry(path)
    for (name, fields), note in LIFE:
        telemetry.tell("missed", device=OTHER, resumes_at=1, problem="of another device")
        telemetry.tell(name, device=DEVICE, **fields)
        telemetry.tell("executed", device=DEVICE, ms=1)
        telemetry.tell("missed", device=OTHER, resumes_at=1, problem="of another device")
        assert noted(path) == note
    telemetry.close()
    assert why_paused(path, [], 100) == {}


def test_a_daemon_that_is_overdue_may_not_run(tmp_path: Path) -> None:
    path = tmp_path / TELEMETRY_FILE
    telemetry = JsonLinesTelemetry(path)
    telemetry.tell("missed", device=DEVICE, resumes_at=90, problem=MISSED)
    telemetry.close()
    assert noted(path, 110) == PauseNote(MISSED, 90)
    assert noted(path, 111) == PauseNote(MISSED + OVERDUE, 90)


@pytest.mark.parametrize(
    "line",
    [b'{"event": "missed", "dev', b'"missed"\n', b"[1, 2]\n", b'{"event": "missed"}\n', b'\xff"missed"\n', b"\n"],
)
def test_lines_that_are_no_events_are_passed_over(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / TELEMETRY_FILE
    event = {"event": "missed", "device": DEVICE.hex(), "resumes_at": 90, "problem": MISSED}
    path.write_bytes(json.dumps(event).encode() + b"\n" + line)
    assert noted(path) == PauseNote(MISSED, 90)


@pytest.fixture
def alice(tmp_path: Path) -> Iterator[Operator]:
    with chain(tmp_path) as url:
        yield Operator(tmp_path, url, "Alice")


def test_status_says_why_a_device_is_paused_and_until_when(alice: Operator) -> None:
    (device,) = alice.answer("status")["devices"]
    assert (device["paused"], device["why_paused"], device["resumes_at"]) == (False, None, None)
    assert "Why devices are paused" not in alice.run("status", as_json=False).output
    assert [(alice.answer("drain", *words), alice.answer("status")["draining"])[1] for words in ([], ["--off"])] == [
        True, False,
    ]  # fmt: skip
    alice.answer("pause")
    base = alice.folder / "Alice"
    base.mkdir(exist_ok=True)
    assert alice.answer("status")["devices"][0]["why_paused"] == BY_NOBODY_HERE
    telemetry = JsonLinesTelemetry(base / TELEMETRY_FILE)
    telemetry.tell("missed", device=bytes.fromhex(device["device"][2:]), resumes_at=90, problem=MISSED)
    telemetry.close()
    (device,) = alice.answer("status")["devices"]
    assert (device["paused"], device["why_paused"], device["resumes_at"]) == (True, MISSED, 90)
    table = alice.run("status", as_json=False).output
    assert "Why devices are paused" in table
    assert "it missed a race" in table
