"""The scenes about batches, and the trace of a batch in final blocks, from its draw to the end of its check."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from fractions import Fraction

from devnet.stage.cheating.__main__ import HIDING_MODE, LAZY_MODE, LIES_BY_MODE
from devnet.stage.cheating.daemons import lie_about_batch
from devnet.stage.cheating.lies import BatchLie, RightAnswers, ToldBatch, batch_with, drawn_paths
from devnet.stage.measuring.ledger import EventTrace
from gpu_tasks.batches.leaf_draws import covers, leaves_to_check, weight_floor
from gpu_tasks.batches.requests import TOKEN, work_of
from gpu_tasks.batches.sum_tree import LeafPath, before, leaf_claim, path_claim
from gpu_tasks.market.courts.events import CaseEnded, CaseOpened, JudgeCharged, OpinionOpened
from gpu_tasks.market.inference.events import RaceMissed, UnitDisputed, UnitMatched, UnitRefunded, UnitRequeued
from gpu_tasks.market.leaf_checks.checks import CheckTerms, ShownLeaf, check_case
from gpu_tasks.market.leaf_checks.events import AuditorDrawn, AuditorSilent, LeafCheckEnded, LeafDoubted, LeavesDrawn
from gpu_tasks.market.leaf_checks.proofs import leaves_proof
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
        return self.mode == HIDING_MODE

    @property
    def are_lazy(self) -> bool:
        """True if the auditors pass without computing."""
        return self.others == LAZY_MODE


_LOOKING_CUSTOMER = BatchCustomer.LOOKS
BATCH_SCENES = (
    BatchScene("one-wrong", "one answer is wrong", "one-wrong", _LOOKING_CUSTOMER),
    BatchScene("a-tenth-wrong", "a tenth of the answers is wrong", "a-tenth-wrong", _LOOKING_CUSTOMER),
    BatchScene("all-wrong", "all answers are wrong", "all-wrong", _LOOKING_CUSTOMER),
    BatchScene("made-up-sums", "totals that no leaves have", "made-up-sums"),
    BatchScene("made-up-tokens", "tokens beside a right leaf that has them not", "made-up-tokens"),
    BatchScene("padded", "answers that go on to all that is paid for", "padded", _LOOKING_CUSTOMER),
    BatchScene("cut-short", "half of each answer", "cut-short", _LOOKING_CUSTOMER),
    BatchScene("false-errors", "a fifth of the valid requests are called invalid", "false-errors", _LOOKING_CUSTOMER),
    BatchScene("withheld-leaves", "all answers are wrong, and no leaf is shown", HIDING_MODE),
    BatchScene("false-dispute", "the customer calls a right answer wrong", None, BatchCustomer.LIES),
    BatchScene("colluding-pair", "two give the same wrong answers", "all-wrong", _LOOKING_CUSTOMER, racers=2),
    BatchScene(
        "lazy-about-wrong", "all answers are wrong, auditors pass all", "all-wrong", _LOOKING_CUSTOMER, others=LAZY_MODE
    ),
    BatchScene("lazy-about-right", "answers are right, auditors do not look", LAZY_MODE, others=LAZY_MODE),
)


# The most cases of a check: each of three auditors may pass and be inspected, or doubt. Then the customer may
# dispute.
CASES_MAX = 8
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
        subject = getattr(event, "unit", None) or getattr(event, "case", None)
        if subject == self.unit or subject in [check_case(self.unit, number) for number in range(CASES_MAX)]:
            self.happened.append((height, event))

    @property
    def racers(self) -> tuple[bytes, ...]:
        """Its racers, once drawn."""
        draws = self.events(UnitMatched)
        return draws[-1].racers if draws else ()

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
        events = [(height, event) for height, event in self.happened if isinstance(event, UNEXPECTED)]
        return [*(f"{type(event).__name__} in block {height}" for height, event in events), *self.refused]

    def doubt_of(self, account: bytes) -> LeafDoubted | None:
        """Return the doubt of an auditor or of the customer, or None."""
        return next((doubt for doubt in self.events(LeafDoubted) if doubt.doubt.doubter == account), None)

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
    lie: BatchLie | None = None
    """The statement of wrong workers. None if the scene's mode gives it."""

    @property
    def told(self) -> ToldBatch:
        """The racers' statement in this scene, computed from the right answers."""
        lie = self.lie or LIES_BY_MODE.get(self.scene.mode or "")
        return batch_with(self.right, {}) if lie is None else lie_about_batch(lie, self.right)

    def drawn(self) -> list[LeafPath | None]:
        """Return the path to show for each point that the beacon drew, or None if there is no path."""
        draw, terms = self.trace.drawn, self.terms
        assert draw is not None, "a batch that is settled has leaves drawn"
        return drawn_paths(self.told, draw.seed, self.trace.unit, _leaf_floor(terms), terms.input_share)

    def shown(self) -> tuple[ShownLeaf, ...]:
        """Return each drawn leaf once. Return none if a point has no path or the answerer withholds all."""
        paths = self.drawn()
        if self.scene.hides or None in paths:
            return ()
        return tuple(dict.fromkeys(ShownLeaf(path.index, path_claim(path)) for path in paths if path is not None))

    def is_right(self, leaf: ShownLeaf) -> bool:
        """Return whether recomputing the leaf confirms its claim."""
        return leaf.claim == self.right_claim(leaf.index)

    def right_claim(self, index: int) -> bytes:
        """Return the right claim about a leaf."""
        return leaf_claim(index, self.right.leaves[index])

    def wrong_outputs(self) -> list[int]:
        """Return the leaves with false outputs, which the customer can find."""
        pairs = enumerate(zip(self.told.outcomes, self.right.outcomes, strict=True))
        return [index for index, (stated, right) in pairs if stated != right]

    def right_proof(self, auditor: bytes) -> bytes:
        """Return the proof of an auditor that has computed the drawn leaves and found them right."""
        right_answers, right_leaves = self.right, self.right.leaves
        digests = [right_leaves[leaf.index].digest for leaf in self.shown()]
        return leaves_proof(right_answers.genesis, right_answers.unit, auditor, right_answers.salt, digests)

    def chance(self) -> Fraction:
        """Return the chance that some drawn point hits a lie or a leaf that cannot be shown."""
        if self.scene.hides:
            return Fraction(1)
        terms, totals, batch = self.terms, self.told.totals, self.told
        floor, input_share = _leaf_floor(terms), terms.input_share
        sound = 0
        # A leaf whose claim is right protects the lie only as far as its path covers the drawn points.
        for path in batch.paths:
            work = work_of(input_share, path.tokens_in, path.tokens_out + floor)
            work_before = work_of(input_share, *_tokens_before(batch, path, floor))
            covered = covers(totals, floor, path, work_before, input_share=input_share)
            sound += work if covered and path_claim(path) == self.right_claim(path.index) else 0
        total = work_of(input_share, totals.tokens_in, totals.tokens_out) + totals.requests * floor * TOKEN
        return 1 - Fraction(sound, total) ** leaves_to_check(totals.requests)

    @property
    def terms(self) -> CheckTerms:
        """The terms of the check."""
        assert self.trace.terms is not None, "a batch that is settled has a check"
        return self.trace.terms


def _leaf_floor(terms: CheckTerms) -> int:
    return weight_floor(terms.allowed, terms.requests)


def _tokens_before(batch: ToldBatch, path: LeafPath, floor: int) -> tuple[int, int]:
    """Return the tokens in, and the tokens out with each leaf's floor, of all leaves before a path's leaf."""
    tokens_in, tokens_out = before(batch.totals, path)
    return tokens_in, tokens_out + path.index * floor
