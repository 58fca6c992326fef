"""Earnings and losses of checks, votes and standby are recorded once, for any behaviour of the node."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from gpu_tasks.provider.chain.claim_money import ClaimMoney, ClaimMoneyRead
from gpu_tasks.provider.chain.port import ChainError, View
from gpu_tasks.provider.chain.side_pay import SidePayment
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.duties.side_earnings import WATCHED_BLOCKS, SideEarnings
from gpu_tasks.provider.earnings import EarningsBook, LossBook, losses, payments
from gpu_tasks.provider.journal.schema import JOURNAL_FILE, open_journal
from heard import Heard

CASE, TASK, SECOND, DEVICE, UNIT, ME, OTHER = (bytes([letter]) * 32 for letter in b"ctsdumo")


def read_until(height: int, *moved: ClaimMoney, ended: Sequence[bytes] = ()) -> ClaimMoneyRead:
    """Return the money of all blocks up to a height."""
    return ClaimMoneyRead(height, is_whole=True, moved=moved, ended=frozenset(ended))


class Scene:
    """A provider whose chain returns the money of each end, or fails."""

    def __init__(self, base: Path, open_checks: Sequence[bytes] = ()) -> None:
        self.base = base
        self.asked: list[tuple[Sequence[bytes], int]] = []
        self.answer: dict[bytes, SidePayment] | None = {}
        self.money: ClaimMoneyRead | None = read_until(5)
        self.money_asked: list[tuple[list[bytes], dict[bytes, bytes], int]] = []
        self.open_claims: set[bytes] = {UNIT, CASE}
        self.standing: Mapping[bytes, bytes] = {}
        self.heard = Heard()
        chain = SimpleNamespace(
            side_payments=self._side_payments, claim_money=self._claim_money, claim=self._open, item_dispute=self._open
        )
        database = open_journal(base / JOURNAL_FILE)
        findings = [((claim, 0), None) for claim in open_checks]
        parts = SimpleNamespace(
            chain=chain, earnings=EarningsBook(database), losses=LossBook(database),
            telemetry=self.heard, identity=SimpleNamespace(stash=ME),
            journal=SimpleNamespace(open_findings=lambda: findings),
        )  # fmt: skip
        self.duty = SideEarnings(cast(Parts[Any], parts), lambda: self.standing)

    async def _side_payments(self, tasks: Sequence[bytes], since: int) -> Any:
        self.asked.append((tasks, since))
        if self.answer is None:
            raise ChainError("away")
        return self.answer

    async def _claim_money(self, claims: set[bytes], disputes: Mapping[bytes, bytes], since: int) -> ClaimMoneyRead:
        self.money_asked.append((list(claims), dict(disputes), since))
        if self.money is None:
            raise ChainError("away")
        money, self.money = self.money, replace(self.money, moved=(), ended=frozenset())
        return money

    async def _open(self, name: bytes, *, final: bool) -> object:
        assert final
        return object() if name in self.open_claims else None

    def step(
        self,
        height: int,
        *,
        standing: Mapping[bytes, bytes] | None = None,
        checks: Mapping[bytes, bytes] | None = None,
        ballots: Mapping[bytes, bytes] | None = None,
    ) -> None:
        """A view with these claims by checker, ballots by dispute, and standby devices."""
        claims: Any = tuple(
            SimpleNamespace(id=unit, claim=SimpleNamespace(checks=[SimpleNamespace(checker=who)]))
            for unit, who in (checks or {}).items()
        )
        votes: Any = tuple(
            SimpleNamespace(id=name, status=SimpleNamespace(dispute=SimpleNamespace(terms=SimpleNamespace(work=unit))))
            for name, unit in (ballots or {}).items()
        )
        self.standing = standing or {}
        asyncio.run(self.duty.step(View(height, (), claims=claims, ballots=votes)))

    def noted(self) -> list[tuple[str, str, str, int]]:
        """Return the recorded earnings."""
        found = payments(self.base)
        return [(each.name, each.device, each.service, each.grains) for each in found]

    def lost(self) -> list[tuple[str, str, int, int, str]]:
        """Return the recorded losses."""
        found = losses(self.base)
        return [(each.device, each.fault, each.grains, each.block, each.case) for each in found]


def test_each_end_is_noted_once_by_its_block_and_device(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.step(5, standing={TASK: DEVICE})
    scene.answer = {TASK: SidePayment(6, 9)}
    scene.step(6)
    scene.step(7)
    assert scene.asked == [([TASK], 5)]
    assert scene.noted() == [(f"standing by 0x{TASK.hex()} 6", f"0x{DEVICE.hex()}", "standing by", 9)]
    scene.step(8, standing={TASK: DEVICE})  # in another auction
    scene.answer = {TASK: SidePayment(9, 7)}
    scene.step(9)
    assert len(scene.noted()) == 2


def test_what_the_node_does_not_tell_is_asked_for_again_from_where_it_was_seen(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.step(5, standing={SECOND: DEVICE, TASK: DEVICE})
    scene.answer = None
    scene.step(6)
    scene.answer = {SECOND: SidePayment(6, 7)}
    scene.step(7)
    scene.answer = {TASK: SidePayment(6, 9)}
    scene.step(8)
    scene.step(9)
    assert scene.asked == [([SECOND, TASK], 5), ([SECOND, TASK], 5), ([TASK], 5)]
    assert [(name.rpartition(" ")[2], grains) for name, *_, grains in scene.noted()] == [("6", 7), ("6", 9)]


def test_what_is_not_to_be_found_is_let_go_in_the_end(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.step(5, standing={TASK: DEVICE})
    for height in range(6, 6 + 2 * WATCHED_BLOCKS):
        scene.step(height)
    assert len(scene.asked) == WATCHED_BLOCKS + 1
    assert scene.noted() == []


def test_a_check_is_followed_from_its_duty_to_the_end_of_its_claim(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.step(5, checks={UNIT: ME, b"x" * 32: OTHER})
    scene.money = read_until(40, ClaimMoney(30, UNIT, None, 7, 0))
    scene.step(6)
    scene.step(7)
    scene.money = read_until(60, ClaimMoney(60, UNIT, None, 2, 9), ended=[UNIT])
    scene.step(8)
    scene.step(9)
    assert scene.noted() == [
        (f"checking 0x{UNIT.hex()} 30", "none", "checking", 7), (f"checking 0x{UNIT.hex()} 60", "none", "checking", 2),
    ]  # fmt: skip
    assert scene.lost() == [("none", "check", 9, 60, "")]
    assert [asked for asked in scene.money_asked if UNIT in asked[0]] == scene.money_asked
    assert [since for _, _, since in scene.money_asked] == [4, 5, 40, 40]


def test_a_vote_is_followed_with_the_unit_of_its_dispute(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.step(5, ballots={CASE: UNIT})
    scene.money = read_until(9, ClaimMoney(8, UNIT, CASE, 0, 5), ClaimMoney(9, UNIT, CASE, 4, 0), ended=[CASE])
    scene.step(6)
    scene.step(7)
    assert scene.money_asked == [([], {CASE: UNIT}, 4), ([], {CASE: UNIT}, 5)]
    assert scene.noted() == [(f"voting 0x{UNIT.hex()} 9", "none", "voting", 4)]
    assert scene.lost() == [("none", "vote", 5, 8, f"0x{CASE.hex()}")]
    (told,) = [fields for name, fields in scene.heard.events if name == "lost"]
    assert (told["work"], told["grains"]) == (UNIT, 5)


def test_a_new_process_follows_the_checks_of_its_journal_once_the_node_answers(tmp_path: Path) -> None:
    scene = Scene(tmp_path, open_checks=[UNIT, TASK])
    scene.open_claims, scene.money = {UNIT}, None
    scene.step(5)
    scene.money = read_until(6)
    scene.step(6)
    scene.step(7)
    assert [sorted(claims) for claims, _, _ in scene.money_asked] == [[TASK, UNIT], [TASK, UNIT], [UNIT]]
    assert "not_noted" in scene.heard.names()


def test_a_claim_that_ended_in_blocks_that_were_not_read_is_let_go(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.open_claims = {UNIT}
    scene.step(5, checks={UNIT: ME})
    scene.step(6)
    scene.open_claims, scene.money = set(), replace(read_until(500), is_whole=False)
    scene.step(500)
    scene.step(501)
    assert len(scene.money_asked) == 3
