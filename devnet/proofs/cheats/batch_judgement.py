"""The scenes about batches, the trace of a batch in final blocks, and its required outcome, to the grain.

Invariant: a drawn leaf that is a lie ends the check against the answerer. A lie that no draw hits is paid, and the
report states its chance. Honest parties pay nothing. Everything that was locked in a hold leaves it, and a check moves
only the sums of the money table. Heights are of final blocks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from fractions import Fraction

from devnet.stage.cheating.__main__ import HIDING, LAZY, LIES
from devnet.stage.cheating.daemons import told_about
from devnet.stage.cheating.lies import RightAnswers, ToldBatch, drawn_paths, told_with
from devnet.stage.measuring.ledger import EventTrace
from gpu_tasks.batches.leaf_draws import covers, leaves_to_check, weight_floor
from gpu_tasks.batches.requests import TOKEN, work_of
from gpu_tasks.batches.sum_tree import LeafPath, batch_root, before, leaf_claim, path_claim
from gpu_tasks.market.courts.cases import AUDIT_POT, JUDGE_SEAT
from gpu_tasks.market.courts.events import CaseEnded, CaseOpened, JudgeCharged, OpinionOpened
from gpu_tasks.market.courts.money import FIRST_JUDGES, SMALL_SET_PRICE_PERCENT, seat_hold
from gpu_tasks.market.devices.records import COLLATERAL
from gpu_tasks.market.inference.events import (
    ProviderSlashed,
    RaceMissed,
    UnitDisputed,
    UnitMatched,
    UnitRefunded,
    UnitRequeued,
    UnitSettled,
)
from gpu_tasks.market.leaf_checks.checks import (
    LEAF_BOND,
    LEAF_FEE,
    LEAF_SEAT,
    CheckOutcome,
    CheckTerms,
    ShownLeaf,
    check_case,
)
from gpu_tasks.market.leaf_checks.events import (
    AuditorDrawn,
    AuditorSilent,
    LeafCheckEnded,
    LeafDoubted,
    LeavesDrawn,
    LeavesPassed,
    LeavesShown,
)
from gpu_tasks.market.leaf_checks.proofs import leaves_proof
from runtime.frame.holds import HoldReason
from runtime.pallets.staking.trust_lock import Locked, Paid, Unlocked


class BatchCustomer(Enum):
    """The customer's behaviour when it may dispute a leaf."""

    SILENT = auto()
    LOOKS = auto()
    """Disputes a leaf that is wrong, with `ogpu unit dispute`."""
    LIES = auto()
    """Disputes a right leaf."""


@dataclass(frozen=True, slots=True)
class BatchScene:
    """One batch, and the behaviour of its parties."""

    name: str
    title: str
    mode: str | None
    """The mode of the answering daemons. None if they are honest."""
    customer: BatchCustomer = BatchCustomer.SILENT
    racers: int = 1
    others: str | None = None
    """The mode of all other daemons, which audit and judge."""

    @property
    def hides(self) -> bool:
        """True if the answerers show no leaf."""
        return self.mode == HIDING

    @property
    def are_lazy(self) -> bool:
        """True if the auditors pass without computing."""
        return self.others == LAZY


_LOOKS = BatchCustomer.LOOKS
SCENES = (
    BatchScene("one-wrong", "one answer is wrong", "one-wrong", _LOOKS),
    BatchScene("a-tenth-wrong", "a tenth of the answers is wrong", "a-tenth-wrong", _LOOKS),
    BatchScene("all-wrong", "all answers are wrong", "all-wrong", _LOOKS),
    BatchScene("made-up-sums", "totals that no leaves have", "made-up-sums"),
    BatchScene("made-up-tokens", "tokens beside a right leaf that has them not", "made-up-tokens"),
    BatchScene("padded", "answers that go on to all that is paid for", "padded", _LOOKS),
    BatchScene("cut-short", "half of each answer", "cut-short", _LOOKS),
    BatchScene("false-errors", "a fifth of good requests are said to be none", "false-errors", _LOOKS),
    BatchScene("withheld-leaves", "all answers are wrong, and no leaf is shown", HIDING),
    BatchScene("false-dispute", "the customer calls a right answer wrong", None, BatchCustomer.LIES),
    BatchScene("colluding-pair", "two give the same wrong answers", "all-wrong", _LOOKS, racers=2),
    BatchScene("lazy-about-wrong", "all answers are wrong, auditors pass all", "all-wrong", _LOOKS, others=LAZY),
    BatchScene("lazy-about-right", "answers are right, auditors do not look", LAZY, others=LAZY),
)


CASES_MAX = 8
"""The most cases of a check: each of three auditors may pass and be inspected, or doubt.

Then the customer may dispute.
"""
HoldEvent = Locked | Unlocked | Paid
UNEXPECTED = RaceMissed | UnitRequeued | UnitRefunded | UnitDisputed | AuditorSilent | JudgeCharged
"""Events that no scene contains."""


@dataclass(slots=True)
class CheckCase:
    """A case about a leaf, or about the proof of an auditor that passed."""

    opinions: list[OpinionOpened] = field(default_factory=list)
    ended: CaseEnded | None = None


@dataclass(slots=True)
class CheckTrace(EventTrace):
    """One batch, from its draw to the end of its check."""

    unit: bytes = field(kw_only=True)
    terms: CheckTerms | None = None
    """The terms of the check, read from the chain when leaves are drawn."""
    shown: tuple[ShownLeaf, ...] = ()
    """The drawn leaves, as the chain accepted them."""
    refused: list[str] = field(default_factory=list)
    """The chain's reasons for refusing calls of the scene."""

    def take(self, height: int, event: object) -> None:
        """Take an event of any unit in the block at this height."""
        about = getattr(event, "unit", None) or getattr(event, "case", None)
        if about == self.unit or about in [check_case(self.unit, number) for number in range(CASES_MAX)]:
            self.happened.append((height, event))

    @property
    def racers(self) -> tuple[bytes, ...]:
        """Its racers, once drawn."""
        drawn = self.events(UnitMatched)
        return drawn[-1].racers if drawn else ()

    @property
    def drawn(self) -> LeavesDrawn | None:
        """The draw of leaves, or None."""
        return next(iter(self.events(LeavesDrawn)), None)

    @property
    def auditors(self) -> list[bytes]:
        """Its auditors, in the order of their draws."""
        return [event.auditor for event in self.events(AuditorDrawn)]

    @property
    def ended(self) -> LeafCheckEnded | None:
        """The end of its check, or None."""
        return next(iter(self.events(LeafCheckEnded)), None)

    @property
    def ended_at(self) -> int:
        """The block at the end of its check, or 0."""
        return next((height for height, _ in self.all(LeafCheckEnded)), 0)

    def unexpected(self) -> list[str]:
        """Return each event that no scene contains, and each refusal."""
        found = [(height, event) for height, event in self.happened if isinstance(event, UNEXPECTED)]
        return [*(f"{type(event).__name__} in block {height}" for height, event in found), *self.refused]

    def doubt_of(self, who: bytes) -> LeafDoubted | None:
        """Return the doubt of an auditor or of the customer, or None."""
        return next((each for each in self.events(LeafDoubted) if each.doubt.doubter == who), None)

    def case(self, case_id: bytes) -> CheckCase:
        """Return a case of the batch."""
        opinions = [event for event in self.events(OpinionOpened) if event.case == case_id]
        return CheckCase(opinions, next((event for event in self.events(CaseEnded) if event.case == case_id), None))

    def watched_case(self, auditor: bytes) -> CheckCase | None:
        """Return the case about an auditor's proof, or None if the courts did not inspect it."""
        doubted, newest = {event.case for event in self.events(LeafDoubted)}, b""
        for _, event in self.happened:
            if isinstance(event, AuditorDrawn):
                newest = event.auditor
            elif isinstance(event, CaseOpened) and event.case not in doubted and newest == auditor:
                return self.case(event.case)
        return None


@dataclass(frozen=True, slots=True)
class BatchFacts:
    """One batch of a scene."""

    scene: BatchScene
    right: RightAnswers
    trace: CheckTrace
    lazy: frozenset[bytes] = frozenset()
    """The auditors that pass without computing."""

    @property
    def told(self) -> ToldBatch:
        """The racers' statement in this scene, computed from the right answers."""
        lie = LIES.get(self.scene.mode or "")
        return told_with(self.right, {}) if lie is None else told_about(lie, self.right)

    def drawn(self) -> list[LeafPath | None]:
        """Return the path to show for each point that the beacon drew, or None if there is no path."""
        drawn, terms = self.trace.drawn, self.terms
        assert drawn is not None, "a batch that is settled has leaves drawn"
        return drawn_paths(self.told, drawn.seed, self.trace.unit, _floor(terms), terms.input_share)

    def shown(self) -> tuple[ShownLeaf, ...]:
        """Return each drawn leaf once. Return none if a point has no path or the answerer withholds all."""
        drawn = self.drawn()
        paths = [path for path in drawn if path is not None]
        if self.scene.hides or len(paths) < len(drawn):
            return ()
        return tuple(dict.fromkeys(ShownLeaf(path.index, path_claim(path)) for path in paths))

    def is_right(self, leaf: ShownLeaf) -> bool:
        """Return whether recomputing the leaf confirms its claim."""
        return leaf.claim == self.right_claim(leaf.index)

    def right_claim(self, index: int) -> bytes:
        """Return the right claim about a leaf."""
        return leaf_claim(index, self.right.leaves[index])

    def wrong_outputs(self) -> list[int]:
        """Return the leaves with false outputs, which the customer can find."""
        pairs = enumerate(zip(self.told.outcomes, self.right.outcomes, strict=True))
        return [index for index, (said, true) in pairs if said != true]

    def right_proof(self, auditor: bytes) -> bytes:
        """Return the proof of an auditor that has computed the drawn leaves and found them right."""
        right, leaves = self.right, self.right.leaves
        digests = [leaves[leaf.index].digest for leaf in self.shown()]
        return leaves_proof(right.genesis, right.unit, auditor, right.salt, digests)

    def chance(self) -> Fraction:
        """Return the chance that some drawn point hits a lie or a leaf that cannot be shown."""
        if self.scene.hides:
            return Fraction(1)
        terms, totals, told = self.terms, self.told.totals, self.told
        floor, share = _floor(terms), terms.input_share
        sound = 0
        for path in told.paths:
            weight = work_of(share, path.tokens_in, path.tokens_out + floor)
            start = work_of(share, *_before(told, path, floor))
            holds = covers(totals, floor, path, start, input_share=share)
            sound += weight if holds and path_claim(path) == self.right_claim(path.index) else 0
        line = work_of(share, totals.tokens_in, totals.tokens_out) + totals.requests * floor * TOKEN
        return 1 - Fraction(sound, line) ** leaves_to_check(totals.requests)

    @property
    def terms(self) -> CheckTerms:
        """The terms of the check."""
        assert self.trace.terms is not None, "a batch that is settled has a check"
        return self.trace.terms


def _floor(terms: CheckTerms) -> int:
    return weight_floor(terms.allowed, terms.requests)


def _before(told: ToldBatch, path: LeafPath, floor: int) -> tuple[int, int]:
    """Return the tokens in, and the tokens out with each leaf's floor, of all leaves before a path's leaf."""
    tokens_in, tokens_out = before(told.totals, path)
    return tokens_in, tokens_out + path.index * floor


IN_OFFICE = 6
"""The validators of the devnet. All have the same stake."""
REASONS = (COLLATERAL, LEAF_SEAT, LEAF_BOND, LEAF_FEE, JUDGE_SEAT)
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
        own = {who for who, _ in self.purses}
        return Counter({payee: due for payee, due in self.dues.items() if payee not in own})

    def lost(self) -> int:
        """Return the payers' total loss."""
        return sum(self.to_others().values())


def purse(who: bytes, reason: HoldReason) -> CheckPurse:
    """Return an account's hold for the batch or for a case of it."""
    return who, reason.name


def lies_paid(
    case: CheckCase, liars: Sequence[tuple[CheckPurse, int]], customer: bytes, price: int, fee: int
) -> CheckPayment:
    """Return the liars' payment: to the judges of the verdict, then the price to the customer. The rest burns.

    If these judges are more than a third of the validators, the liars lose their whole holds. Otherwise they lose at
    most price, fees and a fourth of the price.
    """
    assert case.ended is not None, "the case is over"
    right = [said.judge for said in case.opinions if said.statement.opinion == case.ended.verdict]
    cap = price + fee * len(right) + -(-price * SMALL_SET_PRICE_PERCENT // 100)
    whole = len(right) * 3 > IN_OFFICE
    left = sum(held if whole else min(held, cap) for _, held in liars)
    dues: Counter[CheckPayee] = Counter()
    for payee, due in [*((judge, fee) for judge in right), (customer, price)]:
        dues[payee] += min(left, due)
        left -= min(left, due)
    dues[None] += left
    return CheckPayment(tuple(each for each, _ in liars), +dues)


def withheld_paid(terms: CheckTerms) -> CheckPayment:
    """Return the payment of an answerer that showed nothing: the price to the customer. The rest burns."""
    held = sum(each.held for each in terms.answerers)
    dues: Counter[CheckPayee] = Counter({terms.customer: min(held, terms.price), None: max(0, held - terms.price)})
    return CheckPayment(answerers(terms), +dues)


def fee_paid(terms: CheckTerms, earner: bytes | None) -> CheckPayment:
    """Return the payment of the audit fee: to the auditor with the upheld opinion, else to the audit pot."""
    return CheckPayment((purse(terms.customer, LEAF_FEE),), Counter({earner or AUDIT_POT: terms.fee}))


def answerers(terms: CheckTerms) -> tuple[CheckPurse, ...]:
    """Return the holds that secure the result."""
    return tuple(purse(each.account, COLLATERAL) for each in terms.answerers)


def wrong_sums(trace: CheckTrace, payments: Sequence[CheckPayment]) -> Iterator[str]:
    """Yield each difference between the batch's payments and the required ones, and each payment beside them."""
    paid = paid_of(trace)
    for payment in payments:
        found: Counter[CheckPayee] = Counter()
        for each in payment.purses:
            found += paid.get(each, Counter())
        dues = payment.to_others()
        if found != dues:
            yield f"{_named_purses(payment.purses)} paid {_shown_dues(found)}, and not {_shown_dues(dues)}"
    allowed = {each for payment in payments for each in payment.purses}
    for each, found in paid.items():
        if each not in allowed and found:
            yield f"{_named_purses([each])} paid {_shown_dues(found)}, and did nothing wrong"
    yield from _left_behind(trace)


def paid_of(trace: CheckTrace) -> dict[CheckPurse, Counter[CheckPayee]]:
    """Return the payments from holds of the batch and its cases, by payer and payee."""
    paid: dict[CheckPurse, Counter[CheckPayee]] = {}
    names = {reason.name for reason in REASONS}
    for event in trace.events(Paid):
        if event.reason.name in names:
            paid.setdefault((event.who, event.reason.name), Counter())[event.payee] += event.amount
    return paid


def lost_by(trace: CheckTrace, who: Iterable[CheckPurse]) -> int:
    """Return the total payments from these holds."""
    paid = paid_of(trace)
    return sum(sum(paid.get(each, Counter()).values()) for each in who)


def _left_behind(trace: CheckTrace) -> Iterator[str]:
    """Yield each seat or bond that is still locked."""
    balances: Counter[CheckPurse] = Counter()
    for _, event in trace.happened:
        if isinstance(event, HoldEvent) and event.reason.name in (LEAF_SEAT.name, LEAF_BOND.name, JUDGE_SEAT.name):
            balances[event.who, event.reason.name] += event.amount if isinstance(event, Locked) else -event.amount
    for each, left in balances.items():
        if left:
            yield f"{left} grains of {_named_purses([each])} are left behind"


def _named_purses(purses: Sequence[CheckPurse]) -> str:
    return ", ".join(f"{who.hex()[:8]} ({reason})" for who, reason in purses)


def _shown_dues(dues: Counter[CheckPayee]) -> dict[str, int]:
    return {"burned" if payee is None else payee.hex()[:8]: amount for payee, amount in dues.items()}


PPM = 1_000_000


@dataclass(slots=True)
class Expected:
    """The required end of a batch's check, and its costs."""

    outcome: CheckOutcome = CheckOutcome.UNLOOKED
    earner: bytes | None = None
    """The auditor with the upheld opinion."""
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


def expected_of(facts: BatchFacts) -> Expected:
    """Return the required end of the check, given the draws of auditors and of inspected proofs."""
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
    """Return the figures of one batch."""
    made, trace = expected_of(facts), facts.trace
    guilty = [who for who, _ in made.guilty]
    settled_at = next((height for height, _ in trace.all(UnitSettled)), trace.ended_at)
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
    """Return a sentence for each failed requirement."""
    trace = facts.trace
    if trace.ended is None or trace.terms is None:
        return [f"its check has not ended: {', '.join(trace.unexpected())}"]
    made = expected_of(facts)
    found = [f"nobody should have had it: {what}" for what in trace.unexpected()]
    found += [*_of_answers(facts), *made.wrong_words]
    return [*found, *_of_the_end(facts, made), *wrong_sums(trace, made.payments)]


def _audit(made: Expected, facts: BatchFacts, auditor: bytes) -> None:
    """Add the required opinion of one auditor, and its consequence."""
    trace, terms = facts.trace, facts.terms
    wrong = [leaf for leaf in facts.shown() if not facts.is_right(leaf)]
    is_lazy = auditor in facts.lazy
    if wrong and not is_lazy:
        doubted, claim = trace.doubt_of(auditor), facts.right_claim(wrong[0].index)
        if doubted is None or (doubted.doubt.shown, doubted.doubt.found) != (wrong[0], claim):
            made.wrong_words.append(f"an auditor should have doubted leaf {wrong[0].index}, and said {doubted}")
            return
        _refute(made, facts, trace.case(doubted.case), _liars(terms))
        made.earner, made.found_by = auditor, "its auditor, by a drawn leaf"
        return
    proof = next((event.proof for event in trace.events(LeavesPassed) if event.auditor == auditor), None)
    if proof is None or (proof == facts.right_proof(auditor)) == is_lazy:
        made.wrong_words.append(f"an auditor passed with {'a right proof' if proof else 'nothing'}")
    case = trace.watched_case(auditor)
    if is_lazy and case is not None:
        seat = [(purse(auditor, LEAF_SEAT), seat_hold(terms.collateral, terms.fee))]
        made.guilty += seat
        made.payments.append(lies_paid(case, seat, terms.customer, terms.fee, terms.fee))
        made.found_by = "the courts, which looked at a proof"
        return
    made.earner, made.outcome = auditor, CheckOutcome.PASSED


def _customer(made: Expected, facts: BatchFacts) -> None:
    """Add the required dispute of the customer, after all auditors, and its consequence."""
    trace, terms, scene = facts.trace, facts.terms, facts.scene
    doubted = trace.doubt_of(terms.customer)
    doubt = None if doubted is None else doubted.doubt
    may_find = scene.customer is BatchCustomer.LOOKS and bool(facts.wrong_outputs())
    if (doubt is not None) != (may_find or scene.customer is BatchCustomer.LIES):
        made.wrong_words.append(f"its customer disputed {doubt}")
    if doubted is None or doubt is None:
        return
    case = trace.case(doubted.case)
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
    """Yield each difference between the scene's statement and the settled result or the shown leaves."""
    trace, told = facts.trace, facts.told
    settled = trace.events(UnitSettled)
    if len(settled) != 1:
        yield f"it was settled {len(settled)} times"
    for event in settled:
        if event.output_root != batch_root(told.totals):
            yield "another result was settled than this scene states"
        if event.winner not in trace.racers:
            yield "somebody else was paid"
    if trace.shown != facts.shown() or len(trace.all(LeavesShown)) != bool(facts.shown()):
        yield f"the leaves {[leaf.index for leaf in trace.shown]} were shown, and not {facts.shown()}"


def _of_the_end(facts: BatchFacts, made: Expected) -> Iterator[str]:
    trace, terms = facts.trace, facts.terms
    assert trace.ended is not None, "looked at before"
    if (trace.ended.outcome, trace.ended.earner) != (made.outcome, made.earner):
        yield f"its check ended {trace.ended}, and not {made.outcome.name} with {made.earner!r}"
    is_lost = made.outcome in (CheckOutcome.REFUTED, CheckOutcome.WITHHELD)
    lost = sorted(slash.provider for slash in trace.events(ProviderSlashed))
    if lost != (sorted(who for who, _ in answerers(terms)) if is_lost else []):
        yield f"{len(lost)} of {len(trace.racers)} who answered lost what they held"


def _liars(terms: CheckTerms) -> list[tuple[CheckPurse, int]]:
    held = [each.held for each in terms.answerers]
    return list(zip(answerers(terms), held, strict=True))
