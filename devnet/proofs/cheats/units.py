"""Cheats about units, played on a devnet: each scene has a service that only its racers offer.

Invariant: customers and honest providers use the production programs, or their parts. The judgement reads final blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle
from pathlib import Path

from devnet.launcher import processes
from devnet.launcher.folder import DevnetError
from devnet.proofs.cheats.findings import CheatFinding, CheatFindings
from devnet.proofs.cheats.unit_judgement import JudgedUnit
from devnet.proofs.cheats.unit_money import READ_AT, ExpectedMoney, UnitFacts
from devnet.proofs.cheats.unit_scenes import CustomerDeed, UnitScene, daemons_of, rounds_of
from devnet.stage.actors.model_sale import ModelSale, sell_model
from devnet.stage.actors.purchase import DEFAULT_PROMPTS, read_prompts
from devnet.stage.cheating.__main__ import MODEL_CHEATS, RACE_CHEATS
from devnet.stage.cheating.daemons import token_maxima
from devnet.stage.cheating.lies import RightAnswers
from devnet.stage.cheating.wrong_models import open_wrong_decoder
from devnet.stage.measuring import ledger
from devnet.stage.measuring.ledger import DevnetLedger
from devnet.stage.network import CUSTOMER, CUSTOMER_KEY, POLL_SECONDS, BlockFollower, FreshDevnet, Stage
from genesis import dev_accounts
from gpu_tasks.batches.outcomes import BatchOutcome
from gpu_tasks.batches.requests import encode_requests, price_of, work_of
from gpu_tasks.client.units.posting import AskedUnit, Sealer, unit_posting
from gpu_tasks.data import market_reads
from gpu_tasks.data.blob_client import BlobClient, stores_for
from gpu_tasks.data.market_reads import endpoints_of
from gpu_tasks.data.sealing import SealKey
from gpu_tasks.data.unit_input import decode_input
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.inference.events import UnitPosted
from gpu_tasks.market.inference.units import UnitTerms
from gpu_tasks.workloads.form import WorkloadForm, outcomes_of
from gpu_tasks.workloads.model_forms import form_named, open_workload
from gpu_tasks.workloads.workload import Workload
from runtime.encoding.types import GRAINS_PER_OGPU
from runtime.pallets.system import System
from wallet.amounts import format_amount
from wallet.client import ChainClient
from wallet.suri import keypair_from_suri

VALIDATOR_COUNT = 8
"""A provider and four checkers of its claim leave three voters."""
CHAIN_NUMBERS = {"ResultClaims.check_rate": 1_000_000, "ResultClaims.duty_blocks": 20, "Disputes.vote_blocks": 20}
"""Every claim is checked. Silent checkers cost three windows."""
TRIES_MAX = 5
"""The tries of a scene whose cheat is not caught: the draw can miss a false item."""
BLOCKS_MAX = 900
RESUME_SECONDS = 90.0
DECODER = "decoder-int8"
BUILT_IN_MODEL = "ogpu-bytes"
RATE_TEXT, RATE_GRAINS = "1", GRAINS_PER_OGPU
"""The price of a thousand tokens."""


@dataclass(frozen=True, slots=True)
class SoldModel:
    """A model, and the size of its requests and answers."""

    name: str
    tokens: int
    allowed: int
    """The tokens of each request that a unit allows. A liar can claim the rest."""
    options: Mapping[str, str] = field(default_factory=dict)
    prompts: Path = DEFAULT_PROMPTS
    commit_blocks: int = 20
    """Each window of a check is three times as long."""

    @property
    def form(self) -> WorkloadForm:
        """The workload of the model."""
        return form_named(f"{DECODER}:{self.name}")

    def requests(self, count: int) -> tuple[bytes, ...]:
        """Return the first requests of a unit."""
        prompts = enumerate(read_prompts(self.prompts, count), 1)
        return tuple(
            self.form.encode(prompt, self.tokens, dict(self.options), number.to_bytes(32, "little"))
            for number, prompt in prompts
        )


SMALL_MODEL = SoldModel(BUILT_IN_MODEL, tokens=6, allowed=24)


@dataclass(frozen=True, slots=True)
class AskedBatch:
    """The requests of a unit, one or more, with the right outcomes and those of wrong models."""

    model: SoldModel
    requests: tuple[bytes, ...]
    right: tuple[BatchOutcome, ...]
    told: Mapping[str, tuple[BatchOutcome, ...]]

    def asked(self, input_share: int) -> AskedUnit:
        """Return the unit to post, for a service that counts input tokens by this share."""
        count = len(self.requests)
        tokens_in, tokens_max = sum(map(self.model.form.cost_in, self.requests)), count * self.model.allowed
        price_grains = price_of(RATE_GRAINS, work_of(input_share, tokens_in, tokens_max))
        content = self.requests[0] if count == 1 else encode_requests(self.requests)
        return AskedUnit.of(content, count, tokens_in, tokens_max, price_grains)


def batches_of(model: SoldModel, scene: UnitScene) -> list[AskedBatch]:
    """Return the units of a scene. Their outcomes are computed beside the network, one model in memory at a time."""
    size = scene.requests
    requests = model.requests(size * scene.units)
    right = _outcomes(model.form, open_workload(f"{DECODER}:{model.name}"), requests)
    told = {
        cheat: _outcomes(model.form, open_wrong_decoder(cheat, model.name, "numpy"), requests)
        for cheat in sorted(scene.cheats & set(MODEL_CHEATS))
    }
    return [
        AskedBatch(
            model,
            requests[first : first + size],
            right[first : first + size],
            {cheat: outcomes[first : first + size] for cheat, outcomes in told.items()},
        )
        for first in range(0, len(requests), size)
    ]


def _outcomes(form: WorkloadForm, workload: Workload, requests: Sequence[bytes]) -> tuple[BatchOutcome, ...]:
    outputs: list[bytes | None] = [None] * len(requests)
    for index, output in workload.run_many(requests):
        outputs[index] = output
    return outcomes_of(form, requests, outputs)


async def post_units(
    chain: ChainClient, batches: Sequence[AskedBatch], racers: int, service_number: int
) -> list[RightAnswers]:
    """Post units of a service in one transaction. Return the right answers of each."""
    service = await market_reads.service(chain, service_number)
    if service is None:
        raise DevnetError(f"there is no service {service_number}")
    customer = keypair_from_suri(CUSTOMER_KEY)
    asked_units = [batch.asked(service.terms.input_share) for batch in batches]
    # Clients refuse private addresses by default, and a devnet has no others.
    async with BlobClient(private=True) as blobs:
        units_terms = await Sealer(chain, blobs, customer, service_number, racers).terms(asked_units, lambda: None)
        leaf_salts = [await _salt_of_unit(chain, blobs, terms_of_unit) for terms_of_unit in units_terms]
    posting_outcome = await chain.submit(unit_posting(service_number).call(units_terms), customer)
    unit_ids = [event.unit for event in posting_outcome.events if isinstance(event, UnitPosted)]
    if len(unit_ids) != len(batches):
        raise DevnetError(f"{len(unit_ids)} of {len(batches)} units were posted: {posting_outcome.error}")
    return [
        RightAnswers(chain.genesis_hash, unit_id, leaf_salt, batch.right, token_maxima(terms_of_unit))
        for batch, unit_id, leaf_salt, terms_of_unit in zip(batches, unit_ids, leaf_salts, units_terms, strict=True)
    ]


async def _salt_of_unit(chain: ChainClient, blobs: BlobClient, terms: UnitTerms) -> bytes:
    """Return the salt of the unit's leaves, from its sealed input."""
    endpoints = endpoints_of(await market_reads.providers(chain))
    sealed_input = await blobs.get(terms.input_root, stores_for(terms.input_root, endpoints))
    return decode_input(SealKey.of(keypair_from_suri(CUSTOMER_KEY)).open(sealed_input)).salt


@dataclass(slots=True)
class UnitBook(DevnetLedger):
    """The facts of units in progress, from final blocks."""

    scenes: dict[bytes, UnitScene] = field(default_factory=dict)
    facts: dict[bytes, UnitFacts] = field(default_factory=dict)
    acted: set[bytes] = field(default_factory=set)
    """Units whose customer has acted."""

    def add(self, scene: UnitScene, facts: UnitFacts) -> None:
        """Follow one more unit."""
        unit_id = facts.right.unit
        self.scenes[unit_id], self.facts[unit_id], facts.record = scene, facts, self.unit(unit_id)

    async def take_event(self, chain: ChainClient, height: int, block_hash: bytes, event: object) -> None:
        """Take an event, with the records of its unit where payments depend on them."""
        self.take(height, event)
        facts = self.facts.get(getattr(event, "unit", b""))
        if facts is not None and isinstance(event, READ_AT):
            status = await market_reads.unit(chain, facts.right.unit, block_hash)
            assert status is not None, "a unit of an event is known"
            facts.read(event, status)

    def are_over(self) -> bool:
        """Return True if every unit has ended."""
        return all(facts.record.settled or facts.record.refunded for facts in self.facts.values())

    def to_dispute(self) -> list[bytes]:
        """Return each unit that its customer disputes now, once."""
        due = [
            unit_id
            for unit_id, facts in self.facts.items()
            if facts.claim is not None
            and self.scenes[unit_id].customer is CustomerDeed.DISPUTE
            and unit_id not in self.acted
        ]
        self.acted.update(due)
        return due


async def _dispute(chain: ChainClient, unit_ids: Sequence[bytes]) -> None:
    for unit_id in unit_ids:
        await chain.submit(ResultClaims.dispute(claim=unit_id, index=0), keypair_from_suri(CUSTOMER_KEY))


def play_round(
    stage: Stage,
    scenes: Sequence[UnitScene],
    batches: Mapping[UnitScene, Sequence[AskedBatch]],
    services: dict[tuple[str, ...], int],
) -> list[JudgedUnit]:
    """Give the daemons their modes, post all units, and follow them to their ends."""
    names = [member.name for member in stage.devnet.members]
    names_by_mode, modes_by_name = _assigned(scenes, names)
    racers = {scene: _racers_of(scene, names_by_mode) for scene in scenes}
    for scene, names_of_scene in racers.items():
        if names_of_scene not in services:
            services[names_of_scene] = _sell(stage, batches[scene][0].model, names_of_scene)
    events_before = {name: len(stage.telemetry(name)) for name in names}
    stage.restart(modes_by_name)
    _resume(stage, names)
    modes = {dev_accounts.stash(name): mode for name, mode in modes_by_name.items() if mode is not None}
    book = UnitBook(stage.next_height())
    follower = BlockFollower(stage, book.take_event, book.next_height)
    for scene, names_of_scene in racers.items():
        service = services[names_of_scene]
        post = partial(post_units, batches=batches[scene], racers=len(scene.racers), service_number=service)
        for right, batch in zip(stage.ask(post), batches[scene], strict=True):
            book.add(scene, UnitFacts(right, modes, batch.told))

    def on_wait() -> None:
        stage.ask(partial(_dispute, unit_ids=book.to_dispute()))
        # The chain pauses the device of each convicted provider.
        stage.resume(*names)

    follower.until("the end of every unit", book.are_over, BLOCKS_MAX, on_wait)
    follower.read_on()
    attempts = [
        row for name in names for row in stage.telemetry(name)[events_before[name] :] if row["event"] == "cheat"
    ]
    return [_judged(book.scenes[unit_id], facts, attempts) for unit_id, facts in book.facts.items()]


def _judged(scene: UnitScene, facts: UnitFacts, rows: Sequence[Mapping[str, str]]) -> JudgedUnit:
    unit_text = facts.right.unit.hex()
    of_unit = tuple(row for row in rows if row.get("unit") == unit_text and row["mode"] in RACE_CHEATS)
    return JudgedUnit(scene, facts, ExpectedMoney.of(facts), of_unit)


def _assigned(
    scenes: Sequence[UnitScene], names: Sequence[str]
) -> tuple[dict[str | None, list[str]], dict[str, str | None]]:
    """Return the names of racers by mode, and the mode of every name."""
    names_by_mode: dict[str | None, list[str]] = {}
    modes_by_name: dict[str, str | None] = {}
    free_names: Iterator[str] = iter(names)
    for mode, count in daemons_of(scenes).items():
        names_by_mode[mode] = [next(free_names) for _ in range(count)]
        modes_by_name |= dict.fromkeys(names_by_mode[mode], mode)
    other_modes = cycle(scenes[0].others or (None,))
    return names_by_mode, modes_by_name | {name: next(other_modes) for name in free_names}


def _racers_of(scene: UnitScene, names_by_mode: Mapping[str | None, Sequence[str]]) -> tuple[str, ...]:
    return tuple(names_by_mode[mode][scene.racers[:place].count(mode)] for place, mode in enumerate(scene.racers))


def _sell(stage: Stage, model: SoldModel, names: tuple[str, ...]) -> int:
    """Create a service that these providers alone offer. Return its number."""
    sale = ModelSale(
        f"{DECODER}:{model.name}", "-".join(names), CUSTOMER, names,
        commit_blocks=model.commit_blocks, ask=RATE_TEXT, price_max=RATE_TEXT, ramp_blocks=0,
    )  # fmt: skip
    return sell_model(stage, sale)


def _resume(stage: Stage, names: Sequence[str]) -> None:
    """Resume the devices, and wait until all accept work."""
    stage.resume(*names)

    async def unpaused(chain: ChainClient) -> set[bytes]:
        statuses = await market_reads.devices(chain, await chain.finalized())
        return {status.device.owner for status in statuses if not status.device.is_paused}

    stashes = {dev_accounts.stash(name) for name in names}
    if not processes.until(lambda: stage.ask(unpaused) >= stashes, RESUME_SECONDS, POLL_SECONDS):
        raise DevnetError("some devices are still paused")


def play_scenes(stage: Stage, scenes: Sequence[UnitScene], model: SoldModel = SMALL_MODEL) -> CheatFindings:
    """Play scenes until each cheat is caught, at most TRIES_MAX times."""
    findings = {scene: CheatFinding(scene.name) for scene in scenes}
    missing = {scene: set(scene.cheats) for scene in scenes}
    batches = {scene: batches_of(model, scene) for scene in scenes}
    services: dict[tuple[str, ...], int] = {}
    pending = list(scenes)
    for _ in range(TRIES_MAX):
        for scenes_of_round in rounds_of(pending, len(stage.devnet.members)):
            stage.narrator.line(f"Units: {'; '.join(scene.title for scene in scenes_of_round)}")
            for judged in play_round(stage, scenes_of_round, batches, services):
                _record(stage, findings[judged.scene], judged)
                missing[judged.scene] -= judged.caught()
        pending = [scene for scene in pending if missing[scene] or not _has_event(scene, findings[scene])]
        if not pending:
            break
    for scene in pending:
        findings[scene].failures.append(f"not caught in {TRIES_MAX} tries: {', '.join(sorted(missing[scene]))}")
    next(iter(findings.values())).failures += stage.ask(wrong_issuance)
    return CheatFindings(list(findings.values()))


def _has_event(scene: UnitScene, finding: CheatFinding) -> bool:
    return scene.event is None or scene.event.name in finding.answers


def _record(stage: Stage, finding: CheatFinding, judged: JudgedUnit) -> None:
    caught, failures, amounts = judged.caught(), judged.failures(), judged.amounts()
    finding.units += 1
    finding.caught += bool(caught)
    finding.tried += len(judged.attempts)
    finding.refused += sum(map(judged.is_refused, judged.attempts))
    finding.checks += amounts
    for event in judged.expected.events:
        finding.count(event.name)
    for attempt in judged.attempts:
        finding.count(f"{attempt['what']}: {attempt['answer']}")
    unit_text = f"unit 0x{judged.facts.right.unit.hex()[:8]}"
    finding.failures += [f"{unit_text}: {failure}" for failure in failures]
    lost = format_amount(sum(check.taken for check in amounts))
    events = ", ".join(event.name for event in judged.expected.events) or "no event of the table"
    stage.narrator.line(f"{finding.mode}: {events}; caught: {', '.join(sorted(caught)) or 'nobody'}; lost {lost} oGPU")
    for failure in failures:
        stage.narrator.line(f"FAILED: {finding.mode}: {unit_text}: {failure}")


async def wrong_issuance(chain: ChainClient) -> list[str]:
    """Return a failure unless all accounts together hold the issuance."""
    final_block = await chain.finalized()
    accounts_by_key = await chain.entries(System.account, at=final_block)
    owned_grains = sum(info.data.free + info.data.reserved for info in accounts_by_key.values())
    issued_grains = await ledger.issuance(chain, final_block)
    if owned_grains == issued_grains:
        return []
    return [f"all accounts have {owned_grains} grains, and {issued_grains} were issued"]


UNITS_NETWORK = FreshDevnet(VALIDATOR_COUNT, "units", numbers=CHAIN_NUMBERS)
