"""The required outcome of a batch's check, to the grain.

Invariant: a drawn leaf that is a lie ends the check against the answerer. A lie that no draw hits is paid, and the
report states its chance. Honest parties pay nothing. Everything that was locked in a hold leaves it, and a check moves
only the sums of the money table. Heights are of final blocks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from devnet.proofs.cheats.batch_scenes import BatchCustomer, BatchFacts, CheckCase, CheckTrace, HoldEvent
from gpu_tasks.batches.sum_tree import batch_root
from gpu_tasks.market.courts.cases import AUDIT_POT, JUDGE_SEAT
from gpu_tasks.market.courts.money import FIRST_JUDGES, SMALL_SET_PRICE_PERCENT, seat_hold
from gpu_tasks.market.devices.records import COLLATERAL
from gpu_tasks.market.inference.events import ProviderSlashed, UnitSettled
from gpu_tasks.market.leaf_checks.checks import LEAF_BOND, LEAF_FEE, LEAF_SEAT, CheckOutcome, CheckTerms
from gpu_tasks.market.leaf_checks.events import LeavesPassed, LeavesShown
from runtime.frame.holds import HoldReason
from runtime.pallets.staking.trust_lock import Locked, Paid

VALIDATOR_COUNT = 6
"""The validators of the devnet. All have the same stake."""
HOLD_REASONS = (COLLATERAL, LEAF_SEAT, LEAF_BOND, LEAF_FEE, JUDGE_SEAT)
CheckPurse = tuple[bytes, str]
"""An account, and its hold reason."""
CheckPayee = bytes | None
"""An account. None stands for burned grains."""


@dataclass(frozen=True, slots=True)
class CheckPayment:
    """Shares of a common sum that several accounts hold. The rest stays with them."""

    purses: tuple[CheckPurse, ...]
    dues: Counter[CheckPayee]

    def to_others(self) -> Counter[CheckPayee]:
        """Return the shares without those that a payer would pay to itself, and keeps."""
        payers = {account for account, _ in self.purses}
        return Counter({payee: grains for payee, grains in self.dues.items() if payee not in payers})

    def lost(self) -> int:
        """Return the payers' total loss."""
        return sum(self.to_others().values())


def check_purse(account: bytes, reason: HoldReason) -> CheckPurse:
    """Return an account's hold for the batch or for a case of it."""
    return account, reason.name


def lies_paid(
    case: CheckCase, liar_holds: Sequence[tuple[CheckPurse, int]], customer: bytes, price_grains: int, fee_grains: int
) -> CheckPayment:
    """Return the liars' payment: to the judges of the verdict, then the price to the customer. The rest burns.

    If these judges are more than a third of the validators, the liars lose their whole holds. Otherwise they lose at
    most price, fees and a fourth of the price.
    """
    assert case.ended is not None, "the case is over"
    agreeing = [opinion.judge for opinion in case.opinions if opinion.statement.opinion == case.ended.verdict]
    loss_cap = price_grains + fee_grains * len(agreeing) + -(-price_grains * SMALL_SET_PRICE_PERCENT // 100)
    takes_whole = len(agreeing) * 3 > VALIDATOR_COUNT
    remaining = sum(held if takes_whole else min(held, loss_cap) for _, held in liar_holds)
    dues: Counter[CheckPayee] = Counter()
    for payee, grains in [*((judge, fee_grains) for judge in agreeing), (customer, price_grains)]:
        dues[payee] += min(remaining, grains)
        remaining -= min(remaining, grains)
    dues[None] += remaining
    return CheckPayment(tuple(purse for purse, _ in liar_holds), +dues)


def withheld_paid(terms: CheckTerms) -> CheckPayment:
    """Return the payment of an answerer that showed nothing: the price to the customer. The rest burns."""
    held = sum(answerer.held for answerer in terms.answerers)
    dues: Counter[CheckPayee] = Counter({terms.customer: min(held, terms.price), None: max(0, held - terms.price)})
    return CheckPayment(answerers(terms), +dues)


def fee_paid(terms: CheckTerms, fee_earner: bytes | None) -> CheckPayment:
    """Return the payment of the audit fee: to the auditor with the upheld opinion, else to the audit pot."""
    return CheckPayment((check_purse(terms.customer, LEAF_FEE),), Counter({fee_earner or AUDIT_POT: terms.fee}))


def answerers(terms: CheckTerms) -> tuple[CheckPurse, ...]:
    """Return the holds that secure the result."""
    return tuple(check_purse(answerer.account, COLLATERAL) for answerer in terms.answerers)


def wrong_sums(trace: CheckTrace, payments: Sequence[CheckPayment]) -> Iterator[str]:
    """Yield each difference between the batch's payments and the required ones, and each payment beside them."""
    paid_by_purse = payments_by_purse(trace)
    for payment in payments:
        paid: Counter[CheckPayee] = Counter()
        for purse in payment.purses:
            paid += paid_by_purse.get(purse, Counter())
        dues = payment.to_others()
        if paid != dues:
            yield (f"{_named_purses(payment.purses)} paid {_shown_dues(paid)}, and not {_shown_dues(dues)}")
    payers = {purse for payment in payments for purse in payment.purses}
    for purse, paid in paid_by_purse.items():
        if purse not in payers and paid:
            yield f"{_named_purses([purse])} paid {_shown_dues(paid)}, and did nothing wrong"
    yield from _left_behind(trace)


def payments_by_purse(trace: CheckTrace) -> dict[CheckPurse, Counter[CheckPayee]]:
    """Return the payments from holds of the batch and its cases, by payer and payee."""
    paid: dict[CheckPurse, Counter[CheckPayee]] = {}
    reason_names = {reason.name for reason in HOLD_REASONS}
    for event in trace.events(Paid):
        if event.reason.name in reason_names:
            paid.setdefault((event.who, event.reason.name), Counter())[event.payee] += event.amount
    return paid


def grains_lost_by(trace: CheckTrace, purses: Iterable[CheckPurse]) -> int:
    """Return the total payments from these holds."""
    paid = payments_by_purse(trace)
    return sum(sum(paid.get(purse, Counter()).values()) for purse in purses)


def _left_behind(trace: CheckTrace) -> Iterator[str]:
    """Yield each seat or bond that is still locked."""
    locked: Counter[CheckPurse] = Counter()
    for _, event in trace.happened:
        if isinstance(event, HoldEvent) and event.reason.name in (LEAF_SEAT.name, LEAF_BOND.name, JUDGE_SEAT.name):
            locked[event.who, event.reason.name] += event.amount if isinstance(event, Locked) else -event.amount
    for purse, grains in locked.items():
        if grains:
            yield f"{grains} grains of {_named_purses([purse])} are left behind"


def _named_purses(purses: Sequence[CheckPurse]) -> str:
    return ", ".join(f"{account.hex()[:8]} ({reason})" for account, reason in purses)


def _shown_dues(dues: Counter[CheckPayee]) -> dict[str, int]:
    return {"burned" if payee is None else payee.hex()[:8]: grains for payee, grains in dues.items()}


PPM = 1_000_000


@dataclass(slots=True)
class ExpectedEnd:
    """The required end of a batch's check, and its costs."""

    outcome: CheckOutcome = CheckOutcome.UNLOOKED
    earner: bytes | None = None
    """The auditor whose opinion the chain upheld, and who is paid."""
    guilty: list[tuple[CheckPurse, int]] = field(default_factory=list)
    """The cheats that are found, and the holds that secured them."""
    payments: list[CheckPayment] = field(default_factory=list)
    found_by: str = ""
    wrong_words: list[str] = field(default_factory=list)
    """Opinions of auditors and customer that contradict their knowledge."""


@dataclass(frozen=True, slots=True)
class LeafFigures:
    """The figures of one batch: blocks, grains."""

    found_by: str
    """The party that found the cheat, or an empty text."""
    chance_ppm: int
    """The chance that the draw finds a lie about this batch."""
    blocks: int
    """From settlement to the end of the check."""
    price: int
    lost: int
    """The cheats' loss, paid to others or burned."""
    due: int
    """The money table's sum for it."""
    held: int
    """The holds that secured it."""


def expected_of(facts: BatchFacts) -> ExpectedEnd:
    """Return the required end of the check, given the draws of auditors and of inspected proofs."""
    expected = ExpectedEnd()
    terms, trace, shown = facts.terms, facts.trace, facts.shown()
    if not shown:
        expected.outcome, expected.found_by = CheckOutcome.WITHHELD, "the draw, which it could not show"
        expected.guilty = _answerer_holds(terms)
        expected.payments = [withheld_paid(terms), fee_paid(terms, None)]
        return expected
    for auditor in trace.auditors:
        _expect_audit(expected, facts, auditor)
    if expected.outcome is not CheckOutcome.REFUTED:
        _expect_dispute(expected, facts)
    expected.payments.append(fee_paid(terms, expected.earner))
    return expected


def figures_of(facts: BatchFacts) -> LeafFigures:
    """Return the figures of one batch."""
    expected, trace = expected_of(facts), facts.trace
    guilty = [purse for purse, _ in expected.guilty]
    settled_at = next((height for height, _ in trace.all(UnitSettled)), trace.ended_at)
    return LeafFigures(
        found_by=expected.found_by,
        chance_ppm=int(facts.chance() * PPM),
        blocks=trace.ended_at - settled_at,
        price=facts.terms.price,
        lost=grains_lost_by(trace, guilty),
        due=sum(payment.lost() for payment in expected.payments if payment.purses[0] in guilty),
        held=sum(grains for _, grains in expected.guilty),
    )


def failures_of(facts: BatchFacts) -> list[str]:
    """Return a sentence for each failed requirement."""
    trace = facts.trace
    if trace.ended is None or trace.terms is None:
        return [f"its check has not ended: {', '.join(trace.unexpected())}"]
    expected = expected_of(facts)
    failures = [f"no account should have received it: {event}" for event in trace.unexpected()]
    failures += [*_answer_failures(facts), *expected.wrong_words]
    return [*failures, *_end_failures(facts, expected), *wrong_sums(trace, expected.payments)]


def _expect_audit(expected: ExpectedEnd, facts: BatchFacts, auditor: bytes) -> None:
    """Add the required opinion of one auditor, and its consequence."""
    trace, terms = facts.trace, facts.terms
    wrong = [leaf for leaf in facts.shown() if not facts.is_right(leaf)]
    is_lazy = auditor in facts.lazy
    if wrong and not is_lazy:
        doubt, claim = trace.doubt_of(auditor), facts.right_claim(wrong[0].index)
        if doubt is None or (doubt.doubt.shown, doubt.doubt.found) != (wrong[0], claim):
            expected.wrong_words.append(f"an auditor should have doubted leaf {wrong[0].index}, and said {doubt}")
            return
        _expect_refutation(expected, facts, trace.case(doubt.case), _answerer_holds(terms))
        expected.earner, expected.found_by = auditor, "its auditor, by a drawn leaf"
        return
    proof = next((event.proof for event in trace.events(LeavesPassed) if event.auditor == auditor), None)
    if proof is None or (proof == facts.right_proof(auditor)) == is_lazy:
        expected.wrong_words.append(f"an auditor passed with {'a right proof' if proof else 'nothing'}")
    case = trace.watched_case(auditor)
    if is_lazy and case is not None:
        seats = [(check_purse(auditor, LEAF_SEAT), seat_hold(terms.collateral, terms.fee))]
        expected.guilty += seats
        expected.payments.append(lies_paid(case, seats, terms.customer, terms.fee, terms.fee))
        expected.found_by = "the courts, which looked at a proof"
        return
    expected.earner, expected.outcome = auditor, CheckOutcome.PASSED


def _expect_dispute(expected: ExpectedEnd, facts: BatchFacts) -> None:
    """Add the required dispute of the customer, after all auditors, and its consequence."""
    trace, terms, scene = facts.trace, facts.terms, facts.scene
    doubt = trace.doubt_of(terms.customer)
    dispute = None if doubt is None else doubt.doubt
    may_find = scene.customer is BatchCustomer.LOOKS and bool(facts.wrong_outputs())
    if (dispute is not None) != (may_find or scene.customer is BatchCustomer.LIES):
        expected.wrong_words.append(f"its customer disputed {dispute}")
    if doubt is None or dispute is None:
        return
    case = trace.case(doubt.case)
    if facts.is_right(dispute.shown):
        bonds = [(check_purse(terms.customer, LEAF_BOND), FIRST_JUDGES * terms.judge_fee)]
        expected.guilty += bonds
        expected.payments.append(lies_paid(case, bonds, terms.customer, terms.price, terms.judge_fee))
        expected.found_by = "judges, for the racers that answered"
        return
    liar_holds = _answerer_holds(terms)
    if expected.earner in facts.lazy and dispute.shown in trace.shown:
        assert expected.earner is not None, "no judge is lazy"
        liar_holds.append((check_purse(expected.earner, LEAF_SEAT), seat_hold(terms.collateral, terms.fee)))
        expected.earner = None
    _expect_refutation(expected, facts, case, liar_holds)
    expected.found_by = "its customer, which looked"


def _expect_refutation(
    expected: ExpectedEnd, facts: BatchFacts, case: CheckCase, liar_holds: list[tuple[CheckPurse, int]]
) -> None:
    terms = facts.terms
    expected.outcome = CheckOutcome.REFUTED
    expected.guilty += liar_holds
    expected.payments.append(lies_paid(case, liar_holds, terms.customer, terms.price, terms.judge_fee))


def _answer_failures(facts: BatchFacts) -> Iterator[str]:
    """Yield each difference between the scene's statement and the settled result or the shown leaves."""
    trace, batch = facts.trace, facts.told
    settlements = trace.events(UnitSettled)
    if len(settlements) != 1:
        yield f"it was settled {len(settlements)} times"
    for event in settlements:
        if event.output_root != batch_root(batch.totals):
            yield "another result was settled than this scene states"
        if event.winner not in trace.racers:
            yield "another account was paid"
    if trace.shown != facts.shown() or len(trace.all(LeavesShown)) != bool(facts.shown()):
        yield (f"the leaves {[leaf.index for leaf in trace.shown]} were shown, and not {facts.shown()}")


def _end_failures(facts: BatchFacts, expected: ExpectedEnd) -> Iterator[str]:
    trace, terms = facts.trace, facts.terms
    assert trace.ended is not None, "looked at before"
    if (trace.ended.outcome, trace.ended.earner) != (expected.outcome, expected.earner):
        yield f"its check ended {trace.ended}, and not {expected.outcome.name} with {expected.earner!r}"
    is_lost = expected.outcome in (CheckOutcome.REFUTED, CheckOutcome.WITHHELD)
    slashed = sorted(slash.provider for slash in trace.events(ProviderSlashed))
    if slashed != (sorted(account for account, _ in answerers(terms)) if is_lost else []):
        yield f"{len(slashed)} of {len(trace.racers)} that answered lost their collateral"


def _answerer_holds(terms: CheckTerms) -> list[tuple[CheckPurse, int]]:
    held_grains = [answerer.held for answerer in terms.answerers]
    return list(zip(answerers(terms), held_grains, strict=True))
