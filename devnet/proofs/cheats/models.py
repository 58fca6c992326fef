"""A language model, sold on a devnet by a provider that computes it wrongly: `make cheats MODEL=NAME`.

Each cheat answers single requests alone, single requests beside an honest rival, and a batch. The right answers and the
cheat's answers are computed beside the network, in this process.

* A lone answer that differs is found if the beacon orders an audit. The number of audits must fit the stated chance.
* An answer that differs from the rival's is always found.
* An answer of a batch that differs is found if its leaf is drawn.
* Equal answers are no lie. They are counted, and cost nobody anything.

Invariant: customer, validators and honest providers use the production programs, or their parts. The judgement reads
final blocks. Each found lie costs the money table's sum, and no honest party pays anything.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial

from devnet.launcher.folder import DevnetError
from devnet.launcher.layout import Devnet
from devnet.proofs.cheats.batch_judgement import (
    VALIDATOR_COUNT,
    CheckPayment,
    CheckPurse,
    check_purse,
    expected_of,
    failures_of,
    figures_of,
    grains_lost_by,
    lies_paid,
    wrong_sums,
)
from devnet.proofs.cheats.batch_scenes import BatchFacts, BatchScene, CheckTrace
from devnet.proofs.cheats.batches import AskedBatch, outcomes_beside, post_units, record_check, wrong_issuance
from devnet.proofs.cheats.units import AmountCheck, CheatFinding, CheatFindings
from devnet.stage.actors.model_sale import ModelSale, sell_model
from devnet.stage.actors.purchase import name_of_account, read_prompts
from devnet.stage.cheating.executors import MODEL_CHEATS
from devnet.stage.cheating.lies import RightAnswers, ToldBatch, batch_with
from devnet.stage.cheating.wrong_models import open_wrong_decoder
from devnet.stage.network import CHEAT, CUSTOMER, BlockFollower, FreshDevnet, Stage
from devnet.stage.scenario import LiveProof, ProofOption, ProofRun, Scenario, run
from genesis import dev_accounts
from gpu_tasks.batches.outcomes import BatchOutcome
from gpu_tasks.batches.sum_tree import batch_root
from gpu_tasks.data import market_reads
from gpu_tasks.market.attestations.attestations import Attested
from gpu_tasks.market.courts.cases import PartyFault
from gpu_tasks.market.courts.events import CaseOpened, JudgeCharged
from gpu_tasks.market.courts.money import chance_found
from gpu_tasks.market.devices.records import COLLATERAL
from gpu_tasks.market.inference import money
from gpu_tasks.market.inference.events import ProviderSlashed, RaceMissed, UnitMatched, UnitRefunded, UnitSettled
from gpu_tasks.market.inference.rules import DEFAULT_RULES
from gpu_tasks.market.inference.units import is_open
from gpu_tasks.workloads.decoder_int8.quality import TEXT
from gpu_tasks.workloads.form import WorkloadForm
from gpu_tasks.workloads.model_forms import form_named
from runtime.encoding.types import GRAINS_PER_OGPU
from runtime.pallets.staking.slashing import part
from wallet.amounts import format_amount
from wallet.client import ChainClient

WORKLOAD = "decoder-int8"
AUDIT_RATE_PPM = 1_000_000
"""Two lone answers of three are audited, so that a run of minutes has audits of every cheat."""
CHAIN_NUMBERS = {
    "Courts.audit_rate_ppm": AUDIT_RATE_PPM,
    "LeafChecks.show_blocks": 40,
    "LeafChecks.dispute_blocks": 20,
}
RULES = replace(DEFAULT_RULES, audit_rate_ppm=AUDIT_RATE_PPM)
RIVAL = "Alice"
SINGLE_COUNT = 24
BATCH_REQUESTS = 16
"""The fewest requests of a batch that is checked by its leaves."""
ANSWER_TOKENS = 12
OPTIONS = {"temperature": "1", "logprobs": "yes", "chat": "no"}
"""Log-probabilities show other weights, and a temperature shows another seed."""
RATE_TEXT, RATE_GRAINS = "1", GRAINS_PER_OGPU
"""The price of a thousand tokens: half of a single request's is more than the least fee of a judge."""
BLOCKS_MAX = 900
IMPROBABLE = 1e-4
"""A number of audits that is less probable than this is a failure."""
HONEST = "honest"
MODEL_NAME = "smollm2-135m-instruct"


@dataclass(frozen=True, slots=True)
class ModelAnswers:
    """The requests of a run, first those of the batch, with the right outcomes and those of each cheat."""

    form: WorkloadForm
    requests: tuple[bytes, ...]
    right: tuple[BatchOutcome, ...]
    told: Mapping[str, tuple[BatchOutcome, ...]]

    def asked(self, places: range) -> AskedBatch:
        """Return a unit of these requests."""
        requests, right = self.requests[places.start : places.stop], self.right[places.start : places.stop]
        return AskedBatch(self.form, requests, right, len(requests) * ANSWER_TOKENS, RATE_GRAINS)


@dataclass(slots=True)
class ModelUnit:
    """One unit for the cheat, with its answers and its trace."""

    right: RightAnswers
    told_outcomes: tuple[BatchOutcome, ...]
    racers: int
    trace: CheckTrace
    cheat: bytes = dev_accounts.stash(CHEAT)
    customer: bytes = dev_accounts.stash(CUSTOMER)

    @property
    def purse(self) -> CheckPurse:
        """The cheat's collateral."""
        return check_purse(self.cheat, COLLATERAL)

    @property
    def told(self) -> ToldBatch:
        """The cheat's statement."""
        return batch_with(self.right, dict(enumerate(self.told_outcomes)))

    @property
    def is_batch(self) -> bool:
        """True if the leaves of the unit are checked."""
        return len(self.told_outcomes) > 1

    @property
    def is_lie(self) -> bool:
        """True if the cheat revealed an answer that differs from the right one."""
        has_revealed = any(event.provider == self.cheat for event in self.trace.events(Attested))
        return has_revealed and self.told_outcomes != self.right.outcomes

    @property
    def is_judged(self) -> bool:
        """True if judges looked at the unit of a single request."""
        return bool(self.trace.all(CaseOpened))

    @property
    def is_found(self) -> bool:
        """True if the cheat lost its collateral for a lie."""
        return any(event.fault is PartyFault.LIED for event in self.trace.events(ProviderSlashed))

    @property
    def batch_facts(self) -> BatchFacts:
        """The facts of a batch, for its judgement."""
        scene = BatchScene("model", "the cheat answers a batch", None)
        return BatchFacts(scene, self.right, self.trace, lie=lambda *_: self.told)


def compute_answers(model: str, single_count: int) -> ModelAnswers:
    """Compute the right answers and those of each cheat, one model in memory at a time."""
    form = form_named(f"{WORKLOAD}:{model}")
    prompts = read_prompts(TEXT, BATCH_REQUESTS + single_count)
    requests = tuple(
        form.encode(prompt, ANSWER_TOKENS, OPTIONS, number.to_bytes(32, "little"))
        for number, prompt in enumerate(prompts, 1)
    )
    right = outcomes_beside(form, form.open("numpy"), requests)
    told = {cheat: outcomes_beside(form, open_wrong_decoder(cheat, model, "numpy"), requests) for cheat in MODEL_CHEATS}
    return ModelAnswers(form, requests, right, told)


def play_cheats(stage: Stage) -> CheatFindings:
    """Sell the model, and let the cheat answer in each way. Then judge."""
    model, single_count = stage.options.model, -(-stage.options.units // len(MODEL_CHEATS))
    answers = compute_answers(model, single_count)
    sellers_of_services = ([member.name for member in stage.devnet.members], [CHEAT], [CHEAT, RIVAL])
    honest_service, lone_service, raced_service = (
        sell_model(
            stage,
            ModelSale(
                f"{WORKLOAD}:{model}", model, CUSTOMER, sellers, ask=RATE_TEXT, price_max=RATE_TEXT, ramp_blocks=0
            ),
        )
        for sellers in sellers_of_services
    )
    singles = [range(place, place + 1) for place in range(BATCH_REQUESTS, BATCH_REQUESTS + single_count)]
    lone_places = [range(BATCH_REQUESTS), *singles[: -(-single_count // 2)]]
    raced_places = singles[-(-single_count // 2) :]
    # The model of each honest provider is loaded then, so none of them is late in a race.
    honest_units = _sell(
        stage, answers, None, [range(place, place + 1) for place in range(VALIDATOR_COUNT)], honest_service
    )
    findings, units = [_judge(stage, HONEST, honest_units)], []
    for cheat in MODEL_CHEATS:
        stage.narrator.line(f"{cheat}: {single_count} single requests, and a batch of {BATCH_REQUESTS}")
        stage.cheat_in(cheat, anew=False)
        # Alone first: the cheat loads its model then.
        units_of_cheat = _sell(stage, answers, cheat, lone_places, lone_service)
        units_of_cheat += _sell(stage, answers, cheat, raced_places, raced_service, racers=2)
        findings.append(_judge(stage, cheat, units_of_cheat))
        units += units_of_cheat
    findings[0].failures += [*chance_failures(units), *stage.ask(wrong_issuance)]
    return CheatFindings(findings)


def _sell(
    stage: Stage, answers: ModelAnswers, cheat: str | None, places: Sequence[range], service: int, *, racers: int = 1
) -> list[ModelUnit]:
    """Post units of these requests. Follow them until all checks and cases are over, and resume the cheat's device."""
    first_height = stage.next_height()
    asked = [answers.asked(place) for place in places]
    rights = stage.ask(partial(post_units, batches=asked, racers=racers, number=service))
    told = answers.right if cheat is None else answers.told[cheat]
    units = [
        ModelUnit(right, told[place.start : place.stop], racers, CheckTrace(unit=right.unit))
        for right, place in zip(rights, places, strict=True)
    ]
    open_units = {unit.right.unit for unit in units}

    async def take(chain: ChainClient, height: int, block_hash: bytes, event: object) -> None:
        for unit in units:
            unit.trace.take(height, event)
            await record_check(chain, block_hash, unit.trace, event)

    async def look(chain: ChainClient) -> None:
        unit_ids = list(open_units)
        records = await market_reads.units(chain, unit_ids, await chain.finalized())
        for unit_id, record in zip(unit_ids, records, strict=True):
            if record is not None and not is_open(record) and not record.is_watched:
                open_units.discard(unit_id)

    def on_wait() -> None:
        stage.ask(look)
        # The chain pauses the cheat's device after each refuted answer.
        stage.resume(CHEAT)

    follower = BlockFollower(stage, take, first_height)
    follower.until("the end of every unit", lambda: not open_units, BLOCKS_MAX, on_wait)
    follower.read_on()
    return units


def _judge(stage: Stage, cheat: str, units: Sequence[ModelUnit]) -> CheatFinding:
    finding = CheatFinding(cheat, len(units), slashed=sum(unit.is_found for unit in units), answers=counts_of(units))
    finding.drawn = sum(unit.cheat in unit.trace.racers for unit in units)
    for unit in units:
        finding.failures += [f"unit 0x{unit.right.unit.hex()[:8]}: {failure}" for failure in unit_failures(unit)]
        if unit.is_batch and unit.trace.terms is not None and unit.trace.ended is not None:
            leaf_figures = asdict(figures_of(unit.batch_facts))
            finding.figures = {name: figure for name, figure in leaf_figures.items() if name != "found_by"}
        if unit.is_found:
            finding.checks.append(amount_check(unit))
    if cheat != HONEST and not finding.slashed:
        finding.failures.append("no lie was found: nothing was tested")
    counts = ", ".join(f"{name} {count}" for name, count in finding.answers.items())
    stage.narrator.line(f"{cheat}: {counts}; lost {format_amount(sum(check.taken for check in finding.checks))} oGPU")
    for failure in finding.failures:
        stage.narrator.line(f"FAILED: {cheat}: {failure}")
    return finding


def amount_check(unit: ModelUnit) -> AmountCheck:
    """Return the cheat's loss for a found lie, beside the table's."""
    due = sum(payment.lost() for payment in payments_of(unit) if unit.purse in payment.purses)
    lost, found_at = grains_lost_by(unit.trace, [unit.purse]), unit.trace.all(ProviderSlashed)[0][0]
    return AmountCheck("collateral lost for a lie", "0x" + unit.right.unit.hex(), found_at, lost, due)


def counts_of(units: Sequence[ModelUnit]) -> dict[str, int]:
    """Return the units by kind and outcome. A lie is a revealed answer that differs from the right one."""
    kinds = {
        "batch": [unit for unit in units if unit.is_batch],
        "lone": [unit for unit in units if not unit.is_batch and unit.racers == 1],
        "raced": [unit for unit in units if unit.racers > 1],
    }
    counts: dict[str, int] = {}
    for kind, of_kind in kinds.items():
        if of_kind:
            counts |= {f"{kind} units": len(of_kind), f"{kind} lies": sum(unit.is_lie for unit in of_kind)}
            counts |= {f"{kind} lies found": sum(unit.is_found for unit in of_kind)}
    if kinds["lone"]:
        counts["lone units audited"] = sum(unit.is_judged for unit in kinds["lone"])
    return counts


def unit_failures(unit: ModelUnit) -> list[str]:
    """Return a sentence for each failed requirement of a unit."""
    return failures_of(unit.batch_facts) if unit.is_batch else list(_single_failures(unit))


def _single_failures(unit: ModelUnit) -> Iterator[str]:
    trace = unit.trace
    right_root, told_root = batch_root(batch_with(unit.right, {}).totals), batch_root(unit.told.totals)
    for event in trace.events(Attested):
        if event.output_root != (told_root if event.provider == unit.cheat else right_root):
            yield f"{name_of_account(event.provider)} revealed another answer than was computed beside the network"
    # A lone answer is paid before anybody looks.
    paid_root = told_root if unit.is_lie and unit.racers == 1 else right_root
    paid_roots = [event.output_root for event in trace.events(UnitSettled)]
    if paid_roots != [paid_root] or trace.all(UnitRefunded):
        yield f"paid were {len(paid_roots)} answers, {paid_roots.count(paid_root)} of them the expected one"
    is_due = unit.is_lie and (unit.racers > 1 or unit.is_judged)
    slashed = [(event.provider, event.fault) for event in trace.events(ProviderSlashed)]
    if slashed != ([(unit.cheat, PartyFault.LIED)] if is_due else []):
        yield f"{len(slashed)} were slashed, where the cheat alone was to be: {is_due}"
    for miss in trace.events(RaceMissed):
        if miss.provider != unit.cheat:
            yield f"{name_of_account(miss.provider)} is honest and was late"
    for charge in trace.events(JudgeCharged):
        yield f"{name_of_account(charge.judge)} is honest and lost {charge.amount} grains as a judge"
    yield from wrong_sums(trace, payments_of(unit))


def payments_of(unit: ModelUnit) -> list[CheckPayment]:
    """Return the payments that the money table states for the unit."""
    if unit.is_batch:
        return expected_of(unit.batch_facts).payments
    trace, matched = unit.trace, unit.trace.events(UnitMatched)
    price = matched[-1].price
    collateral = money.collateral(RULES, price)
    payments = []
    if unit.is_found:
        # A case about a paid unit is about the payment. It is less than the price for an answer that ends early.
        case_price = price if unit.racers > 1 else trace.events(UnitSettled)[0].price
        fee = money.fee_of_judge(RULES, price)
        liar_holds = [(unit.purse, collateral)]
        payments.append(lies_paid(trace.case(trace.unit), liar_holds, unit.customer, case_price, fee))
    if any(miss.provider == unit.cheat for miss in trace.events(RaceMissed)):
        payments.append(CheckPayment((unit.purse,), Counter({None: part(collateral, RULES.idle_penalty)})))
    return payments


def chance_failures(units: Sequence[ModelUnit]) -> list[str]:
    """Return a failure if the number of audited lone lies is improbable at the stated chance of an audit."""
    lies = [unit for unit in units if unit.is_lie and unit.racers == 1 and not unit.is_batch]
    audited = sum(unit.is_judged for unit in lies)
    hits, draws = chance_found(AUDIT_RATE_PPM)
    probability = tail_probability(audited, len(lies), hits / draws)
    if probability >= IMPROBABLE:
        return []
    return [f"{audited} of {len(lies)} lone lies were audited, which has the probability {probability:.1e}"]


def tail_probability(hits: int, tries: int, chance: float) -> float:
    """Return the probability of this number of hits, and of all less probable numbers."""
    probabilities = [math.comb(tries, k) * chance**k * (1 - chance) ** (tries - k) for k in range(tries + 1)]
    return sum(each for each in probabilities if each <= probabilities[hits])


def figures(facts_by_scenario: Mapping[str, CheatFindings]) -> str:
    """Return the line of figures."""
    findings = [finding for facts in facts_by_scenario.values() for finding in facts.findings]
    totals: Counter[str] = sum((Counter(finding.answers) for finding in findings), Counter())
    checks = [check for finding in findings for check in finding.checks]
    found = ", ".join(
        f"{totals[f'{kind} lies found']} of {totals[f'{kind} lies']} {kind} lies" for kind in ("raced", "batch", "lone")
    )
    hits, draws = chance_found(AUDIT_RATE_PPM)
    right_amounts = sum(check.taken == check.expected for check in checks)
    return (
        f"found {found} (chance of an audit {100 * hits / draws:.1f} %), {right_amounts} of {len(checks)} amounts as "
        "the table says"
    )


def _require_model(proof_run: ProofRun, _: Devnet) -> None:
    """Raise DevnetError, before any process starts, if the model is not in the store."""
    try:
        form_named(f"{WORKLOAD}:{proof_run.options.model}")
    except LookupError as error:
        raise DevnetError(str(error), code="model_missing") from None


NETWORK = FreshDevnet(
    VALIDATOR_COUNT,
    "models",
    numbers=CHAIN_NUMBERS,
    before_start=_require_model,
    prepare=lambda stage: stage.add_cheat(MODEL_CHEATS[0]),
)
PROOF = LiveProof(
    "model_cheats",
    "Compute a language model wrongly, and be found at the stated rate.",
    (Scenario("models", "A language model: {model}", NETWORK.open, play_cheats),),
    figures,
    (
        ProofOption("--model", MODEL_NAME, "a model of your store, by name or first digits of its id"),
        ProofOption("--units", SINGLE_COUNT, "single requests in all cheats together"),
    ),
)

if __name__ == "__main__":
    run(PROOF)
