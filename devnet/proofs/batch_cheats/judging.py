"""What must have come of a batch: reckoned from right answers, the scene's lie and the beacon, then found in blocks.

Always: a drawn leaf that is a lie ends the check against who answered; a lie that nobody drew is paid, and its chance
is said; who was honest pays nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from devnet.proofs.batch_cheats.facts import BatchFacts
from devnet.proofs.batch_cheats.money import (
    CheckPayment,
    CheckPurse,
    answerers,
    fee_paid,
    lies_paid,
    lost_by,
    purse,
    withheld_paid,
    wrong_sums,
)
from devnet.proofs.batch_cheats.scenes import BatchCustomer
from devnet.proofs.batch_cheats.traces import CheckCase
from gpu_tasks.batches.sum_tree import batch_root
from gpu_tasks.market.courts.money import FIRST_JUDGES, seat_hold
from gpu_tasks.market.leaf_checks.checks import LEAF_BOND, LEAF_SEAT, CheckOutcome, CheckTerms

PPM = 1_000_000


@dataclass(slots=True)
class Expected:
    """How the check of a batch must end, and what that costs whom."""

    outcome: CheckOutcome = CheckOutcome.UNLOOKED
    earner: bytes | None = None
    """Whose word stands."""
    guilty: list[tuple[CheckPurse, int]] = field(default_factory=list)
    """Who is found to have cheated, and what stood for it."""
    payments: list[CheckPayment] = field(default_factory=list)
    found_by: str = ""
    wrong_words: list[str] = field(default_factory=list)
    """Of auditors and customer, who said something else than follows from what they saw."""


@dataclass(frozen=True, slots=True)
class LeafFigures:
    """Of one batch: blocks, grains."""

    found_by: str
    """Who found the cheat; empty where nobody did."""
    chance_ppm: int
    """That the draw finds a lie about this batch."""
    blocks: int
    """From settlement to the end of the check."""
    price: int
    lost: int
    """By who cheated, to others and to the fire."""
    due: int
    """What the table says of that."""
    held: int
    """What stood for it."""


def expected_of(facts: BatchFacts) -> Expected:
    """By the rules of checks, and by what chance has given: who was drawn, which proofs were looked at."""
    made = Expected()
    terms, trace, shown = facts.terms, facts.trace, facts.shown()
    if not shown:
        made.outcome, made.found_by = CheckOutcome.WITHHELD, "the draw, which it could not show"
        made.guilty = _liars(terms)
        made.payments = [withheld_paid(terms), fee_paid(terms, None)]
        return made
    for auditor in trace.auditors:
        _audit(made, facts, auditor)
    if made.outcome is not CheckOutcome.REFUTED:
        _customer(made, facts)
    made.payments.append(fee_paid(terms, made.earner))
    return made


def figures_of(facts: BatchFacts) -> LeafFigures:
    """What it came to."""
    made, trace = expected_of(facts), facts.trace
    guilty = [who for who, _ in made.guilty]
    settled_at = trace.settled[0][0] if trace.settled else trace.ended_at
    return LeafFigures(
        found_by=made.found_by,
        chance_ppm=int(facts.chance() * PPM),
        blocks=trace.ended_at - settled_at,
        price=facts.terms.price,
        lost=lost_by(trace, guilty),
        due=sum(payment.lost() for payment in made.payments if payment.purses[0] in guilty),
        held=sum(held for _, held in made.guilty),
    )


def failures_of(facts: BatchFacts) -> list[str]:
    """What is not as it should be, as sentences."""
    trace = facts.trace
    if trace.ended is None or trace.terms is None:
        return [f"its check has not ended: {', '.join(trace.unexpected)}"]
    made = expected_of(facts)
    found = [f"nobody should have had it: {what}" for what in trace.unexpected]
    found += [*_of_answers(facts), *made.wrong_words]
    return [*found, *_of_the_end(facts, made), *wrong_sums(trace, made.payments)]


def _audit(made: Expected, facts: BatchFacts, auditor: bytes) -> None:
    """What one auditor says, and what becomes of its word."""
    trace, terms = facts.trace, facts.terms
    wrong = [leaf for leaf in facts.shown() if not facts.is_right(leaf)]
    is_lazy = auditor in facts.lazy
    if wrong and not is_lazy:
        doubt = next((each.doubt for each in trace.doubts if each.doubt.doubter == auditor), None)
        if doubt is None or (doubt.shown, doubt.found) != (wrong[0], facts.right_claim(wrong[0].index)):
            made.wrong_words.append(f"an auditor should have doubted leaf {wrong[0].index}, and said {doubt}")
            return
        _refute(made, facts, _case_of(facts, auditor), _liars(terms))
        made.earner, made.found_by = auditor, "its auditor, by a drawn leaf"
        return
    proof = trace.passed.get(auditor)
    if proof is None or (proof == facts.right_proof(auditor)) == is_lazy:
        made.wrong_words.append(f"an auditor passed with {'a right proof' if proof else 'nothing'}")
    case = trace.cases.get(trace.watched.get(auditor, b""))
    if is_lazy and case is not None:
        seat = [(purse(auditor, LEAF_SEAT), seat_hold(terms.collateral, terms.fee))]
        made.guilty += seat
        made.payments.append(lies_paid(case, seat, terms.customer, terms.fee, terms.fee))
        made.found_by = "the courts, which looked at a proof"
        return
    made.earner, made.outcome = auditor, CheckOutcome.PASSED


def _customer(made: Expected, facts: BatchFacts) -> None:
    """What the customer says when nobody else doubts any more, and what becomes of it."""
    trace, terms, scene = facts.trace, facts.terms, facts.scene
    doubt = next((each.doubt for each in trace.doubts if each.doubt.doubter == terms.customer), None)
    may_find = scene.customer is BatchCustomer.LOOKS and bool(facts.wrong_outputs())
    if (doubt is not None) != (may_find or scene.customer is BatchCustomer.LIES):
        made.wrong_words.append(f"its customer disputed {doubt}")
    if doubt is None:
        return
    case = _case_of(facts, terms.customer)
    if facts.is_right(doubt.shown):
        bond = [(purse(terms.customer, LEAF_BOND), FIRST_JUDGES * terms.judge_fee)]
        made.guilty += bond
        made.payments.append(lies_paid(case, bond, terms.customer, terms.price, terms.judge_fee))
        made.found_by = "judges, for who answered"
        return
    liars = _liars(terms)
    if made.earner in facts.lazy and doubt.shown in trace.shown:
        assert made.earner is not None, "nobody is lazy"
        liars.append((purse(made.earner, LEAF_SEAT), seat_hold(terms.collateral, terms.fee)))
        made.earner = None
    _refute(made, facts, case, liars)
    made.found_by = "its customer, which looked"


def _refute(made: Expected, facts: BatchFacts, case: CheckCase, liars: list[tuple[CheckPurse, int]]) -> None:
    terms = facts.terms
    made.outcome = CheckOutcome.REFUTED
    made.guilty += liars
    made.payments.append(lies_paid(case, liars, terms.customer, terms.price, terms.judge_fee))


def _of_answers(facts: BatchFacts) -> Iterator[str]:
    """Whether what was settled and shown is what this scene states."""
    trace, told = facts.trace, facts.told
    if len(trace.settled) != 1:
        yield f"it was settled {len(trace.settled)} times"
    for _, event in trace.settled:
        if event.output_root != batch_root(told.totals):
            yield "another result was settled than this scene states"
        if event.winner not in trace.racers:
            yield "somebody else was paid"
    if trace.shown != facts.shown() or len(trace.shown_by) != bool(facts.shown()):
        yield f"the leaves {[leaf.index for leaf in trace.shown]} were shown, and not {facts.shown()}"


def _of_the_end(facts: BatchFacts, made: Expected) -> Iterator[str]:
    trace, terms = facts.trace, facts.terms
    assert trace.ended is not None, "looked at before"
    if (trace.ended.outcome, trace.ended.earner) != (made.outcome, made.earner):
        yield f"its check ended {trace.ended}, and not {made.outcome.name} with {made.earner!r}"
    is_lost = made.outcome in (CheckOutcome.REFUTED, CheckOutcome.WITHHELD)
    lost = sorted(slash.provider for slash in trace.slashes)
    if lost != (sorted(who for who, _ in answerers(terms)) if is_lost else []):
        yield f"{len(lost)} of {len(trace.racers)} who answered lost what they held"


def _liars(terms: CheckTerms) -> list[tuple[CheckPurse, int]]:
    held = [each.held for each in terms.answerers]
    return list(zip(answerers(terms), held, strict=True))


def _case_of(facts: BatchFacts, doubter: bytes) -> CheckCase:
    """The case that a doubt came to."""
    trace = facts.trace
    return trace.cases[next(each.case for each in trace.doubts if each.doubt.doubter == doubter)]
