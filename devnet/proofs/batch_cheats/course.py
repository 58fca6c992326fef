"""All scenes on one devnet, as many at once as there are daemons to answer; a cheat that nobody found is tried again.

Always: customer and honest providers use the programs that people run, or what these are made of; what is judged was
read from final blocks.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby, islice
from pathlib import Path

from devnet.demo.telling import Narrator
from devnet.launcher import lifecycle
from devnet.launcher.errors import DevnetError
from devnet.launcher.layout import Devnet
from devnet.measuring import ledger
from devnet.proofs.batch_cheats import customer, network
from devnet.proofs.batch_cheats.customer import AskedBatch
from devnet.proofs.batch_cheats.facts import BatchFacts
from devnet.proofs.batch_cheats.judging import LeafFigures, failures_of, figures_of
from devnet.proofs.batch_cheats.scenes import SCENES, BatchCustomer, BatchScene
from devnet.proofs.batch_cheats.traces import CheckTrace
from devnet.proofs.cheat_judgement import Check, Finding
from devnet.proofs.cheating.__main__ import LAZY
from devnet.proofs.cheating.lies import RightAnswers
from genesis import dev_accounts
from gpu_tasks.data import market_reads
from gpu_tasks.market.leaf_checks.checks import LeafStage
from gpu_tasks.market.leaf_checks.events import LeavesDrawn, LeavesShown
from runtime.pallets.system import System
from wallet.amounts import format_amount
from wallet.client import ChainClient

NAME = "batches"
STEPS = 1 + len({(scene.others, scene.racers) for scene in SCENES})
AT_ONCE = 5
"""Scenes: a daemon for each, and one that only judges."""
TRIES = 5
"""Of a scene whose cheat nobody found."""
STUCK_SECONDS = 120.0
BLOCKS_MAX = 400
"""From post to the end of a check."""
LOOK_SECONDS = 0.5


@dataclass(slots=True)
class CheckedBatch:
    """One batch on its way."""

    right: RightAnswers
    trace: CheckTrace
    is_asked: bool = False
    """Whether its customer has said what it says."""


@dataclass(slots=True)
class SceneRound:
    """Some scenes at once: for each a batch, and daemons that answer it."""

    net: Devnet
    scenes: list[BatchScene]
    batch: AskedBatch
    tell: Narrator
    next_height: int = 0
    batches: list[CheckedBatch] = field(default_factory=list)
    scene_of: dict[bytes, BatchScene] = field(default_factory=dict)
    """By who answers in it."""

    def play(self) -> list[BatchFacts]:
        """Cast the daemons, post, follow all to the ends of their checks; what there is to say of each."""
        modes: dict[str, str | None] = {}
        names = iter(member.name for member in self.net.members)
        for scene in self.scenes:
            for name in islice(names, scene.racers):
                modes[name] = scene.mode
                self.scene_of[dev_accounts.stash(name)] = scene
        others = self.scenes[0].others
        network.cast(self.net, modes, others)
        asyncio.run(self._follow())
        modes |= {member.name: others for member in self.net.members if member.name not in modes}
        lazy = frozenset(dev_accounts.stash(name) for name, mode in modes.items() if mode == LAZY)
        return [BatchFacts(self._scene(each), each.right, each.trace, lazy) for each in self.batches]

    def _scene(self, batch: CheckedBatch) -> BatchScene:
        """Devices are drawn: which scene a batch came to, its racers say."""
        return self.scene_of[batch.trace.racers[0]]

    async def _follow(self) -> None:
        async with await ChainClient.connect(self.net.members[0].rpc_url) as chain:
            self.next_height = await ledger.final_height(chain) + 1
            asked = await customer.post(chain, self.batch, len(self.scenes), self.scenes[0].racers)
            self.batches = [CheckedBatch(right, CheckTrace(right.unit)) for right in asked]
            moved, last = time.monotonic(), self.next_height + BLOCKS_MAX
            while any(each.trace.ended is None for each in self.batches):
                before = self.next_height
                await self._read_on(chain)
                moved = time.monotonic() if self.next_height > before else moved
                if time.monotonic() > moved + STUCK_SECONDS:
                    raise DevnetError(f"no block has been final for {STUCK_SECONDS:.0f} s")
                if self.next_height > last:
                    raise DevnetError(f"a check has not ended after {BLOCKS_MAX} blocks")
                for each in self.batches:
                    await self._let_ask(chain, each)
                await asyncio.sleep(LOOK_SECONDS)

    async def _read_on(self, chain: ChainClient) -> None:
        for height in range(self.next_height, await ledger.final_height(chain) + 1):
            block = await ledger.block_hash(chain, height)
            for record in await chain.events(block):
                for each in self.batches:
                    each.trace.take(height, record.event)
                    await _look(chain, block, each.trace, record.event)
            self.next_height = height + 1

    async def _let_ask(self, chain: ChainClient, batch: CheckedBatch) -> None:
        """When only the customer may doubt any more, it does once what its scene says."""
        if batch.is_asked or batch.trace.drawn is None or batch.trace.ended is not None:
            return
        check = await market_reads.check(chain, batch.right.unit, await chain.finalized())
        if check is None or check.stage is not LeafStage.OPEN:
            return
        batch.is_asked, scene = True, self._scene(batch)
        if scene.customer is BatchCustomer.LOOKS:
            wrong = BatchFacts(scene, batch.right, batch.trace).wrong_outputs()
            drawn = [leaf.index for leaf in batch.trace.shown if leaf.index in wrong]
            await asyncio.to_thread(customer.dispute, self.net, batch.right.unit, [*drawn, *wrong][0])
        elif scene.customer is BatchCustomer.LIES:
            refused = await customer.dispute_falsely(chain, batch.right, 0)
            batch.trace.unexpected += [] if refused is None else [f"the chain refused the dispute: {refused}"]


async def _look(chain: ChainClient, block: bytes, trace: CheckTrace, event: object) -> None:
    """What no event says: the terms of the check, and what was shown."""
    if isinstance(event, LeavesDrawn | LeavesShown) and event.unit == trace.unit:
        check = await market_reads.check(chain, trace.unit, block)
        assert check is not None, "it goes on"
        trace.terms, trace.shown = check.terms, check.shown


def play_all(folder: Path, tell: Narrator) -> list[Finding]:
    """A fresh devnet, and all scenes."""
    net, findings = None, {scene.name: Finding(f"{NAME}: {scene.name}", 0) for scene in SCENES}
    try:
        tell.step(f"Network: {network.VALIDATORS} validators, each with a GPU provider, for batches that are checked")
        net = network.fresh(folder, tell)
        batch = customer.asked()
        for group in _groups():
            tell.step(f"Batches: {'; '.join(scene.title for scene in group)}")
            _play(net, group, batch, findings, tell)
        wrong = asyncio.run(_wrong_issuance(net))
        next(iter(findings.values())).failures += wrong
    finally:
        if net is not None:
            lifecycle.down(net)
    return list(findings.values())


def _groups() -> Iterator[list[BatchScene]]:
    """Scenes that can be played at once, but for how many."""
    for _, group in groupby(SCENES, key=lambda scene: (scene.others, scene.racers)):
        yield list(group)


def _play(
    net: Devnet, scenes: list[BatchScene], batch: AskedBatch, findings: dict[str, Finding], tell: Narrator
) -> None:
    """Each scene until its cheat is found once, some tries at most."""
    tried = dict.fromkeys(scenes, 0)
    while pending := [scene for scene in scenes if tried[scene] < TRIES and not findings[scene.name].slashed]:
        now = pending[:AT_ONCE]
        for scene in now:
            tried[scene] += 1
        for facts in SceneRound(net, now, batch, tell).play():
            _note(findings[facts.scene.name], facts, tell)
    for scene in scenes:
        if not findings[scene.name].slashed:
            findings[scene.name].failures.append(f"nobody found the cheat in {TRIES} batches")


def _note(finding: Finding, facts: BatchFacts, tell: Narrator) -> None:
    """What one batch came to."""
    failures, trace = failures_of(facts), facts.trace
    finding.units += 1
    finding.drawn += 1
    finding.failures += failures
    if trace.terms is not None and trace.ended is not None:
        figures = figures_of(facts)
        finding.slashed += bool(figures.held)
        finding.figures = _numbers(figures)
        found_by = f"found by {figures.found_by or 'nobody'}"
        finding.answers[found_by] = finding.answers.get(found_by, 0) + 1
        if figures.held:
            what = "what stood for the cheat"
            finding.checks.append(
                Check(what, "0x" + trace.unit.hex(), trace.ended_at, figures.lost, finding.figures["to be lost"])
            )
        tell.line(_told(facts.scene, figures))
    for failure in failures:
        tell.line(f"FAILED: {facts.scene.name}: {failure}")


async def _wrong_issuance(net: Devnet) -> list[str]:
    """Whether all accounts together have what there is."""
    async with await ChainClient.connect(net.members[0].rpc_url) as chain:
        final = await chain.finalized()
        accounts = await chain.entries(System.account, at=final)
        owned = sum(info.data.free + info.data.reserved for info in accounts.values())
        issued = await ledger.issuance(chain, final)
    return [] if owned == issued else [f"all accounts have {owned} grains, and {issued} were issued"]


def _numbers(figures: LeafFigures) -> dict[str, int]:
    return {
        "chance of the draw, in millionths": figures.chance_ppm,
        "blocks from settlement to the end of the check": figures.blocks,
        "paid": figures.price,
        "lost": figures.lost,
        "to be lost": figures.due,
        "held": figures.held,
    }


def _told(scene: BatchScene, figures: LeafFigures) -> str:
    chance = f"the draw finds it with {figures.chance_ppm / 10_000:.0f} %"
    after = f"{figures.blocks} blocks after settlement"
    if not figures.held:
        return f"{scene.name}: nobody found it, it was paid {format_amount(figures.price)}; {chance}; over {after}"
    money = f"lost {format_amount(figures.lost)} of {format_amount(figures.held)} oGPU"
    money += f" for {format_amount(figures.price)}"
    return f"{scene.name}: found by {figures.found_by}, {after}; {money}; {chance}"
