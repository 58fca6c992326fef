"""The payments of a claim by the money table, computed again from its events.

Invariant: the truth about a result or a check comes from the modes of their authors, and never from the chain's
decision. So a wrong decision gives other payments than these. A dispute has one round of votes here: on a devnet of
fewer than nine voters all of them vote at once, and nobody appeals.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, NamedTuple

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
from gpu_tasks.market.claims.disputes import SEATS, VOTER_BOND, DisputeQuestion
from gpu_tasks.market.claims.draws import beacon_heights
from gpu_tasks.market.claims.findings import ItemVote, Samples
from gpu_tasks.market.claims.money import EventMoney, MoneyEvent, Payee, Purse, settle
from gpu_tasks.market.claims.voting import agrees, charged
from runtime.frame.holds import HoldReason

BOND_REASONS: Mapping[Purse, HoldReason] = {
    Purse.FORFEITED: CHECKER_BOND,
    Purse.CHECKER: CHECKER_BOND,
    Purse.DISPUTER: DISPUTE_BOND,
}
"""The holds of checkers and disputers. Those of providers and customers belong to their market."""
HoldersMoney = tuple[tuple[bytes, int], ...]
Votes = dict[bytes, ItemVote | None]
HoldPayment = tuple[bytes, str, bytes | None]
"""A payer, the name of its hold, and the payee, or None for burned grains."""


class HoldFlow(NamedTuple):
    """Grains that leave a hold, to a payee or burned."""

    payer: bytes
    reason: str
    payee: bytes | None
    grains: int


@dataclass(slots=True)
class CheckMoney:
    """The money of one check."""

    checker: bytes
    held: int
    shown: Samples = ()
    fee: int = 0
    end: CheckEnd = CheckEnd.OPEN


def agreeing(votes: Votes, decision: ItemVote, question: DisputeQuestion) -> tuple[bytes, ...]:
    """Return the voters that a decision pays, in the order in which they are paid."""
    return tuple(voter for voter, vote in votes.items() if vote is not None and agrees(vote, decision, question))


def losses_of_voters(votes: Votes, decision: ItemVote | None, vote_fee: int) -> list[HoldFlow]:
    """Return the burned fees of outvoted and silent voters, from the bonds that they hold."""
    payers: dict[Purse, HoldersMoney] = {}
    for voter, vote in votes.items():
        purse = charged(vote, decision)
        if purse is not None:
            payers[purse] = (*payers.get(purse, ()), (voter, 2 * vote_fee))
    flows = settle(MoneyEvent.VOTES_COUNTED, EventMoney(0, vote_fee, 0, payers))
    return [HoldFlow(flow.source, VOTER_BOND.name, None, flow.amount) for flow in flows]


@dataclass
class ReckonedClaim(ABC):
    """The payments that the table states for the events of one claim."""

    reasons: ClassVar[Mapping[Purse, HoldReason]]
    """The hold of each purse."""

    claim: ResultClaim | None = None
    """The claim at its opening, with its points once they are drawn."""
    flows: list[HoldFlow] = field(default_factory=list)
    """All payments so far, in order."""
    events: list[MoneyEvent] = field(default_factory=list)
    """The events of the table, in order."""
    checks: list[CheckMoney] = field(default_factory=list)
    charged: int = 0
    """The spent part of the provider's collateral."""
    fees_paid: int = 0
    """The spent part of the customer's money for checks."""
    votes: dict[bytes, Votes] = field(default_factory=dict)
    """The vote of each voter by dispute, in the order in which voters are paid."""
    is_ruled: bool = False
    """True between a ruling about a check and the end of that check."""
    disputed_at: int = 0
    is_by_customer: bool = False
    """True if the customer opened the newest dispute."""

    @abstractmethod
    def is_false(self, provider: bytes) -> bool:
        """Return True if a provider states a false result, or withholds its items or its samples."""

    @abstractmethod
    def is_deaf(self, checker: bytes) -> bool:
        """Return True if a checker calls results unavailable that it could fetch."""

    @property
    def payments(self) -> Counter[HoldPayment]:
        """The sums of all payments so far."""
        sums: Counter[HoldPayment] = Counter()
        for payer, reason, payee, grains in self.flows:
            sums[payer, reason, payee] += grains
        return sums

    @property
    def opened(self) -> ResultClaim:
        """The claim, once it is open."""
        assert self.claim is not None, "the result is claimed"
        return self.claim

    def take(self, height: int, event: object) -> None:
        """Note an event of the claim or of its disputes, and add its payments."""
        match event:
            case PointsDrawn():
                self.claim = replace(self.opened, points=event.points)
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
            case DisputeEnded():
                self._end_dispute(self.votes.get(event.dispute, {}), event.vote)
            case _:
                self._end(event)

    def _end(self, event: object) -> None:
        match event:
            case CheckEnded():
                self._end_check(self.checks[event.check], event.end)
            case ClaimEnded():
                self._end_claim(event.outcome)
            case _:
                pass

    def stakes(self) -> tuple[int, int]:
        """Return the fee of a voter and the provider's collateral, by which the table reckons."""
        terms = self.opened.terms
        return closing.vote_fee(terms), terms.collateral

    # ------------------------------------------------------------------------------------------------------ the rulings

    def _end_dispute(self, votes: Votes, decision: ItemVote | None) -> None:
        self.flows += losses_of_voters(votes, decision, self.stakes()[0])
        if decision is not None:
            self.rule(votes, decision)

    def rule(self, votes: Votes, decision: ItemVote) -> None:
        """Add the payments of a decision about an item."""
        voters = agreeing(votes, decision, DisputeQuestion.ITEM)
        if self.is_by_customer:
            self._rule_for_customer(voters)
        else:
            self._rule_about_check(voters)

    def _rule_for_customer(self, voters: tuple[bytes, ...]) -> None:
        claim, payees = self.opened, {Payee.VOTERS: voters}
        if self.is_false(claim.terms.provider):
            # Only a dispute before the first beacon is rewarded.
            if self.disputed_at < beacon_heights(claim.recorded_at)[0]:
                payees[Payee.FINDER] = (claim.terms.customer,)
            self.pay(MoneyEvent.PROVIDER_FALSE, {Purse.PROVIDER: self._provider_purse()}, payees)
        else:
            bond = SEATS * closing.vote_fee(claim.terms) + finder_reward(claim.terms.collateral)
            self.pay(MoneyEvent.FALSE_DISPUTE, {Purse.DISPUTER: ((claim.terms.customer, bond),)}, payees)

    def _rule_about_check(self, voters: tuple[bytes, ...]) -> None:
        check, payees, provider = self.checks[-1], {Payee.VOTERS: voters}, self.opened.terms.provider
        is_open = check.end is CheckEnd.OPEN
        payers = {Purse.PROVIDER: self._provider_purse(), Purse.CHECKER: ((check.checker, check.held),)}
        self.is_ruled = is_open
        if self.is_false(provider):
            payees |= {Payee.FINDER: (check.checker,)} if is_open else {}
            # They passed before, with the samples that the provider invented.
            passed = tuple((each.checker, each.held) for each in self.checks if each.end is CheckEnd.PASSED)
            event = MoneyEvent.BOTH_FALSE if passed else MoneyEvent.PROVIDER_FALSE
            self.pay(event, payers | {Purse.CHECKER: passed}, payees)
        elif not is_open:
            # Voters computed in the place of the last checker.
            self.pay(MoneyEvent.PASSED, {Purse.FORFEITED: self._forfeited()}, payees)
        elif self.is_deaf(check.checker):
            self.pay(MoneyEvent.FETCHED, payers, payees)
        else:
            payees[Payee.PROVIDER] = (provider,)
            self.pay(MoneyEvent.CHECKER_FALSE, payers, payees, fee=closing.expected_fee(self.opened))

    # ------------------------------------------------------------------------------------------------- checks and claim

    def _end_check(self, check: CheckMoney, end: CheckEnd) -> None:
        check.end = end
        fee = closing.expected_fee(self.opened)
        checker, provider = {Purse.CHECKER: ((check.checker, check.held),)}, (self.opened.terms.provider,)
        match end:
            case CheckEnd.PASSED:
                check.fee = closing.fee_of_samples(self.opened.terms, check.shown)
            case CheckEnd.SILENT | CheckEnd.CONCEDED:
                event = MoneyEvent.SILENT if end is CheckEnd.SILENT else MoneyEvent.CONCEDED
                payees = {Payee.PROVIDER: provider, Payee.REPLACEMENTS: (closing.KEPT,)}
                self.pay(event, checker, payees, fee=fee)
                check.held = min(fee, check.held)
            case CheckEnd.UNOPENED:
                self.pay(MoneyEvent.UNOPENED, checker, {Payee.PROVIDER: provider}, fee=fee)
            case CheckEnd.UPHELD if not self.is_ruled:
                # The provider showed no samples.
                purse = {Purse.PROVIDER: self._provider_purse()}
                self.pay(MoneyEvent.PROVIDER_FALSE, purse, {Payee.FINDER: (check.checker,)})
        self.is_ruled = False

    def _end_claim(self, outcome: ClaimOutcome) -> None:
        terms = self.opened.terms
        for check in self.checks if outcome is ClaimOutcome.PASSED else ():
            if check.end is CheckEnd.PASSED:
                customer = ((terms.customer, terms.fees_held - self.fees_paid),)
                payers = {Purse.FORFEITED: self._forfeited(), Purse.CUSTOMER: customer}
                self.pay(MoneyEvent.PASSED, payers, {Payee.CHECKER: (check.checker,)}, fee=check.fee)
        self.pay(MoneyEvent.ENDED, {Purse.FORFEITED: self._forfeited()}, {})

    def _provider_purse(self) -> HoldersMoney:
        terms = self.opened.terms
        return ((terms.provider, terms.collateral - self.charged),)

    def _forfeited(self) -> HoldersMoney:
        return tuple((check.checker, check.held) for check in self.checks if check.end in closing.FORFEITING)

    def pay(
        self,
        event: MoneyEvent,
        payers: Mapping[Purse, HoldersMoney],
        payees: Mapping[Payee, tuple[bytes, ...]],
        *,
        fee: int = 0,
    ) -> None:
        """Add the payments of an event of the table."""
        vote_fee, collateral = self.stakes()
        self.events.append(event)
        for flow in settle(event, EventMoney(fee, vote_fee, collateral, dict(payers), dict(payees))):
            if flow.payee == closing.KEPT:
                continue
            self.charged += flow.amount if flow.purse is Purse.PROVIDER and self.claim is not None else 0
            self.fees_paid += flow.amount if flow.purse is Purse.CUSTOMER else 0
            for check in self.checks:
                if flow.purse in (Purse.CHECKER, Purse.FORFEITED) and check.checker == flow.source:
                    check.held -= flow.amount
            self.add(flow.source, self.reasons[flow.purse], flow.payee, flow.amount)

    def add(self, payer: bytes, reason: HoldReason, payee: bytes | None, grains: int) -> None:
        """Add one payment. A payment to its own payer only releases the money."""
        if payee != payer and grains:
            self.flows.append(HoldFlow(payer, reason.name, payee, grains))
