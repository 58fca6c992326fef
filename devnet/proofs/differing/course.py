"""One batch after the other on a devnet of six, raced for by one honest provider and by the cheat.

Always: customer, validators and the honest provider use the programs that people run; what is judged was read from
final blocks. A batch that only one of the two answered in time tells nothing, and is posted once more.
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from devnet.demo import purchase, stage
from devnet.demo.telling import Narrator
from devnet.launcher import lifecycle as network
from devnet.launcher import processes, programs
from devnet.launcher.errors import DevnetError
from devnet.launcher.layout import Devnet, NodeLayout, replace_guest
from devnet.launcher.lifecycle import provider_process
from devnet.measuring import ledger
from devnet.proofs.cheat_judgement import Check, Finding
from devnet.proofs.differing.judging import DisputeFigures, failures_of, figures_of
from devnet.proofs.differing.scenes import SCENES, DifferingScene
from devnet.proofs.differing.traces import DisputeTrace, computed_of
from genesis import dev_accounts
from gpu_tasks.batches.sum_tree import SUBTREE_LEAVES
from gpu_tasks.data import market_reads
from gpu_tasks.market.inference.events import UnitDisputed
from gpu_tasks.market.inference.units import racer_of
from gpu_tasks.market.leaf_disputes.events import LeafDisputed
from gpu_tasks.market.leaf_disputes.leaf_disputes import LeafDisputes
from wallet.amounts import format_amount
from wallet.client import ChainClient

NAME = "differing"
STEPS = 1 + len(SCENES)
VALIDATORS = 6
"""As few as there may be where batches are checked by their leaves."""
HONEST = "Alice"
MAX_TOKENS, PRICE = 24, "0.05"
TRIES = 3
BLOCKS_MAX = 400
SLOW = 10.0
"""So many seconds a block at most, on a machine that others use too."""
ASK_SECONDS = 0.5
ASK_AFTER = 4
"""Blocks after trees were asked for; by then who is there has shown its own."""


@dataclass(slots=True)
class BatchCourse:
    """One batch on its way."""

    net: Devnet
    scene: DifferingScene
    tell: Narrator
    trace: DisputeTrace
    next_height: int
    killed_at: int = 0

    def play(self) -> None:
        """Follow the batch to its end."""
        last, moved = self.next_height + BLOCKS_MAX, time.monotonic()
        while not self.trace.ended_at:
            before = self.next_height
            asyncio.run(self._read_on())
            moved = time.monotonic() if self.next_height > before else moved
            if self.next_height > last or time.monotonic() > moved + SLOW * 10:
                raise DevnetError(f"the batch has not ended at final block {self.next_height - 1}")
            if self.scene.away_blocks and self.trace.asked:
                self._let_be_away()
            is_waiting = self.scene.waits and self.trace.asked and self.next_height > self.trace.asked[0][0] + ASK_AFTER
            if is_waiting and self.trace.why is None:
                self._ask_programs()
            time.sleep(ASK_SECONDS)
        told = (computed_of(self.trace.unit, _lines(self.net, member)) for member in self.net.members)
        self.trace.computed = [line for lines in told for line in lines]

    def _let_be_away(self) -> None:
        """Kill the honest daemon once, and start it again so many blocks later."""
        process, height = provider_process(self.net, self.net.member(HONEST)), self.next_height - 1
        if not self.killed_at:
            pid, self.killed_at = processes.kill(process), height
            self.tell.line(f"block {height}: killed the provider of {HONEST} with -9 (process {pid})")
        elif not self.trace.returned_at and height >= self.killed_at + self.scene.away_blocks:
            processes.start(process)
            self.trace.returned_at = height
            self.tell.line(f"block {height}: started it again")

    def _ask_programs(self) -> None:
        """What customer and operator are told while a side has not shown its tree."""
        trace, member = self.trace, self.net.member(HONEST)
        words = ["--url", self.net.members[0].rpc_url, "show", "0x" + trace.unit.hex()]
        said = json.loads(programs.run("ogpu", *words, keyring=self.net.keyring))
        trace.why = said["why"] or ""
        base = str(self.net.home(member) / "provider")
        words = ["--url", member.rpc_url, "--key", f"//{HONEST}//provider", "--base-path", base, "status"]
        trace.to_show = json.loads(programs.run("ogpu-provider", *words, keyring=self.net.keyring))["disputes"]
        self.tell.line(f"the customer is told: {trace.why}; {HONEST} has to show: {trace.to_show or 'nothing'}")

    async def _read_on(self) -> None:
        async with await ChainClient.connect(self.net.members[0].rpc_url) as chain:
            for height in range(self.next_height, await ledger.final_height(chain) + 1):
                block = await ledger.block_hash(chain, height)
                for record in await chain.events(block):
                    self.trace.take(height, record.event)
                    await self._look(chain, block, record.event)
                self.next_height = height + 1

    async def _look(self, chain: ChainClient, block: bytes, event: object) -> None:
        """What no event says: what racers hold, and how large the leaf is."""
        trace = self.trace
        if isinstance(event, UnitDisputed) and event.unit == trace.unit:
            status = await market_reads.unit(chain, trace.unit, block)
            assert status is not None, "a unit that is disputed is known"
            trace.collaterals = {racer.owner: racer.collateral for racer in status.unit.racers}
            trace.closed_at = 0 if status.unit.round is None else status.unit.round.closed_at
            said = racer_of(status.unit, dev_accounts.stash(HONEST))
            if said is not None and said.reveal is not None:
                trace.batch_tokens = said.reveal.input_tokens + said.reveal.output_tokens
        if isinstance(event, LeafDisputed) and event.unit == trace.unit:
            root = next(each.root for _, each in trace.shown if each.provider == dev_accounts.stash(HONEST))
            nodes = await chain.read(LeafDisputes.leaves, trace.unit, root, at=block)
            node = nodes[event.leaf % SUBTREE_LEAVES]
            trace.leaf_tokens = node.tokens_in + node.tokens_out


def play_all(folder: Path, tell: Narrator) -> list[Finding]:
    """A fresh devnet, and all scenes."""
    net, findings = None, []
    try:
        tell.step(f"Network: {VALIDATORS} validators, of whom {HONEST} races, beside a provider that cheats")
        net = stage.fresh_network(folder, VALIDATORS, any_ports=True, detach=False, tell=tell)
        net = stage.add_cheat(net, SCENES[0].mode, detach=False, tell=tell)
        for member in net.members:
            if member.name != HONEST:
                stage.set_device(net, member, "pause")
        for scene in SCENES:
            tell.step(scene.title)
            findings.append(_play(net, scene, tell))
    finally:
        if net is not None:
            network.down(net)
    return findings


def _play(net: Devnet, scene: DifferingScene, tell: Narrator) -> Finding:
    course = _tried(net, scene, tell)
    for _ in range(TRIES - 1):
        if course.trace.asked:
            break
        tell.line(f"{scene.name}: only one of the two answered in time; once more")
        course = _tried(net, scene, tell)
    liar, honest = dev_accounts.stash(stage.CHEAT), dev_accounts.stash(HONEST)
    figures, trace = figures_of(scene, course.trace, liar), course.trace
    finding = Finding(f"{NAME}: {scene.name}", 1, drawn=1, slashed=len(trace.slashes))
    finding.failures = failures_of(scene, trace, liar, honest)
    finding.checks = [
        Check("the batch's collateral", "0x" + trace.unit.hex(), trace.ended_at, figures.lost, figures.collateral)
    ]
    finding.figures = _numbers(figures)
    tell.line(_told(figures))
    for failure in finding.failures:
        tell.line(f"FAILED: {failure}")
    return finding


def _tried(net: Devnet, scene: DifferingScene, tell: Narrator) -> BatchCourse:
    """Start the cheat anew, which also resumes its device, and sell one batch."""
    (guest,) = net.guests
    processes.stop(provider_process(net, guest))
    net = replace_guest(net, replace(guest, options=stage.cheat_options(scene.mode)))
    processes.start(provider_process(net, net.guests[0]))
    network.wait_for_provider(net, net.guests[0])
    file = net.folder / f"{scene.name}.txt"
    prompts = purchase.read_prompts(purchase.DEFAULT_PROMPTS, scene.requests)
    file.write_text("".join(f"{line}\n" for line in prompts), encoding="utf-8")
    first = asyncio.run(ledger.next_height(net.members[0].rpc_url))
    words = ["--url", net.members[0].rpc_url, "post", str(file), "--key", f"//{stage.CUSTOMER}", "--again", "--yes"]
    words += ["--batch", str(scene.requests), "--max-tokens", str(MAX_TOKENS), "--racers", "2", "--price", PRICE]
    rows = json.loads(programs.run("ogpu", *words, keyring=net.keyring, show=tell.command))
    (unit,) = {row["unit"] for row in rows}
    course = BatchCourse(net, scene, tell, DisputeTrace(bytes.fromhex(unit[2:])), first)
    course.play()
    return course


def _lines(net: Devnet, member: NodeLayout) -> list[dict[str, Any]]:
    path = net.home(member) / "provider" / "telemetry.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def _numbers(figures: DisputeFigures) -> dict[str, int]:
    return {
        "blocks from close to dispute": figures.disputed,
        "blocks from close to the last tree": figures.shown,
        "blocks from close to payment": figures.paid,
        "judges": figures.judges,
        "tokens that judges computed": figures.judged_tokens,
        "tokens that they compute of the whole": figures.whole_tokens,
    }


def _told(figures: DisputeFigures) -> str:
    judged = f"{figures.judges} judges computed {figures.judged_tokens} tokens, of {figures.whole_tokens} for the whole"
    return (
        f"{figures.scene}: of {figures.requests} requests one differs; since commits closed: disputed after "
        f"{figures.disputed} blocks, the last tree after {figures.shown}, paid after {figures.paid}; "
        f"{judged if figures.judges else 'no judge computed anything'}; the liar lost {format_amount(figures.lost)} of "
        f"{format_amount(figures.collateral)} oGPU, the honest one was paid {format_amount(figures.price)}"
    )
