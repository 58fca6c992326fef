"""Cheats about units, one mode after the other: the required outcomes for the cheat, and for the other parties.

The requirements in each mode:

* The cheat was drawn or made an attempt at least once.
* Its messages were refused, or it was slashed or fined by exactly the table's amounts.
* It was never paid for wrong work.
* No honest provider lost a grain.
* Every unit was settled and paid once.

Invariant: each amount is computed again here from the unit's price, with the formulas of the money tables, and compared
to the grain.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from devnet.stage.actors import purchase
from devnet.stage.actors.purchase import name_of_account
from devnet.stage.cheating.__main__ import UNIT_CHEATS
from devnet.stage.cheating.races import ACCEPTED_ANSWER
from devnet.stage.measuring import ledger
from devnet.stage.measuring.ledger import DevnetLedger, UnitRecord
from devnet.stage.network import CHEAT, Stage
from genesis import dev_accounts
from gpu_tasks.market.courts.cases import PartyFault
from gpu_tasks.market.courts.events import CaseDecided, OpinionOpened
from gpu_tasks.market.courts.money import FIRST_JUDGES, MISS_PRICE_PERCENT, judge_fee
from gpu_tasks.market.inference import money
from gpu_tasks.market.inference.events import ProviderSlashed, RaceMissed
from gpu_tasks.market.inference.rules import DEFAULT_RULES
from runtime.pallets.staking.slashing import part

COMMIT_CALL = "InferenceMarket.commit_result"
WRONG_WORK = ("flip-bit", "fewer-layers")  # a committee finds it
NO_REVEAL = ("copied-result", "late-reveal")  # fined for the miss, or slashed if another racer was right
LATE_REVEAL = "late-reveal"  # while a case is open the chain accepts it, without pay
MAY_EARN = ("replayed-attestation", "not-assigned")  # modes that run their own races honestly


@dataclass(frozen=True, slots=True)
class AmountCheck:
    """One amount: the chain's and the table's."""

    what: str
    unit: str
    block: int
    taken: int
    expected: int


@dataclass(slots=True)
class CheatFinding:
    """The findings of one mode."""

    mode: str
    units: int
    drawn: int = 0  # races that the cheat was drawn for
    tried: int = 0  # forbidden messages that it sent
    refused: int = 0
    slashed: int = 0
    fined: int = 0
    checks: list[AmountCheck] = field(default_factory=list)
    answers: dict[str, int] = field(default_factory=dict)  # the chain's answers to the attempts, counted
    figures: dict[str, int] = field(default_factory=dict)  # of a batch: blocks, judges, tokens
    failures: list[str] = field(default_factory=list)
    tasks: int = 0
    grains: dict[str, int] = field(default_factory=dict)  # the gain of each name after a task, less fees
    gained: int | None = None  # the gain of a task's cheats; for units the checks have the amounts


@dataclass(slots=True)
class CheatFindings:
    """The findings of several modes, judged together."""

    findings: list[CheatFinding]

    @property
    def failures(self) -> list[str]:
        """The failures of all modes."""
        return [f"{finding.mode}: {failure}" for finding in self.findings for failure in finding.failures]


def run_cheat(mode: str, stage: Stage) -> CheatFinding:
    """Let the cheat run in one mode while a customer buys the mode's share of the units. Then judge the chain."""
    mode_count = sum(scenario.name in UNIT_CHEATS for scenario in stage.options.only)
    stage.cheat_in(mode)
    first_height, rows_before = stage.next_height(), len(stage.telemetry(CHEAT))
    prompts = purchase.read_prompts(purchase.DEFAULT_PROMPTS, -(-stage.options.units // mode_count))
    rows = purchase.buy_units(stage, prompts).units
    attempts = [
        telemetry_row for telemetry_row in stage.telemetry(CHEAT)[rows_before:] if telemetry_row["event"] == "cheat"
    ]
    unit_ledger = stage.ask(lambda chain: ledger.read_ledger(chain, first_height))
    return judge_cheat(mode, [row["unit"] for row in rows], unit_ledger, len(stage.devnet.members), attempts)


def judge_cheat(
    mode: str, unit_texts: list[str], ledger: DevnetLedger, in_office: int, attempts: list[dict[str, Any]]
) -> CheatFinding:
    """Judge every requirement of this mode for these units. `in_office` is the number of validators."""
    records_by_unit = {unit_text: ledger.unit(bytes.fromhex(unit_text[2:])) for unit_text in unit_texts}
    cheat = dev_accounts.stash(CHEAT)
    finding = CheatFinding(mode, len(unit_texts))
    finding.drawn = sum(cheat in record.racers for record in records_by_unit.values())
    _count_attempts(finding, attempts, records_by_unit)
    finding.checks = _amount_checks(ledger, in_office)
    finding.slashed = sum(penalty.provider == cheat for _, penalty in ledger.all(ProviderSlashed))
    finding.fined = sum(penalty.provider == cheat for _, penalty in ledger.all(RaceMissed))
    finding.failures = [
        *_common_failures(records_by_unit, ledger, cheat),
        *_mode_failures(finding, records_by_unit, cheat),
    ]
    return finding


def _count_attempts(
    finding: CheatFinding, attempts: list[dict[str, Any]], records_by_unit: dict[str, UnitRecord]
) -> None:
    """Count attempts and refusals.

    The pool or a block refuses a call. The node or every author refuses an attestation. The chain accepts a copied
    commitment, because it is opaque, so only its reveal must fail.
    """
    for attempt in attempts:
        answer = f"{attempt['what']}: {attempt['answer']}"
        finding.answers[answer] = finding.answers.get(answer, 0) + 1
    counted_attempts = [attempt for attempt in attempts if attempt["what"] != COMMIT_CALL or not _is_copy(finding)]
    attestations = [attempt for attempt in counted_attempts if attempt["what"] == "attestation"]
    refused_calls = sum(
        attempt["answer"] != ACCEPTED_ANSWER for attempt in counted_attempts if attempt["what"] != "attestation"
    )
    finding.tried = len(counted_attempts)
    finding.refused = (
        refused_calls
        + len(attestations)
        - sum(_undue_attestations(finding, record) for record in records_by_unit.values())
    )


def _is_copy(finding: CheatFinding) -> bool:
    return finding.mode == "copied-result"


def _undue_attestations(finding: CheatFinding, record: UnitRecord) -> int:
    """Return the cheat's attestations in the chain beyond the one that an honest racer attaches."""
    cheat = dev_accounts.stash(CHEAT)
    attached_count = record.attesters().count(cheat)
    return max(0, attached_count - (0 if finding.mode in NO_REVEAL else record.racers.count(cheat)))


def _amount_checks(ledger: DevnetLedger, in_office: int) -> list[AmountCheck]:
    """Return a check of every slash and every fine. All validators have the same stake."""
    return [
        _amount_check(penalty, height, ledger.unit(penalty.unit), in_office)
        for height, penalty in sorted(ledger.penalties(), key=itemgetter(0))
    ]


def _amount_check(
    penalty: ProviderSlashed | RaceMissed, height: int, record: UnitRecord, in_office: int
) -> AmountCheck:
    """Return a check of one amount, by the formulas of the money tables."""
    unit_text, price_grains, money_rules = "0x" + penalty.unit.hex(), record.price, DEFAULT_RULES
    collateral = money.collateral(money_rules, price_grains)
    if isinstance(penalty, RaceMissed):
        # without a case, a missing reveal costs a part of the price, a missing commit a part of the collateral
        idle_penalty = part(collateral, money_rules.idle_penalty)
        expected = idle_penalty if penalty.amount == idle_penalty else part(price_grains, money_rules.withheld_penalty)
        return AmountCheck("a miss", unit_text, height, penalty.amount, expected)
    judge_fee_grains, paid_judges = (
        judge_fee(price_grains, money_rules.judge_fee_ppm, money_rules.judge_fee_min),
        _paid_judge_count(record),
    )
    price_share = -(-price_grains * MISS_PRICE_PERCENT // 100)
    if penalty.fault is not PartyFault.LIED:
        return AmountCheck(
            "a miss that a case found",
            unit_text,
            height,
            penalty.amount,
            price_share + min(paid_judges, FIRST_JUDGES) * judge_fee_grains,
        )
    has_court = any(event.appealable_until for event in record.events(CaseDecided))
    takes_whole = has_court or 3 * paid_judges > in_office  # the judges had more than a third of the stake
    expected = (
        collateral if takes_whole else min(collateral, price_grains + paid_judges * judge_fee_grains + price_share)
    )
    return AmountCheck("the unit's collateral", unit_text, height, penalty.amount, expected)


def _paid_judge_count(record: UnitRecord) -> int:
    """Return the number of judges with the opinion of the verdict."""
    verdicts = [decided.verdict for decided in record.events(CaseDecided)]
    return sum(opened_opinion.statement.opinion in verdicts for opened_opinion in record.events(OpinionOpened))


def _common_failures(records_by_unit: dict[str, UnitRecord], ledger: DevnetLedger, cheat: bytes) -> Iterator[str]:
    """Yield failures of the requirements of every mode."""
    for unit_text, record in records_by_unit.items():
        if len(record.settled) != 1 or record.refunded:
            yield (
                f"unit {unit_text} was settled {len(record.settled)} times and refunded {len(record.refunded)} times"
            )
        attesters = record.attesters()
        if len(attesters) > len(record.racers) or any(provider not in record.racers for provider in attesters):
            yield f"unit {unit_text} has an attestation of a provider that was not drawn, or one too many"
    for height, penalty in ledger.penalties():
        if penalty.provider != cheat:
            yield f"block {height}: {name_of_account(penalty.provider)} is honest and lost {penalty}"


def _mode_failures(finding: CheatFinding, records_by_unit: dict[str, UnitRecord], cheat: bytes) -> Iterator[str]:
    """Yield failures of the mode's requirements."""
    wrong_checks = [check for check in finding.checks if check.taken != check.expected]
    yield from (
        f"{check.what} of {check.unit}: {check.taken} taken, {check.expected} expected" for check in wrong_checks
    )
    # The chain draws racers at random, so a short run can pass without testing the cheat.
    if not finding.drawn and finding.mode != "not-assigned":
        yield "the cheat was never drawn: nothing was tested"
    paid_units = [unit_text for unit_text, record in records_by_unit.items() if cheat in record.winners()]
    revealed_units = [unit_text for unit_text, record in records_by_unit.items() if cheat in record.attesters()]
    # Wrong work that nobody noticed would be paid, so each revealed result must have been slashed.
    if finding.mode in WRONG_WORK:
        if finding.slashed != len(revealed_units) or not revealed_units:
            yield f"{len(revealed_units)} wrong results were revealed, {finding.slashed} were slashed"
    elif not finding.tried or (finding.refused != finding.tried and finding.mode != LATE_REVEAL):
        yield f"{finding.refused} of {finding.tried} attempts were refused"
    if finding.mode in NO_REVEAL and not finding.fined + finding.slashed:
        yield "neither fined nor slashed"
    if finding.mode in NO_REVEAL and finding.mode != LATE_REVEAL and revealed_units:
        yield f"{len(revealed_units)} attestations got into the chain"
    if finding.mode not in MAY_EARN and paid_units:
        yield f"the cheat was paid for {paid_units}"
    if finding.mode not in (*WRONG_WORK, *NO_REVEAL) and finding.slashed:
        yield "slashed, though no wrong result was revealed"
