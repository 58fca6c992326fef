"""One scene after the other on one devnet: a task is sold, somebody cheats, and what the chain did is judged.

Always: honest providers and customers use the programs that people run; a scene that the beacon's own audit forestalled
is played once more.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from devnet.demo import stage
from devnet.demo.task_sale import SaleRow
from devnet.demo.telling import Narrator
from devnet.launcher import lifecycle, programs
from devnet.launcher.errors import DevnetError
from devnet.launcher.layout import Devnet
from devnet.measuring.task_following import following
from devnet.measuring.task_ledger import TaskLedger, TaskTrace
from devnet.proofs.auction.judging import People
from devnet.proofs.cheat_judgement import Finding
from devnet.proofs.task_cheats import honest, network, orders, strangers
from devnet.proofs.task_cheats.judging import is_forestalled, judge, of_the_honest
from devnet.proofs.task_cheats.scenes import CheatScene, Stranger, TaskCustomer
from devnet.proofs.task_cheats.strangers import Attempt, Tries
from gpu_tasks.market.training.events import TaskEnded
from wallet.client import ChainClient

CUSTOMER_KEY = f"//{stage.CUSTOMER}"
PATIENCE_SECONDS = 240.0
LOOK_SECONDS = 0.25
TRIES = 6
"""Of a scene: one task in four is audited."""
DISPUTERS: dict[TaskCustomer, tuple[str, ...]] = {
    TaskCustomer.DISPUTES: (),
    TaskCustomer.COMPUTES: ("--compute",),
}
"""Who disputes a result, and how."""
PLAYS: dict[Stranger, Callable[[Tries], Awaitable[None]]] = {
    Stranger.COPIES_BID: strangers.copy_bid,
    Stranger.NEVER_OPENS: strangers.never_open,
    Stranger.STEALS_PROOF: strangers.steal_proof,
}


class CheatCourse:
    """One scene on the devnet."""

    def __init__(self, net: Devnet, scene: CheatScene, tell: Narrator) -> None:
        """Nothing is submitted yet."""
        self.net = net
        self.scene = scene
        self.tell = tell
        self.file = orders.write(net.folder / "orders", scene.name, scene.size)
        self.task_id = b""
        self.problems: list[str] = []
        self.attempts: list[Attempt] = []
        self._threads: list[threading.Thread] = []
        self._is_disputed = False

    def play(self, book: TaskLedger) -> None:
        """Submit the task, do what the scene says, and wait until the final chain has its end."""
        if self.scene.customer is TaskCustomer.SILENT:
            self._began(json.loads(self._ogpu("submit", str(self.file), "--yes", *self._kept()))["task"])
        else:
            self._start(self._follow)
        end = time.monotonic() + PATIENCE_SECONDS
        while not (self.task_id and self.task_id in book.tasks and book.tasks[self.task_id].all(TaskEnded)):
            if time.monotonic() > end:
                self.problems.append(f"the task has not ended after {PATIENCE_SECONDS:.0f} s")
                break
            time.sleep(LOOK_SECONDS)
        for thread in self._threads:
            thread.join(strangers.PATIENCE_SECONDS)

    def _began(self, name: str) -> None:
        self.task_id = bytes.fromhex(name[2:])
        if self.scene.stranger is Stranger.PROVES:
            self._start(self._prove)
        elif self.scene.stranger is not Stranger.NOBODY:
            self._start(self._estrange)

    def _start(self, work: Callable[[], None]) -> None:
        def noted() -> None:
            try:
                work()
            except Exception as error:  # noqa: BLE001  # it is a failure of the scene, told with the others
                self.problems.append(f"{work.__name__.strip('_')}: {str(error) or repr(error)}")

        thread = threading.Thread(target=noted, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _follow(self) -> None:
        """Submit, hold checkpoints, and decide about the result as the scene's customer does."""
        words = ["submit", str(self.file), "--key", CUSTOMER_KEY, "--yes", "--watch", *self._kept()]
        words += ["--accept"] if self.scene.customer is TaskCustomer.ACCEPTS else []
        url = ("--url", self.net.members[0].rpc_url)
        try:
            for row in programs.lines("ogpu", *url, *words, keyring=self.net.keyring, show=self.tell.command):
                self._take(row)
        except DevnetError as error:
            if "ended without a result" not in str(error):
                raise

    def _take(self, row: SaleRow) -> None:
        if not self.task_id:
            self._began(row["task"])
        self.tell.line(f"task {row['task'][:10]}  block {row['height']}  {row['state']}")
        if row["state"] == "submitted" and self.scene.customer in DISPUTERS and not self._is_disputed:
            self._is_disputed = True
            self._ogpu("dispute", row["task"], *DISPUTERS[self.scene.customer], "--yes")

    def _ogpu(self, command: str, *words: str) -> str:
        url = ("--url", self.net.members[0].rpc_url)
        shown = self.tell.command
        return programs.run("ogpu", *url, command, *words, "--key", CUSTOMER_KEY, keyring=self.net.keyring, show=shown)

    def _prove(self) -> None:
        """Somebody without a part in the task computes it, beside its own daemon, and shows where it is wrong."""
        whose = ("--key", f"//{strangers.PROVER}//provider", "--base-path", str(self.net.folder / "prover"))
        words = ("--url", self.net.members[0].rpc_url, *whose, "prove", "0x" + self.task_id.hex(), "--yes")
        programs.run("ogpu-provider", *words, keyring=self.net.keyring, show=self.tell.command)

    def _kept(self) -> list[str]:
        folder = self.net.folder
        return ["--postings", str(folder / "postings"), "--checkpoints", str(folder / "checkpoints")]

    def _estrange(self) -> None:
        asyncio.run(self._try_strangely())

    async def _try_strangely(self) -> None:
        async with await ChainClient.connect(self.net.members[0].rpc_url) as chain:
            tries = Tries(chain, self.task_id, self.file)
            try:
                await PLAYS[self.scene.stranger](tries)
            finally:
                self.attempts += tries.made


def play_all(folder: Path, scenes: list[CheatScene], honest_tasks: int, tell: Narrator) -> list[Finding]:
    """A fresh devnet, one scene after the other, then so many tasks about which nobody cheats."""
    net, findings = None, []
    try:
        tell.step(f"Network: {network.VALIDATORS} validators, each with a GPU provider, for tasks")
        net = network.fresh(folder, tell)
        for scene in scenes:
            tell.step(scene.title)
            net = network.in_mode(net, scene.mode)
            findings.append(_in_time(net, scene, tell))
        if honest_tasks:
            net = network.in_mode(net, "honest")
            findings.append(honest.play(net, honest_tasks, tell))
    finally:
        if net is not None:
            lifecycle.down(net)
    return findings


def _in_time(net: Devnet, scene: CheatScene, tell: Narrator) -> Finding:
    """A scene; once more where the beacon asked for an audit before the cheat, and nobody honest lost by that."""
    for _ in range(TRIES - 1):
        finding, is_over = play(net, scene, tell)
        if is_over:
            return finding
        tell.line(f"{scene.name}: the beacon asked for an audit; once more")
    return play(net, scene, tell)[0]


def play(net: Devnet, scene: CheatScene, tell: Narrator) -> tuple[Finding, bool]:
    """A scene, and what came of it; and whether that says all of it."""
    network.let_bid(net, scene.bidders, cheat_bids=scene.cheat_bids)
    if scene.lazy_judge:
        stage.restart_providers(net, {scene.lazy_judge: "lazy-judge"})
    told, course, people = _told(net, scene), CheatCourse(net, scene, tell), People(network.accounts(net))
    before = [len(lines) for lines in told()]
    with following(net.members[0].rpc_url) as book:
        book.audits.may_lie = True
        people.before = network.wealth(net, people.accounts, book.height)
        course.play(book)
    people.after = network.wealth(net, people.accounts, book.height)
    if scene.lazy_judge:
        stage.restart_providers(net, {scene.lazy_judge: None})
    tried = [line for lines, first in zip(told(), before, strict=True) for line in lines[first:]]
    course.attempts += [line for line in tried if line["event"] == "cheat"]
    finding = judge(scene, course.task_id, book, people, course.attempts)
    finding.failures += course.problems
    tell.line(f"{scene.name}: {finding.outcome}; {', '.join(scene.cheats)}: {finding.gained} grains more")
    for failure in finding.failures:
        tell.line(f"FAILED: {failure}")
    trace = book.tasks.get(course.task_id, TaskTrace())
    is_grave = bool(of_the_honest(scene, course.task_id, book, people))
    return finding, not finding.failures or is_grave or not is_forestalled(trace)


def _told(net: Devnet, scene: CheatScene) -> Callable[[], list[list[dict[str, Any]]]]:
    """What the cheats' daemons have written so far."""
    names = {guest.name: guest for guest in net.guests} | {member.name: member for member in net.members}
    paths = [network.telemetry(net, names[name]) for name in scene.cheats if name in names]
    return lambda: [_lines(path) for path in paths]


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
