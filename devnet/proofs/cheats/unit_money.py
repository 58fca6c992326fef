"""The payments of a unit by the money tables, computed again from its events and from the modes of its parties.

Invariant: the truth about a result or a check comes from the modes of their authors, and never from the chain's
decision. So a wrong decision gives other payments than these. The devnet has fewer than nine voters: a dispute has one
round, in which all eligible validators vote.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from devnet.stage.cheating.__main__ import DEAF_MODE, FALSE_MODES, LIES_BY_MODE, MODEL_CHEATS
from devnet.stage.cheating.daemons import lie_about_batch
from devnet.stage.cheating.lies import RightAnswers, ToldBatch, batch_with
from devnet.stage.measuring.ledger import UnitRecord
from gpu_tasks.batches.outcomes import BatchOutcome
from gpu_tasks.market.claims import claim_closing as closing
from gpu_tasks.market.claims.claim_events import (
    CheckEnded,
    CheckerDrawn,
    ClaimEnded,
    ItemDisputed,
    PointsDrawn,
    SamplesShown,
)
from gpu_tasks.market.claims.claims import CHECKER_BOND, DISPUTE_BOND, CheckEnd, ClaimOutcome, ResultClaim
from gpu_tasks.market.claims.collateral import finder_reward
from gpu_tasks.market.claims.dispute_events import DisputeEnded, VoteOpened, VotersDrawn
from gpu_tasks.market.claims.disputes import SEATS, DisputeQuestion
from gpu_tasks.market.claims.draws import beacon_heights
from gpu_tasks.market.claims.findings import ItemVote, Samples
from gpu_tasks.market.claims.money import EventMoney, MoneyEvent, Payee, Purse, settle
from gpu_tasks.market.claims.voting import agrees
from gpu_tasks.market.devices.records import COLLATERAL
from gpu_tasks.market.inference import money
from gpu_tasks.market.inference.events import (
    RaceMissed,
    ResultClaimed,
    ResultCommitted,
    UnitDisputed,
    UnitMatched,
    UnitSettled,
)
from gpu_tasks.market.inference.gpu_tasks_api import UnitStatus
from gpu_tasks.market.inference.units import UNIT_MONEY, Racer, Unit, racer_of, revealed_root
from gpu_tasks.market.leaf_disputes.events import TreeWithheld
from runtime.frame.holds import HoldReason
from runtime.pallets.pots import TREASURY
from runtime.pallets.staking.slashing import part

REASONS: Mapping[Purse, HoldReason] = {
    Purse.CUSTOMER: UNIT_MONEY,
    Purse.FORFEITED: CHECKER_BOND,
    Purse.PROVIDER: COLLATERAL,
    Purse.CHECKER: CHECKER_BOND,
    Purse.DISPUTER: DISPUTE_BOND,
}
READ_AT = (UnitMatched, UnitDisputed, ResultClaimed)
"""The events in whose blocks the unit's records are read."""
HoldPayment = tuple[bytes, str, bytes | None]
"""A payer, the name of its hold, and the payee, or None for burned grains."""


@dataclass(slots=True)
class UnitFacts:
    """One unit of a scene: its events, its parties' modes, and its records on the chain."""

    right: RightAnswers
    modes: Mapping[bytes, str]
    """The mode of each cheating stash."""
    told: Mapping[str, tuple[BatchOutcome, ...]] = field(default_factory=dict)
    """The outcomes of wrong models, by mode."""
    record: UnitRecord = field(default_factory=UnitRecord)
    matched: Unit | None = None
    disputed: Unit | None = None
    """The unit when its racers' results differed."""
    claimed: Unit | None = None
    claim: ResultClaim | None = None
    """The claim at its opening."""

    def read(self, event: object, status: UnitStatus) -> None:
        """Keep the unit as it is after the block of one of `READ_AT`."""
        match event:
            case UnitMatched():
                self.matched = status.unit
            case UnitDisputed():
                self.disputed = status.unit
            case ResultClaimed():
                self.claimed, self.claim = status.unit, status.claim
            case _:
                raise AssertionError("payments depend on no record at this event")

    def told_by(self, mode: str) -> ToldBatch:
        """Return the result that a cheat states."""
        if mode in LIES_BY_MODE:
            return lie_about_batch(LIES_BY_MODE[mode], self.right)
        return batch_with(self.right, dict(enumerate(self.told.get(mode, self.right.outcomes))))

    def is_false(self, owner: bytes) -> bool:
        """Return True if a racer states a false result, or withholds its items or its samples."""
        mode = self.modes.get(owner, "")
        if mode in MODEL_CHEATS:
            return self.told_by(mode).outcomes != self.right.outcomes
        return mode in FALSE_MODES

    @property
    def winner(self) -> bytes:
        """The provider of the claim."""
        return self.record.events(ResultClaimed)[-1].winner


@dataclass(slots=True)
class CheckMoney:
    """The money of one check."""

    checker: bytes
    held: int
    shown: Samples = ()
    fee: int = 0
    end: CheckEnd = CheckEnd.OPEN


@dataclass(slots=True)
class ExpectedMoney:
    """The payments that the tables state for the events of a unit."""

    facts: UnitFacts
    payments: Counter[HoldPayment] = field(default_factory=Counter)
    events: list[MoneyEvent] = field(default_factory=list)
    """The events of the table of claims, in order."""
    checks: list[CheckMoney] = field(default_factory=list)
    charged: int = 0
    """The spent part of the winner's collateral."""
    fees_paid: int = 0
    votes: dict[bytes, dict[bytes, ItemVote | None]] = field(default_factory=dict)
    """The vote of each voter by dispute, in the order in which voters are paid."""
    is_ruled: bool = False
    """True between a ruling about a check and the end of that check."""
    is_claimed: bool = False
    disputed_at: int = 0
    is_by_customer: bool = False

    @classmethod
    def of(cls, facts: UnitFacts) -> ExpectedMoney:
        """Return the payments of a unit that has ended."""
        expected = cls(facts)
        for height, event in facts.record.happened:
            expected.take(height, event)
        return expected

    def take(self, height: int, event: object) -> None:
        """Note an event, and add its payments."""
        match event:
            case ResultClaimed():
                self.is_claimed = True
            case PointsDrawn():
                self.facts.claim = replace(self._claim, points=event.points)
            case CheckerDrawn():
                self.checks.append(CheckMoney(event.checker, event.held))
            case SamplesShown():
                self.checks[event.check].shown = event.samples
            case ItemDisputed():
                self.disputed_at, self.is_by_customer = height, event.point is None
            case VotersDrawn():
                self.votes[event.dispute] = dict.fromkeys(event.voters)
            case VoteOpened():
                self.votes[event.dispute][event.voter] = event.vote
            case _:
                self._charge(event)

    def _charge(self, event: object) -> None:
        match event:
            case DisputeEnded():
                self._rule(event)
            case CheckEnded():
                self._end_check(self.checks[event.check], event.end)
            case ClaimEnded():
                self._end_claim(event.outcome)
            case TreeWithheld():
                self._burn_tree(event.root)
            case RaceMissed():
                self._fine(event.provider)
            case UnitSettled():
                self._settle(event)
            case _:
                pass

    # ------------------------------------------------------------------------------------------------------ the rulings

    def _rule(self, event: DisputeEnded) -> None:
        if event.vote is None:
            return
        question = DisputeQuestion.ITEM if self.is_claimed else DisputeQuestion.SIDES
        votes = self.votes[event.dispute].items()
        voters = tuple(voter for voter, vote in votes if vote is not None and agrees(vote, event.vote, question))
        if not self.is_claimed:
            self._pay(MoneyEvent.PROVIDER_FALSE, {Purse.PROVIDER: self._false_sides()}, {Payee.VOTERS: voters})
        elif self.is_by_customer:
            self._rule_for_customer(voters)
        else:
            self._rule_about_check(voters)

    def _rule_for_customer(self, voters: tuple[bytes, ...]) -> None:
        claim, payees = self._claim, {Payee.VOTERS: voters}
        if self.facts.is_false(self.facts.winner):
            # Only a dispute before the first beacon is rewarded.
            if self.disputed_at < beacon_heights(claim.recorded_at)[0]:
                payees[Payee.FINDER] = (claim.terms.customer,)
            self._pay(MoneyEvent.PROVIDER_FALSE, {Purse.PROVIDER: self._winner_purse()}, payees)
        else:
            bond = SEATS * closing.vote_fee(claim.terms) + finder_reward(claim.terms.collateral)
            self._pay(MoneyEvent.FALSE_DISPUTE, {Purse.DISPUTER: ((claim.terms.customer, bond),)}, payees)

    def _rule_about_check(self, voters: tuple[bytes, ...]) -> None:
        check, payees = self.checks[-1], {Payee.VOTERS: voters}
        is_open = check.end is CheckEnd.OPEN
        payers = {Purse.PROVIDER: self._winner_purse(), Purse.CHECKER: ((check.checker, check.held),)}
        self.is_ruled = is_open
        if self.facts.is_false(self.facts.winner):
            payees |= {Payee.FINDER: (check.checker,)} if is_open else {}
            # They passed before, with the samples that the provider invented.
            passed = tuple((each.checker, each.held) for each in self.checks if each.end is CheckEnd.PASSED)
            event = MoneyEvent.BOTH_FALSE if passed else MoneyEvent.PROVIDER_FALSE
            self._pay(event, payers | {Purse.CHECKER: passed}, payees)
        elif not is_open:
            # Voters computed in the place of the last checker.
            self._pay(MoneyEvent.PASSED, {Purse.FORFEITED: self._forfeited()}, payees)
        elif self.facts.modes.get(check.checker) == DEAF_MODE:
            self._pay(MoneyEvent.FETCHED, payers, payees)
        else:
            payees[Payee.PROVIDER] = (self.facts.winner,)
            self._pay(MoneyEvent.CHECKER_FALSE, payers, payees, fee=closing.expected_fee(self._claim))

    def _false_sides(self) -> tuple[tuple[bytes, int], ...]:
        disputed = self.facts.disputed
        assert disputed is not None, "voters decide about a disputed unit"
        revealed = (racer for racer in disputed.racers if racer.reveal is not None)
        return tuple((racer.owner, racer.collateral) for racer in revealed if self.facts.is_false(racer.owner))

    # ------------------------------------------------------------------------------------------------- checks and claim

    def _end_check(self, check: CheckMoney, end: CheckEnd) -> None:
        check.end = end
        fee = closing.expected_fee(self._claim)
        checker, winner = {Purse.CHECKER: ((check.checker, check.held),)}, (self.facts.winner,)
        match end:
            case CheckEnd.PASSED:
                check.fee = closing.fee_of_samples(self._claim.terms, check.shown)
            case CheckEnd.SILENT | CheckEnd.CONCEDED:
                event = MoneyEvent.SILENT if end is CheckEnd.SILENT else MoneyEvent.CONCEDED
                payees = {Payee.PROVIDER: winner, Payee.REPLACEMENTS: (closing.KEPT,)}
                self._pay(event, checker, payees, fee=fee)
                check.held = min(fee, check.held)
            case CheckEnd.UNOPENED:
                self._pay(MoneyEvent.UNOPENED, checker, {Payee.PROVIDER: winner}, fee=fee)
            case CheckEnd.UPHELD if not self.is_ruled:
                # The provider showed no samples.
                purse = {Purse.PROVIDER: self._winner_purse()}
                self._pay(MoneyEvent.PROVIDER_FALSE, purse, {Payee.FINDER: (check.checker,)})
        self.is_ruled = False

    def _end_claim(self, outcome: ClaimOutcome) -> None:
        terms = self._claim.terms
        for check in self.checks if outcome is ClaimOutcome.PASSED else ():
            if check.end is CheckEnd.PASSED:
                customer = ((terms.customer, terms.fees_held - self.fees_paid),)
                payers = {Purse.FORFEITED: self._forfeited(), Purse.CUSTOMER: customer}
                self._pay(MoneyEvent.PASSED, payers, {Payee.CHECKER: (check.checker,)}, fee=check.fee)
        self._pay(MoneyEvent.ENDED, {Purse.FORFEITED: self._forfeited()}, {})

    @property
    def _claim(self) -> ResultClaim:
        assert self.facts.claim is not None, "the unit has a claim"
        return self.facts.claim

    def _winner_purse(self) -> tuple[tuple[bytes, int], ...]:
        return ((self.facts.winner, self._claim.terms.collateral - self.charged),)

    def _forfeited(self) -> tuple[tuple[bytes, int], ...]:
        return tuple((check.checker, check.held) for check in self.checks if check.end in closing.FORFEITING)

    def _pay(
        self,
        event: MoneyEvent,
        payers: Mapping[Purse, tuple[tuple[bytes, int], ...]],
        payees: Mapping[Payee, tuple[bytes, ...]],
        *,
        fee: int = 0,
    ) -> None:
        if self.is_claimed:
            vote_fee, collateral = closing.vote_fee(self._claim.terms), self._claim.terms.collateral
        else:
            disputed = self.facts.disputed
            assert disputed is not None, "a dispute without a claim is about a disputed unit"
            vote_fee, collateral = money.check_fee_max(disputed.rules, disputed.price), money.collateral_of(disputed)
        self.events.append(event)
        for flow in settle(event, EventMoney(fee, vote_fee, collateral, dict(payers), dict(payees))):
            if flow.payee == closing.KEPT:
                continue
            self.charged += flow.amount if flow.purse is Purse.PROVIDER and self.is_claimed else 0
            self.fees_paid += flow.amount if flow.purse is Purse.CUSTOMER else 0
            for check in self.checks:
                if flow.purse in (Purse.CHECKER, Purse.FORFEITED) and check.checker == flow.source:
                    check.held -= flow.amount
            self._add(flow.source, REASONS[flow.purse], flow.payee, flow.amount)

    def _add(self, payer: bytes, reason: HoldReason, payee: bytes | None, grains: int) -> None:
        # A payment to its own payer only releases the money.
        if payee != payer and grains:
            self.payments[payer, reason.name, payee] += grains

    # ---------------------------------------------------------------------------------------------- races and the price

    def _burn_tree(self, root: bytes) -> None:
        disputed = self.facts.disputed
        assert disputed is not None, "trees are shown in a dispute"
        for racer in disputed.racers:
            if revealed_root(racer) == root:
                self._add(racer.owner, COLLATERAL, None, racer.collateral)

    def _fine(self, owner: bytes) -> None:
        matched = self.facts.matched
        assert matched is not None, "a racer that missed was drawn"
        collateral = money.collateral_of(matched)
        has_committed = any(event.provider == owner for event in self.facts.record.events(ResultCommitted))
        if has_committed:
            fine = min(part(matched.price, matched.rules.withheld_penalty), collateral)
        else:
            fine = part(collateral, matched.rules.idle_penalty)
        self._add(owner, COLLATERAL, None, fine)

    def _settle(self, event: UnitSettled) -> None:
        claimed = self.facts.claimed
        assert claimed is not None, "a paid result was claimed"
        winner = racer_of(claimed, event.winner)
        assert winner is not None, "a racer is paid"
        witness: Racer | None = None if event.witness is None else racer_of(claimed, event.witness)
        held_grains = claimed.escrow + claimed.bond - self.fees_paid
        for share in money.settlement(claimed, held_grains, winner=winner, witness=witness, treasury=TREASURY):
            self._add(claimed.customer, UNIT_MONEY, share.payee, share.amount)
