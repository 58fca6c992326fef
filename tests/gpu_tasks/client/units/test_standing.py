"""What a file waits for while nothing of it has ended, from the records of its units."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from gpu_tasks.client.units import answers
from gpu_tasks.client.units.answers import standing_of
from gpu_tasks.client.units.wait_reasons import AWAITS_DRAW
from gpu_tasks.market.inference.units import Racer, Unit, UnitState, UnitTerms
from gpu_tasks.market.rounds import Round

QUEUED = Unit(0, b"b" * 32, UnitTerms(10, 2, b"i" * 32, b"h" * 32, 1, 8), 1, 1, 0, 1, 1)
DEVICES = [bytes([number]) * 32 for number in range(4)]


def racing(*devices: int, closed_at: int = 0) -> Unit:
    racers = tuple(Racer(DEVICES[device], DEVICES[device], 0) for device in devices)
    return replace(QUEUED, state=UnitState.RACING, racers=racers, round=Round(4, closed_at=closed_at))


BUSY = "busy: needs 2 free owners, 1 of the 4 that suit is free"


def said(monkeypatch: pytest.MonkeyPatch, units: list[Unit], not_posted: int = 0, why: str = BUSY) -> str:
    async def look(client: object, queued: list[Unit], final: bytes) -> Any:
        assert all(unit.state is UnitState.QUEUED for unit in queued)
        return queued or None

    monkeypatch.setattr(answers, "look", look)
    monkeypatch.setattr(answers, "reason_queued", lambda *_: why)
    client: Any = None
    return asyncio.run(standing_of(client, units, not_posted, bytes(32)))


def test_units_are_counted_by_what_they_are_at(monkeypatch: pytest.MonkeyPatch) -> None:
    units = [
        QUEUED, QUEUED, QUEUED, racing(0, 1), racing(1, 2), racing(3, closed_at=9),
        replace(QUEUED, state=UnitState.JUDGING),
    ]  # fmt: skip
    assert said(monkeypatch, units, 1_200) == (
        "units: 2 racing on 3 devices, 1 being opened and settled, 1 before judges, 1,200 not posted yet, "
        "3 waiting for a draw (busy: needs 2 free owners, 1 of the 4 that suit is free)"
    )


def test_what_there_is_none_of_is_not_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert said(monkeypatch, [racing(2)]) == "units: 1 racing on 1 device"
    assert said(monkeypatch, [QUEUED], why=AWAITS_DRAW) == "units: 1 waiting for a draw"
    assert said(monkeypatch, []) == ""
