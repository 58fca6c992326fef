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
from devnet.proofs.cheats.batch_judgement import failures_of, figures_of
from devnet.proofs.cheats.batch_scenes import BATCH_SCENES, BatchCustomer, BatchFacts, BatchScene, CheckTrace
from devnet.proofs.cheats.units import AmountCheck, CheatFinding, CheatFindings
from devnet.stage.actors.purchase import DEFAULT_PROMPTS, SERVICE_NUMBER, read_prompts
from devnet.stage.cheating.__main__ import LAZY_MODE
from devnet.stage.cheating.daemons import token_maxima
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
from gpu_tasks.workloads.form import WorkloadForm, outcomes_of
from gpu_tasks.workloads.model_forms import form_named, open_workload
from gpu_tasks.workloads.workload import Workload
from runtime.encoding.types import GRAINS_PER_OGPU
from runtime.pallets.system import System
from wallet.amounts import format_amount
from wallet.client import ChainClient
from wallet.suri import keypair_from_suri

VALIDATOR_COUNT = 6
# Two of three proofs are inspected. Long windows give the customer time even on a busy machine.
CHAIN_NUMBERS = {"Courts.audit_rate_ppm": 1_000_000, "LeafChecks.show_blocks": 40, "LeafChecks.dispute_blocks": 40}
# Concurrent scenes: each needs a daemon, and one more daemon only judges.
CONCURRENT_SCENES = 5
TRIES_MAX = 5
"""The tries of a scene whose cheat is not found."""
BLOCKS_MAX = 400
"""The most blocks from the post to the end of a check."""
RESUME_SECONDS = 90.0
WORKLOAD = "decoder-int8:ogpu-bytes"
REQUEST_COUNT, TOKENS_PER_REQUEST = 96, 6
"""Three leaves of each batch are drawn."""
ALLOWED_TOKENS = 4 * TOKENS_PER_REQUEST
"""The tokens of each request that the unit allows."""
RATE_GRAINS = GRAINS_PER_OGPU // 20
"""The price of a thousand tokens, in grains."""


@dataclass(frozen=True, slots=True)
class AskedBatch:
    """The requests of a unit, one or more, and the right outcomes."""

    form: WorkloadForm
    requests: tuple[bytes, ...]
    outcomes: tuple[BatchOutcome, ...]
    tokens_max: int
    rate_grains: int = RATE_GRAINS
    """The price of a thousand tokens."""

    def asked(self, input_share: int) -> AskedUnit:
        """Return the unit to post, for a service that counts input tokens by this share."""
        count = len(self.requests)
        tokens_in = sum(map(self.form.cost_in, self.requests))
        price_grains = price_of(self.rate_grains, work_of(input_share, tokens_in, self.tokens_max))
        content = self.requests[0] if count == 1 else encode_requests(self.requests)
        return AskedUnit.of(content, count, tokens_in, self.tokens_max, price_grains)


def asked_batch_of_all() -> AskedBatch:
    """Return the requests with the outcomes, computed locally on the CPU."""
    workload_form, workload = form_named(WORKLOAD), open_workload(WORKLOAD)
    numbered_prompts = enumerate(read_prompts(DEFAULT_PROMPTS, REQUEST_COUNT))
    requests = tuple(
        workload_form.encode(prompt, TOKENS_PER_REQUEST, {}, number.to_bytes(32, "little"))
        for number, prompt in numbered_prompts
    )
    outcomes = outcomes_beside(workload_form, workload, requests)
    return AskedBatch(workload_form, requests, outcomes, REQUEST_COUNT * ALLOWED_TOKENS)


def outcomes_beside(form: WorkloadForm, workload: Workload, requests: Sequence[bytes]) -> tuple[BatchOutcome, ...]:
    """Return the outcomes of a workload in this process, beside the network."""
    outputs: list[bytes | None] = [None] * len(requests)
    for index, output in workload.run_many(requests):
        outputs[index] = output
    return outcomes_of(form, requests, outputs)


async def post_units(
    chain: ChainClient, batches: Sequence[AskedBatch], racers: int, number: int = SERVICE_NUMBER
) -> list[RightAnswers]:
    """Post units of a service in one transaction. Return the right answers of each."""
    service = await market_reads.service(chain, number)
    if service is None:
        raise DevnetError(f"there is no service {number}")
    customer, asked_units = (
        keypair_from_suri(CUSTOMER_KEY),
        [batch.asked(service.terms.input_share) for batch in batches],
    )
    # Clients refuse private addresses by default, and a devnet has no others.
    async with BlobClient(private=True) as blobs:
        units_terms = await Sealer(chain, blobs, customer, number, racers).terms(asked_units, lambda: None)
        leaf_salts = [await _salt_of_unit(chain, blobs, terms_of_unit) for terms_of_unit in units_terms]
    posting_outcome = await chain.submit(unit_posting(number).call(units_terms), customer)
    unit_ids = [event.unit for event in posting_outcome.events if isinstance(event, UnitPosted)]
    if len(unit_ids) != len(batches):
        raise DevnetError(f"{len(unit_ids)} of {len(batches)} units were posted: {posting_outcome.error}")
    return [
        RightAnswers(chain.genesis_hash, unit_id, leaf_salt, batch.outcomes, token_maxima(terms_of_unit))
        for batch, unit_id, leaf_salt, terms_of_unit in zip(batches, unit_ids, leaf_salts, units_terms, strict=True)
    ]


async def _salt_of_unit(chain: ChainClient, blobs: BlobClient, terms: UnitTerms) -> bytes:
    """Return the salt of the unit's leaves, from its sealed input."""
    endpoints = endpoints_of(await market_reads.providers(chain))
    sealed_input = await blobs.get(terms.input_root, stores_for(terms.input_root, endpoints))
    return decode_input(SealKey.of(keypair_from_suri(CUSTOMER_KEY)).open(sealed_input)).salt


async def dispute_falsely(chain: ChainClient, right_answers: RightAnswers, leaf_index: int) -> str | None:
    """Dispute a right leaf with an invented claim. Return the chain's reason if it refuses."""
    right_leaves: Sequence[Leaf] = right_answers.leaves
    right_leaf = right_leaves[leaf_index]
    dispute_call = WrongLeaf(
        leaf_index, tuple(right_leaves), Leaf(right_leaf.tokens_in, right_leaf.tokens_out, bytes(32))
    ).dispute(right_answers.unit)
    return (await chain.submit(dispute_call, keypair_from_suri(CUSTOMER_KEY))).error


@dataclass(slots=True)
class CheckedBatch:
    """One batch in progress."""

    right: RightAnswers
    trace: CheckTrace
    has_customer_acted: bool = False
    """True if its customer has acted."""


@dataclass(slots=True)
class SceneRound:
    """Concurrent scenes: each has a batch and its answering daemons."""

    stage: Stage
    scenes: list[BatchScene]
    batch: AskedBatch
    batches: list[CheckedBatch] = field(default_factory=list)
    scenes_by_stash: dict[bytes, BatchScene] = field(default_factory=dict)
    """The scene of each answering stash."""

    def play_round(self) -> list[BatchFacts]:
        """Assign the daemons, post, and follow all batches to the ends of their checks. Return the facts of each."""
        modes_by_provider: dict[str, str | None] = {}
        member_names = iter(member.name for member in self.stage.devnet.members)
        for scene in self.scenes:
            for name in islice(member_names, scene.racers):
                modes_by_provider[name] = scene.mode
                self.scenes_by_stash[dev_accounts.stash(name)] = scene
        others_mode = self.scenes[0].others
        assign_daemons(self.stage, modes_by_provider, others_mode)
        follower = BlockFollower(self.stage, self._take_event, self.stage.next_height())
        self.stage.ask(self._post_units)
        follower.until("the end of every check", self._have_ended, BLOCKS_MAX, self._let_customers_act)
        modes_by_provider |= {
            member.name: others_mode for member in self.stage.devnet.members if member.name not in modes_by_provider
        }
        lazy_stashes = frozenset(
            dev_accounts.stash(name) for name, mode in modes_by_provider.items() if mode == LAZY_MODE
        )
        return [
            BatchFacts(self._scene_of_batch(batch), batch.right, batch.trace, lazy_stashes) for batch in self.batches
        ]

    def _have_ended(self) -> bool:
        return all(batch.trace.ended is not None for batch in self.batches)

    def _scene_of_batch(self, batch: CheckedBatch) -> BatchScene:
        """Return the batch's scene. Racers are drawn, so only they identify it."""
        return self.scenes_by_stash[batch.trace.racers[0]]

    async def _post_units(self, chain: ChainClient) -> None:
        right_answers_of_all = await post_units(chain, [self.batch] * len(self.scenes), self.scenes[0].racers)
        self.batches = [
            CheckedBatch(right_answers, CheckTrace(unit=right_answers.unit)) for right_answers in right_answers_of_all
        ]

    async def _take_event(self, chain: ChainClient, height: int, block_hash: bytes, event: object) -> None:
        for batch in self.batches:
            batch.trace.take(height, event)
            await record_check(chain, block_hash, batch.trace, event)

    def _let_customers_act(self) -> None:
        for batch in self.batches:
            self.stage.ask(partial(self._let_customer_act, batch=batch))

    async def _let_customer_act(self, chain: ChainClient, batch: CheckedBatch) -> None:
        """Let the customer act once, as its scene says, when only it may still doubt."""
        if batch.has_customer_acted or batch.trace.drawn is None or batch.trace.ended is not None:
            return
        check = await market_reads.check(chain, batch.right.unit, await chain.finalized())
        if check is None or check.stage is not LeafStage.OPEN:
            return
        batch.has_customer_acted, scene = True, self._scene_of_batch(batch)
        if scene.customer is BatchCustomer.LOOKS:
            wrong_leaves = BatchFacts(scene, batch.right, batch.trace).wrong_outputs()
            drawn_wrong_leaves = [leaf.index for leaf in batch.trace.shown if leaf.index in wrong_leaves]
            arguments = (
                "0x" + batch.right.unit.hex(),
                "--leaf",
                str([*drawn_wrong_leaves, *wrong_leaves][0]),
                "--key",
                CUSTOMER_KEY,
                "--yes",
            )
            await asyncio.to_thread(self.stage.ogpu, "unit dispute", *arguments, is_shown=False)
        elif scene.customer is BatchCustomer.LIES:
            refusal = await dispute_falsely(chain, batch.right, 0)
            batch.trace.refused += [] if refusal is None else [f"the chain refused the dispute: {refusal}"]


async def record_check(chain: ChainClient, block_hash: bytes, trace: CheckTrace, event: object) -> None:
    """Record the terms of the check and the shown leaves, which no event contains."""
    if isinstance(event, LeavesDrawn | LeavesShown) and event.unit == trace.unit:
        check = await market_reads.check(chain, trace.unit, block_hash)
        assert check is not None, "it goes on"
        trace.terms, trace.shown = check.terms, check.shown


def play_scenes(stage: Stage) -> CheatFindings:
    """Play all scenes."""
    findings_by_scene = {scene.name: CheatFinding(f"batches: {scene.name}", 0) for scene in BATCH_SCENES}
    batch = asked_batch_of_all()
    for _, scenes_of_group in groupby(BATCH_SCENES, key=lambda scene: (scene.others, scene.racers)):
        scenes = list(scenes_of_group)
        stage.narrator.line(f"Batches: {'; '.join(scene.title for scene in scenes)}")
        _play_until_found(stage, scenes, batch, findings_by_scene)
    next(iter(findings_by_scene.values())).failures += stage.ask(wrong_issuance)
    return CheatFindings(list(findings_by_scene.values()))


def _play_until_found(
    stage: Stage, scenes: list[BatchScene], batch: AskedBatch, findings_by_scene: dict[str, CheatFinding]
) -> None:
    """Play each scene until its cheat is found once, at most TRIES times."""
    tries_by_scene = dict.fromkeys(scenes, 0)
    while pending_scenes := [
        scene for scene in scenes if tries_by_scene[scene] < TRIES_MAX and not findings_by_scene[scene.name].slashed
    ]:
        concurrent_scenes = pending_scenes[:CONCURRENT_SCENES]
        for scene in concurrent_scenes:
            tries_by_scene[scene] += 1
        for facts in SceneRound(stage, concurrent_scenes, batch).play_round():
            record_batch(findings_by_scene[facts.scene.name], facts, stage.narrator)
    for scene in scenes:
        if not findings_by_scene[scene.name].slashed:
            findings_by_scene[scene.name].failures.append(f"no check found the cheat in {TRIES_MAX} batches")


def record_batch(finding: CheatFinding, facts: BatchFacts, narrator: Narrator) -> None:
    """Record one batch in its finding."""
    batch_failures, trace = failures_of(facts), facts.trace
    finding.units += 1
    finding.drawn += 1
    finding.failures += batch_failures
    if trace.terms is not None and trace.ended is not None:
        leaf_figures = figures_of(facts)
        finding.slashed += bool(leaf_figures.held)
        finding.figures = {
            figure_name: figure for figure_name, figure in asdict(leaf_figures).items() if figure_name != "found_by"
        }
        found_by = f"found by {leaf_figures.found_by or 'nobody'}"
        finding.answers[found_by] = finding.answers.get(found_by, 0) + 1
        if leaf_figures.held:
            name, unit_text = "collateral lost for the cheat", "0x" + trace.unit.hex()
            finding.checks.append(AmountCheck(name, unit_text, trace.ended_at, leaf_figures.lost, leaf_figures.due))
        chance = f"the draw finds it with {leaf_figures.chance_ppm / 10_000:.0f} %"
        money = f"lost {format_amount(leaf_figures.lost)} of {format_amount(leaf_figures.held)} oGPU; its price was"
        narrator.line(f"{facts.scene.name}: {found_by}, {money} {format_amount(leaf_figures.price)}; {chance}")
    for failure in batch_failures:
        narrator.line(f"FAILED: {facts.scene.name}: {failure}")


async def wrong_issuance(chain: ChainClient) -> list[str]:
    """Return a failure unless all accounts together hold the issuance."""
    final_block = await chain.finalized()
    accounts_by_key = await chain.entries(System.account, at=final_block)
    owned_grains = sum(info.data.free + info.data.reserved for info in accounts_by_key.values())
    issued_grains = await ledger.issuance(chain, final_block)
    return (
        []
        if owned_grains == issued_grains
        else [f"all accounts have {owned_grains} grains, and {issued_grains} were issued"]
    )


def assign_daemons(stage: Stage, modes_of_racers: Mapping[str, str | None], others_mode: str | None) -> None:
    """Let exactly these daemons race, in their modes. The others audit and judge in theirs."""
    other_names = [member.name for member in stage.devnet.members if member.name not in modes_of_racers]
    modes_by_provider = {**modes_of_racers, **({} if others_mode is None else dict.fromkeys(other_names, others_mode))}
    stage.restart(modes_by_provider)
    stage.resume(*modes_by_provider)
    # A device is offered again only after its daemon has started and its call is in a block.
    processes.until(lambda: _names_with_offers(stage) >= set(modes_by_provider), RESUME_SECONDS, POLL_SECONDS)
    offered_names = _names_with_offers(stage)
    if missing_names := set(modes_by_provider) - offered_names:
        raise DevnetError(f"the devices of {', '.join(sorted(missing_names))} are still paused")
    for name in other_names:
        if name in offered_names:
            stage.pause(name)


def _names_with_offers(stage: Stage) -> set[str]:
    """Return the names with devices that accept work, in the newest final block."""

    async def found(chain: ChainClient) -> set[bytes]:
        statuses = await market_reads.devices(chain, await chain.finalized())
        return {status.device.owner for status in statuses if not status.device.is_paused}

    unpaused_owner_stashes = stage.ask(found)
    return {member.name for member in stage.devnet.members if dev_accounts.stash(member.name) in unpaused_owner_stashes}


BATCHES_NETWORK = FreshDevnet(VALIDATOR_COUNT, "batches", numbers=CHAIN_NUMBERS)
SCENARIO = Scenario("batches", "Lies about batches that are checked by their leaves", BATCHES_NETWORK.open, play_scenes)
