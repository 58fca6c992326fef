"""Every lie about a whole batch, once each: the drawn leaves find it, and the liar loses the money table's sum.

All scenes run on one devnet, as many at once as there are answering daemons. A scene is repeated until its cheat is
found. The devnet has the fewest validators that leaf checks allow: some are racers, and the others audit and judge.
Invariant: customer and honest providers use the production programs, or their parts. The judgement reads final blocks.

The customer allows four times the tokens of its requests, so liars can claim more. All batches have the same requests,
and so the same right answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import groupby, islice

from devnet.launcher import processes
from devnet.launcher.folder import DevnetError
from devnet.proofs.cheats.batch_judgement import (
    SCENES,
    BatchCustomer,
    BatchFacts,
    BatchScene,
    CheckTrace,
    failures_of,
    figures_of,
)
from devnet.proofs.cheats.units import CheatFindings, Check, Finding
from devnet.stage.actors.purchase import DEFAULT_PROMPTS, SERVICE_NUMBER, read_prompts
from devnet.stage.cheating.__main__ import LAZY
from devnet.stage.cheating.daemons import most_of
from devnet.stage.cheating.lies import RightAnswers
from devnet.stage.measuring import ledger
from devnet.stage.network import CUSTOMER_KEY, POLL_SECONDS, BlockFollower, FreshDevnet, Stage
from devnet.stage.report import Narrator
from devnet.stage.scenario import Scenario
from genesis import dev_accounts
from gpu_tasks.batches.leaves import Leaf
from gpu_tasks.batches.outcomes import BatchOutcome
from gpu_tasks.batches.requests import encode_requests, price_of, work_of
from gpu_tasks.client.units.leaf_checks import WrongLeaf
from gpu_tasks.client.units.posting import AskedUnit, Sealer, unit_posting
from gpu_tasks.data import market_reads
from gpu_tasks.data.blob_client import BlobClient, stores_for
from gpu_tasks.data.market_reads import endpoints_of
from gpu_tasks.data.sealing import SealKey
from gpu_tasks.data.unit_input import decode_input
from gpu_tasks.market.inference.events import UnitPosted
from gpu_tasks.market.inference.units import UnitTerms
from gpu_tasks.market.leaf_checks.checks import LeafStage
from gpu_tasks.market.leaf_checks.events import LeavesDrawn, LeavesShown
from gpu_tasks.workloads.form import outcomes_of
from gpu_tasks.workloads.registry import form_named, open_workload
from runtime.encoding.types import GRAINS_PER_OGPU
from runtime.pallets.system import System
from wallet.amounts import format_amount
from wallet.client import ChainClient
from wallet.suri import keypair_from_suri

VALIDATORS = 6
NUMBERS = {"Courts.audit_rate_ppm": 1_000_000, "LeafChecks.show_blocks": 40, "LeafChecks.dispute_blocks": 40}
"""Two of three proofs are inspected. Long windows give the customer time even on a busy machine."""
AT_ONCE = 5
"""Concurrent scenes: each needs a daemon, and one more daemon only judges."""
TRIES = 5
"""The tries of a scene whose cheat is not found."""
BLOCKS_MAX = 400
"""The most blocks from the post to the end of a check."""
RESUME_SECONDS = 90.0
WORKLOAD = "textgen-int8"
REQUESTS, TOKENS = 96, 6
"""Three leaves of each batch are drawn."""
ALLOWED = 4 * TOKENS
"""The tokens of each request that the unit allows."""
RATE = GRAINS_PER_OGPU // 20
"""The price of a thousand tokens, in grains."""


@dataclass(frozen=True, slots=True)
class AskedBatch:
    """The requests of every batch, and the right outcomes."""

    requests: tuple[bytes, ...]
    outcomes: tuple[BatchOutcome, ...]


def asked() -> AskedBatch:
    """Return the requests with the outcomes, computed locally on the CPU."""
    form, workload = form_named(WORKLOAD), open_workload(WORKLOAD)
    lines = enumerate(read_prompts(DEFAULT_PROMPTS, REQUESTS))
    requests = tuple(form.encode(line, TOKENS, {}, number.to_bytes(32, "little")) for number, line in lines)
    outputs: list[bytes | None] = [None] * len(requests)
    for place, output in workload.run_many(requests):
        outputs[place] = output
    return AskedBatch(requests, outcomes_of(form, requests, outputs))


async def post(chain: ChainClient, batch: AskedBatch, count: int, racers: int) -> list[RightAnswers]:
    """Post `count` identical units in one transaction. Return the right answers of each."""
    service = await market_reads.service(chain, SERVICE_NUMBER)
    if service is None:
        raise DevnetError(f"there is no service {SERVICE_NUMBER}")
    form, key = form_named(WORKLOAD), keypair_from_suri(CUSTOMER_KEY)
    tokens_in, tokens_max = sum(map(form.cost_in, batch.requests)), REQUESTS * ALLOWED
    price = price_of(RATE, work_of(service.terms.input_share, tokens_in, tokens_max))
    wish = AskedUnit.of(encode_requests(batch.requests), REQUESTS, tokens_in, tokens_max, price)
    async with BlobClient(private=True) as blobs:
        terms = await Sealer(chain, blobs, key, SERVICE_NUMBER, racers).terms([wish] * count, lambda: None)
        salts = [await _salt(chain, blobs, each) for each in terms]
    outcome = await chain.submit(unit_posting(SERVICE_NUMBER).call(terms), key)
    units = [event.unit for event in outcome.events if isinstance(event, UnitPosted)]
    if len(units) != count:
        raise DevnetError(f"{len(units)} of {count} units were posted: {outcome.error}")
    return [
        RightAnswers(chain.genesis_hash, unit, salt, batch.outcomes, most_of(each))
        for unit, salt, each in zip(units, salts, terms, strict=True)
    ]


async def _salt(chain: ChainClient, blobs: BlobClient, terms: UnitTerms) -> bytes:
    """Return the salt of the unit's leaves, from its sealed input."""
    endpoints = endpoints_of(await market_reads.providers(chain))
    sealed = await blobs.get(terms.input_root, stores_for(terms.input_root, endpoints))
    return decode_input(SealKey.of(keypair_from_suri(CUSTOMER_KEY)).open(sealed)).salt


async def dispute_falsely(chain: ChainClient, right: RightAnswers, leaf: int) -> str | None:
    """Dispute a right leaf with an invented claim. Return the chain's reason if it refuses."""
    leaves: Sequence[Leaf] = right.leaves
    true = leaves[leaf]
    call = WrongLeaf(leaf, tuple(leaves), Leaf(true.tokens_in, true.tokens_out, bytes(32))).dispute(right.unit)
    return (await chain.submit(call, keypair_from_suri(CUSTOMER_KEY))).error


@dataclass(slots=True)
class CheckedBatch:
    """One batch in progress."""

    right: RightAnswers
    trace: CheckTrace
    is_asked: bool = False
    """True if its customer has acted."""


@dataclass(slots=True)
class SceneRound:
    """Concurrent scenes: each has a batch and its answering daemons."""

    stage: Stage
    scenes: list[BatchScene]
    batch: AskedBatch
    batches: list[CheckedBatch] = field(default_factory=list)
    scene_of: dict[bytes, BatchScene] = field(default_factory=dict)
    """The scene of each answering stash."""

    def play(self) -> list[BatchFacts]:
        """Assign the daemons, post, and follow all batches to the ends of their checks. Return the facts of each."""
        modes: dict[str, str | None] = {}
        names = iter(member.name for member in self.stage.devnet.members)
        for scene in self.scenes:
            for name in islice(names, scene.racers):
                modes[name] = scene.mode
                self.scene_of[dev_accounts.stash(name)] = scene
        others = self.scenes[0].others
        cast(self.stage, modes, others)
        blocks = BlockFollower(self.stage, self._take, self.stage.next_height())
        self.stage.ask(self._post)
        blocks.until("the end of every check", self._have_ended, BLOCKS_MAX, self._let_all_ask)
        modes |= {member.name: others for member in self.stage.devnet.members if member.name not in modes}
        lazy = frozenset(dev_accounts.stash(name) for name, mode in modes.items() if mode == LAZY)
        return [BatchFacts(self._scene(each), each.right, each.trace, lazy) for each in self.batches]

    def _have_ended(self) -> bool:
        return all(each.trace.ended is not None for each in self.batches)

    def _scene(self, batch: CheckedBatch) -> BatchScene:
        """Return the batch's scene. Racers are drawn, so only they identify it."""
        return self.scene_of[batch.trace.racers[0]]

    async def _post(self, chain: ChainClient) -> None:
        asked = await post(chain, self.batch, len(self.scenes), self.scenes[0].racers)
        self.batches = [CheckedBatch(right, CheckTrace(unit=right.unit)) for right in asked]

    async def _take(self, chain: ChainClient, height: int, block: bytes, event: object) -> None:
        for each in self.batches:
            each.trace.take(height, event)
            await _look(chain, block, each.trace, event)

    def _let_all_ask(self) -> None:
        for each in self.batches:
            self.stage.ask(partial(self._let_ask, batch=each))

    async def _let_ask(self, chain: ChainClient, batch: CheckedBatch) -> None:
        """Let the customer act once, as its scene says, when only it may still doubt."""
        if batch.is_asked or batch.trace.drawn is None or batch.trace.ended is not None:
            return
        check = await market_reads.check(chain, batch.right.unit, await chain.finalized())
        if check is None or check.stage is not LeafStage.OPEN:
            return
        batch.is_asked, scene = True, self._scene(batch)
        if scene.customer is BatchCustomer.LOOKS:
            wrong = BatchFacts(scene, batch.right, batch.trace).wrong_outputs()
            drawn = [leaf.index for leaf in batch.trace.shown if leaf.index in wrong]
            arguments = (
                "0x" + batch.right.unit.hex(),
                "--leaf",
                str([*drawn, *wrong][0]),
                "--key",
                CUSTOMER_KEY,
                "--yes",
            )
            await asyncio.to_thread(self.stage.ogpu, "unit dispute", *arguments, is_shown=False)
        elif scene.customer is BatchCustomer.LIES:
            refused = await dispute_falsely(chain, batch.right, 0)
            batch.trace.refused += [] if refused is None else [f"the chain refused the dispute: {refused}"]


async def _look(chain: ChainClient, block: bytes, trace: CheckTrace, event: object) -> None:
    """Record the terms of the check and the shown leaves, which no event contains."""
    if isinstance(event, LeavesDrawn | LeavesShown) and event.unit == trace.unit:
        check = await market_reads.check(chain, trace.unit, block)
        assert check is not None, "it goes on"
        trace.terms, trace.shown = check.terms, check.shown


def lied_about(stage: Stage) -> CheatFindings:
    """Play all scenes."""
    findings = {scene.name: Finding(f"batches: {scene.name}", 0) for scene in SCENES}
    batch = asked()
    for _, group in groupby(SCENES, key=lambda scene: (scene.others, scene.racers)):
        scenes = list(group)
        stage.narrator.line(f"Batches: {'; '.join(scene.title for scene in scenes)}")
        _play(stage, scenes, batch, findings)
    next(iter(findings.values())).failures += stage.ask(_wrong_issuance)
    return CheatFindings(list(findings.values()))


def _play(stage: Stage, scenes: list[BatchScene], batch: AskedBatch, findings: dict[str, Finding]) -> None:
    """Play each scene until its cheat is found once, at most TRIES times."""
    tried = dict.fromkeys(scenes, 0)
    while pending := [scene for scene in scenes if tried[scene] < TRIES and not findings[scene.name].slashed]:
        now = pending[:AT_ONCE]
        for scene in now:
            tried[scene] += 1
        for facts in SceneRound(stage, now, batch).play():
            _note(findings[facts.scene.name], facts, stage.narrator)
    for scene in scenes:
        if not findings[scene.name].slashed:
            findings[scene.name].failures.append(f"nobody found the cheat in {TRIES} batches")


def _note(finding: Finding, facts: BatchFacts, narrator: Narrator) -> None:
    """Record one batch in its finding."""
    failures, trace = failures_of(facts), facts.trace
    finding.units += 1
    finding.drawn += 1
    finding.failures += failures
    if trace.terms is not None and trace.ended is not None:
        figures = figures_of(facts)
        finding.slashed += bool(figures.held)
        finding.figures = {name: value for name, value in asdict(figures).items() if name != "found_by"}
        found_by = f"found by {figures.found_by or 'nobody'}"
        finding.answers[found_by] = finding.answers.get(found_by, 0) + 1
        if figures.held:
            what, unit = "collateral lost for the cheat", "0x" + trace.unit.hex()
            finding.checks.append(Check(what, unit, trace.ended_at, figures.lost, figures.due))
        chance = f"the draw finds it with {figures.chance_ppm / 10_000:.0f} %"
        money = f"lost {format_amount(figures.lost)} of {format_amount(figures.held)} oGPU for what was paid"
        narrator.line(f"{facts.scene.name}: {found_by}, {money} {format_amount(figures.price)}; {chance}")
    for failure in failures:
        narrator.line(f"FAILED: {facts.scene.name}: {failure}")


async def _wrong_issuance(chain: ChainClient) -> list[str]:
    """Return a failure unless all accounts together hold the issuance."""
    final = await chain.finalized()
    accounts = await chain.entries(System.account, at=final)
    owned = sum(info.data.free + info.data.reserved for info in accounts.values())
    issued = await ledger.issuance(chain, final)
    return [] if owned == issued else [f"all accounts have {owned} grains, and {issued} were issued"]


def cast(stage: Stage, racers: Mapping[str, str | None], others: str | None) -> None:
    """Let exactly these daemons race, in their modes. The others audit and judge in theirs."""
    apart = [member.name for member in stage.devnet.members if member.name not in racers]
    modes = {**racers, **({} if others is None else dict.fromkeys(apart, others))}
    stage.restart(modes)
    stage.resume(*modes)
    processes.until(lambda: _offered(stage) >= set(modes), RESUME_SECONDS, POLL_SECONDS)
    offered = _offered(stage)
    if missing := set(modes) - offered:
        raise DevnetError(f"the devices of {', '.join(sorted(missing))} are still paused")
    for name in apart:
        if name in offered:
            stage.pause(name)


def _offered(stage: Stage) -> set[str]:
    """Return the names with devices that accept work, in the newest final block."""

    async def found(chain: ChainClient) -> set[bytes]:
        devices = await market_reads.devices(chain, await chain.finalized())
        return {each.device.owner for each in devices if not each.device.is_paused}

    owners = stage.ask(found)
    return {member.name for member in stage.devnet.members if dev_accounts.stash(member.name) in owners}


NETWORK = FreshDevnet(VALIDATORS, "batches", numbers=NUMBERS)
SCENARIO = Scenario("batches", "Lies about batches that are checked by their leaves", NETWORK.open, lied_about)
