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
from devnet.stage.cheating.__main__ import CHEATS
from devnet.stage.cheating.races import ACCEPTED
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

COMMIT = "InferenceMarket.commit_result"
WRONG_WORK = ("flip-bit", "swapped-model")  # a committee finds it
NO_REVEAL = ("copied-result", "late-reveal")  # fined for the miss, or slashed if another racer was right
LATE = "late-reveal"  # while a case is open the chain accepts it, without pay
MAY_EARN = ("replayed-attestation", "not-assigned")  # modes that run their own races honestly


@dataclass(frozen=True, slots=True)
class Check:
    """One amount: the chain's and the table's."""

    what: str
    unit: str
    block: int
    taken: int
    expected: int


@dataclass(slots=True)
class Finding:
    """The findings of one mode."""

    mode: str
    units: int
    drawn: int = 0  # races that the cheat was drawn for
    tried: int = 0  # forbidden messages that it sent
    refused: int = 0
    slashed: int = 0
    fined: int = 0
    checks: list[Check] = field(default_factory=list)
    answers: dict[str, int] = field(default_factory=dict)  # the chain's answers to the attempts, counted
    figures: dict[str, int] = field(default_factory=dict)  # of a batch: blocks, judges, tokens
    failures: list[str] = field(default_factory=list)
    tasks: int = 0
    grains: dict[str, int] = field(default_factory=dict)  # the gain of each name after a task, less fees
    gained: int | None = None  # the gain of a task's cheats; for units the checks have the amounts


@dataclass(slots=True)
class CheatFindings:
    """The findings of several modes, judged together."""

    found: list[Finding]

    @property
    def failures(self) -> list[str]:
        """The failures of all modes."""
        return [f"{each.mode}: {failure}" for each in self.found for failure in each.failures]


def cheated(mode: str, stage: Stage) -> Finding:
    """Let the cheat run in one mode while a customer buys the mode's share of the units. Then judge the chain."""
    modes = sum(scenario.name in CHEATS for scenario in stage.options.only)
    stage.cheat_in(mode)
    first, before = stage.next_height(), len(stage.telemetry(CHEAT))
    prompts = purchase.read_prompts(purchase.DEFAULT_PROMPTS, -(-stage.options.units // modes))
    rows = purchase.buy_units(stage, prompts).units
    attempts = [line for line in stage.telemetry(CHEAT)[before:] if line["event"] == "cheat"]
    book = stage.ask(lambda chain: ledger.read(chain, first))
    return judge(mode, [row["unit"] for row in rows], book, len(stage.devnet.members), attempts)


def judge(mode: str, units: list[str], book: DevnetLedger, in_office: int, attempts: list[dict[str, Any]]) -> Finding:
    """Judge every requirement of this mode for these units. `in_office` is the number of validators."""
    records = {unit: book.unit(bytes.fromhex(unit[2:])) for unit in units}
    cheat = dev_accounts.stash(CHEAT)
    finding = Finding(mode, len(units))
    finding.drawn = sum(cheat in record.racers for record in records.values())
    _count_attempts(finding, attempts, records)
    finding.checks = _amounts(book, in_office)
    finding.slashed = sum(event.provider == cheat for _, event in book.all(ProviderSlashed))
    finding.fined = sum(event.provider == cheat for _, event in book.all(RaceMissed))
    finding.failures = [*_of_everybody(records, book, cheat), *_of_the_cheat(finding, records, cheat)]
    return finding


def _count_attempts(finding: Finding, attempts: list[dict[str, Any]], records: dict[str, UnitRecord]) -> None:
    """Count attempts and refusals.

    The pool or a block refuses a call. The node or every author refuses an attestation. The chain accepts a copied
    commitment, because it is opaque, so only its reveal must fail.
    """
    for attempt in attempts:
        answer = f"{attempt['what']}: {attempt['answer']}"
        finding.answers[answer] = finding.answers.get(answer, 0) + 1
    tries = [attempt for attempt in attempts if attempt["what"] != COMMIT or not _is_copy(finding)]
    attestations = [attempt for attempt in tries if attempt["what"] == "attestation"]
    refused_calls = sum(attempt["answer"] != ACCEPTED for attempt in tries if attempt["what"] != "attestation")
    finding.tried = len(tries)
    finding.refused = refused_calls + len(attestations) - sum(_undue(finding, record) for record in records.values())


def _is_copy(finding: Finding) -> bool:
    return finding.mode == "copied-result"


def _undue(finding: Finding, record: UnitRecord) -> int:
    """Return the cheat's attestations in the chain beyond the one that an honest racer attaches."""
    cheat = dev_accounts.stash(CHEAT)
    attached = record.attesters().count(cheat)
    return max(0, attached - (0 if finding.mode in NO_REVEAL else record.racers.count(cheat)))


def _amounts(book: DevnetLedger, in_office: int) -> list[Check]:
    """Return a check of every slash and every fine. All validators have the same stake."""
    return [
        _check(event, height, book.unit(event.unit), in_office)
        for height, event in sorted(book.penalties(), key=itemgetter(0))
    ]


def _check(event: ProviderSlashed | RaceMissed, height: int, record: UnitRecord, in_office: int) -> Check:
    """Return a check of one amount, by the formulas of the money tables."""
    unit, price, rules = "0x" + event.unit.hex(), record.price, DEFAULT_RULES
    collateral = money.collateral(rules, price)
    if isinstance(event, RaceMissed):
        # without a case, a missing reveal costs a part of the price, a missing commit a part of the collateral
        idle = part(collateral, rules.idle_penalty)
        expected = idle if event.amount == idle else part(price, rules.withheld_penalty)
        return Check("a miss", unit, height, event.amount, expected)
    fee, paid = judge_fee(price, rules.judge_fee_ppm, rules.judge_fee_min), _judges_paid(record)
    share = -(-price * MISS_PRICE_PERCENT // 100)
    if event.fault is not PartyFault.LIED:
        return Check("a miss that a case found", unit, height, event.amount, share + min(paid, FIRST_JUDGES) * fee)
    has_court = any(decided.appealable_until for decided in record.events(CaseDecided))
    takes_whole = has_court or 3 * paid > in_office  # the judges had more than a third of the stake
    expected = collateral if takes_whole else min(collateral, price + paid * fee + share)
    return Check("the unit's collateral", unit, height, event.amount, expected)


def _judges_paid(record: UnitRecord) -> int:
    """Return the number of judges with the opinion of the verdict."""
    decided = [decided.verdict for decided in record.events(CaseDecided)]
    return sum(opened.statement.opinion in decided for opened in record.events(OpinionOpened))


def _of_everybody(records: dict[str, UnitRecord], book: DevnetLedger, cheat: bytes) -> Iterator[str]:
    """Yield failures of the requirements of every mode."""
    for unit, record in records.items():
        if len(record.settled) != 1 or record.refunded:
            yield f"unit {unit} was settled {len(record.settled)} times and refunded {len(record.refunded)} times"
        attested = record.attesters()
        if len(attested) > len(record.racers) or any(provider not in record.racers for provider in attested):
            yield f"unit {unit} has an attestation of somebody who was not drawn, or one too many"
    for height, event in book.penalties():
        if event.provider != cheat:
            yield f"block {height}: {name_of_account(event.provider)} is honest and lost {event}"


def _of_the_cheat(finding: Finding, records: dict[str, UnitRecord], cheat: bytes) -> Iterator[str]:
    """Yield failures of the mode's requirements."""
    wrong = [check for check in finding.checks if check.taken != check.expected]
    yield from (f"{check.what} of {check.unit}: {check.taken} taken, {check.expected} expected" for check in wrong)
    if not finding.drawn and finding.mode != "not-assigned":
        yield "the cheat was never drawn: nothing was tested"
    paid = [unit for unit, record in records.items() if cheat in record.winners()]
    opened = [unit for unit, record in records.items() if cheat in record.attesters()]
    if finding.mode in WRONG_WORK:
        if finding.slashed != len(opened) or not opened:
            yield f"{len(opened)} wrong results were revealed, {finding.slashed} were slashed"
    elif not finding.tried or (finding.refused != finding.tried and finding.mode != LATE):
        yield f"{finding.refused} of {finding.tried} attempts were refused"
    if finding.mode in NO_REVEAL and not finding.fined + finding.slashed:
        yield "neither fined nor slashed"
    if finding.mode in NO_REVEAL and finding.mode != LATE and opened:
        yield f"{len(opened)} attestations got into the chain"
    if finding.mode not in MAY_EARN and paid:
        yield f"the cheat was paid for {paid}"
    if finding.mode not in (*WRONG_WORK, *NO_REVEAL) and finding.slashed:
        yield "slashed, though no wrong result was revealed"
