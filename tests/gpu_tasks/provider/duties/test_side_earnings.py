"""Earnings from judging, auditing and standby are recorded once, for any behaviour of the node."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from gpu_tasks.provider.chain.port import ChainError, View
from gpu_tasks.provider.chain.side_pay import SidePayment
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.duties.side_earnings import WATCHED_BLOCKS, SideEarnings
from gpu_tasks.provider.earnings import EarningsBook, payments
from heard import Heard

CASE, TASK, DEVICE, UNIT, ME = b"c" * 32, b"t" * 32, b"d" * 32, b"u" * 32, b"m" * 32


class Scene:
    """A provider whose chain returns the pay of each end, or fails."""

    def __init__(self, base: Path) -> None:
        self.path = base / "earnings.jsonl"
        self.asked: list[tuple[Sequence[bytes], Sequence[bytes], int]] = []
        self.answer: dict[bytes, SidePayment] | None = {}
        self.checks: dict[bytes, SidePayment | None] | None = {}
        self.seated: set[bytes] = set()
        self.standing: Mapping[bytes, bytes] = {}
        self.audits_asked: list[tuple[Sequence[bytes], int]] = []
        chain = SimpleNamespace(
            side_payments=self._side_payments, audited=self._audited, audit_payments=self._audit_payments
        )
        identity = SimpleNamespace(stash=ME)
        parts = SimpleNamespace(chain=chain, earnings=EarningsBook(self.path), telemetry=Heard(), identity=identity)
        self.duty = SideEarnings(cast(Parts[Any], parts), lambda: self.standing)

    async def _side_payments(self, cases: Sequence[bytes], tasks: Sequence[bytes], since: int) -> Any:
        self.asked.append((cases, tasks, since))
        if self.answer is None:
            raise ChainError("away")
        return self.answer

    async def _audited(self) -> set[bytes]:
        if self.checks is None:
            raise ChainError("away")
        return self.seated

    async def _audit_payments(self, units: Sequence[bytes], since: int) -> Any:
        self.audits_asked.append((units, since))
        if self.checks is None:
            raise ChainError("away")
        return {unit: paid for unit, paid in self.checks.items() if unit in units}

    def step(
        self,
        height: int,
        *seats: bytes,
        standing: Mapping[bytes, bytes] | None = None,
        audits: Mapping[bytes, bytes] | None = None,
    ) -> None:
        """A view with these seats, checks by auditor, and a standby device."""
        told: Any = tuple(SimpleNamespace(id=seat) for seat in seats)
        checks: Any = tuple(
            SimpleNamespace(unit=unit, check=SimpleNamespace(auditor=who)) for unit, who in (audits or {}).items()
        )
        self.standing = standing or {}
        asyncio.run(self.duty.step(View(height, (), seats=told, checks=checks)))

    def noted(self) -> list[tuple[str, str, str, int]]:
        """Return the recorded earnings."""
        return [(found.name, found.device, found.service, found.grains) for found in payments(self.path)]


def test_each_end_is_noted_once_by_its_block_and_device(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.step(5, CASE, standing={TASK: DEVICE})
    scene.answer = {CASE: SidePayment(6, 7), TASK: SidePayment(6, 9)}
    scene.step(6)
    scene.step(7)
    assert scene.asked == [([CASE], [TASK], 5)]
    assert scene.noted() == [
        (f"judging 0x{CASE.hex()} 6", "none", "judging", 7),
        (f"standing by 0x{TASK.hex()} 6", f"0x{DEVICE.hex()}", "standing by", 9),
    ]
    scene.step(8, CASE)  # of another attempt at the same unit
    scene.answer = {CASE: SidePayment(9, 7)}
    scene.step(9)
    assert len(scene.noted()) == 3


def test_what_the_node_does_not_tell_is_asked_for_again_from_where_it_was_seen(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.step(5, CASE, standing={TASK: DEVICE})
    scene.answer = None
    scene.step(6)
    scene.answer = {CASE: SidePayment(6, 7)}
    scene.step(7)
    scene.answer = {TASK: SidePayment(6, 9)}
    scene.step(8)
    scene.step(9)
    assert scene.asked == [([CASE], [TASK], 5), ([CASE], [TASK], 5), ([], [TASK], 5)]
    assert [(name.rpartition(" ")[2], grains) for name, *_, grains in scene.noted()] == [("6", 7), ("6", 9)]


def test_what_is_not_to_be_found_is_let_go_in_the_end(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.step(5, CASE)
    for height in range(6, 6 + 2 * WATCHED_BLOCKS):
        scene.step(height)
    assert len(scene.asked) == WATCHED_BLOCKS + 1
    assert scene.noted() == []


def test_an_audit_is_followed_from_its_duty_to_the_end_of_its_check(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.step(5, audits={UNIT: ME, b"x" * 32: b"other" + bytes(27)})
    scene.checks = {UNIT: None}
    scene.step(6)
    scene.step(7 + 3 * WATCHED_BLOCKS)
    scene.checks = {UNIT: SidePayment(60, 7)}
    scene.step(8 + 3 * WATCHED_BLOCKS)
    scene.step(9 + 3 * WATCHED_BLOCKS)
    assert scene.noted() == [(f"auditing 0x{UNIT.hex()} 60", "none", "auditing", 7)]
    assert [since for _, since in scene.audits_asked] == [5, 5, 6, 7 + 3 * WATCHED_BLOCKS]
    assert {unit for units, _ in scene.audits_asked for unit in units} == {UNIT}, "others' are not its"


def test_a_new_process_learns_of_audits_from_its_seats_once_the_node_answers(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.seated, scene.checks = {UNIT}, None
    scene.step(5)
    assert scene.audits_asked == []
    scene.checks = {UNIT: SidePayment(6, 7)}
    scene.step(6)
    assert scene.audits_asked == [([UNIT], 6)]
    assert [(name, grains) for name, _, _, grains in scene.noted()] == [(f"auditing 0x{UNIT.hex()} 6", 7)]


def test_an_audit_that_earned_nothing_is_no_payment_and_one_that_is_not_found_is_let_go(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.step(5, audits={UNIT: ME, CASE: ME})
    scene.checks = {UNIT: SidePayment(6, 0)}
    for height in range(6, 6 + 2 * WATCHED_BLOCKS):
        scene.step(height)
    assert scene.noted() == []
    assert [units for units, _ in scene.audits_asked] == [[CASE, UNIT]] * 2 + [[CASE]] * WATCHED_BLOCKS
