"""Claims and disputes of tasks: their payments by the table of claims, and the money that they leave in each purse.

Invariant: the expected sums do not come from the runtime's own results. The truth about a result comes from the
scenario, which names the cheats. Only the truth about an input is that of the voters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from devnet.stage.measuring.claim_money import (
    BOND_REASONS,
    HoldFlow,
    ReckonedClaim,
    Votes,
    agreeing,
    losses_of_voters,
)
from devnet.stage.measuring.ledger import block_hash
from gpu_tasks.market.claims.claim_events import ItemDisputed
from gpu_tasks.market.claims.claims import CHECKER_BOND, DISPUTE_BOND
from gpu_tasks.market.claims.dispute_events import DisputeEnded, VoteOpened, VotersDrawn
from gpu_tasks.market.claims.disputes import VOTER_BOND, DisputeQuestion
from gpu_tasks.market.claims.findings import ItemVote, Verdict
from gpu_tasks.market.claims.handlers import Ruling, payments_to_voters
from gpu_tasks.market.claims.money import MoneyEvent, Purse
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.training import money
from gpu_tasks.market.training.events import ResultsClaimed, TaskDisputed
from gpu_tasks.market.training.life import sides
from gpu_tasks.market.training.money import TaskPurse
from gpu_tasks.market.training.tasks import TASK_BOND, TASK_COLLATERAL, TASK_ESCROW, Task, slot_case
from gpu_tasks.market.training.training_market import TrainingMarket
from runtime.frame.holds import HoldReason
from runtime.pallets.staking.trust_lock import Paid
from wallet.client import ChainClient

BONDS = (CHECKER_BOND.name, DISPUTE_BOND.name, VOTER_BOND.name)
PURSES = {
    TASK_ESCROW.name: TaskPurse.ESCROW,
    TASK_BOND.name: TaskPurse.CUSTOMER_BOND,
    TASK_COLLATERAL.name: TaskPurse.COLLATERAL,
}
"""The purse of each hold of a slot, by the name of the hold."""


@dataclass(frozen=True, slots=True)
class TaskCheats:
    """The accounts that cheat about tasks."""

    false: frozenset[bytes] = frozenset()
    """Providers whose results are false, or whose items or samples nobody gets."""
    deaf: frozenset[bytes] = frozenset()
    """Checkers that call results unavailable that they could fetch."""


@dataclass
class ReckonedSlot(ReckonedClaim):
    """The payments of the claim of one slot."""

    reasons: ClassVar[Mapping[Purse, HoldReason]] = {
        **BOND_REASONS, Purse.CUSTOMER: TASK_ESCROW, Purse.PROVIDER: TASK_COLLATERAL,
    }  # fmt: skip

    cheats: TaskCheats = field(kw_only=True)
    task: bytes = field(kw_only=True)

    def is_false(self, provider: bytes) -> bool:
        """See `ReckonedClaim`."""
        return provider in self.cheats.false

    def is_deaf(self, checker: bytes) -> bool:
        """See `ReckonedClaim`."""
        return checker in self.cheats.deaf


@dataclass(slots=True)
class TaskDispute:
    """A dispute that the market has opened, about different results or about an input."""

    task: bytes
    record: Task
    """The task after the block that opened the dispute."""
    question: DisputeQuestion
    votes: Votes = field(default_factory=dict)

    def rule(self, decision: ItemVote | None, cheats: TaskCheats) -> list[tuple[int, HoldFlow]]:
        """Return the payments of a decision, each with the place of the slot whose money it is."""
        rules, price_max = self.record.rules, self.record.terms.price_max
        is_about_input = self.question is DisputeQuestion.INPUT
        fee = money.input_fee(rules, price_max) if is_about_input else sides.vote_fee(self.record)
        first = self.record.reported or 0
        flows = [(first, flow) for flow in losses_of_voters(self.votes, decision, fee)]
        if decision is None:
            return flows
        customer, price_max = self.record.customer, self.record.terms.price_max
        if decision.verdict is not Verdict.RIGHT:
            event, purse, reason, fee = MoneyEvent.INPUT_BAD, Purse.INPUT, TASK_BOND, money.input_fee(rules, price_max)
            holders = [(first, customer, money.input_charge(rules, price_max))]
        elif is_about_input:
            event, purse, reason = MoneyEvent.FALSE_DISPUTE, Purse.DISPUTER, TASK_COLLATERAL
            slot = self.record.slots[first]
            holders = [(first, slot.provider, min(money.false_report_cost(rules, price_max), slot.collateral))]
        else:
            event, purse, reason = MoneyEvent.PROVIDER_FALSE, Purse.PROVIDER, TASK_COLLATERAL
            slots = enumerate(self.record.slots)
            holders = [
                (place, slot.provider, slot.collateral) for place, slot in slots if slot.provider in cheats.false
            ]
        ruling = Ruling(decision, is_appealed=False, voters=agreeing(self.votes, decision, self.question))
        charged = {purse: tuple((bytes((place,)), held) for place, _, held in holders)}
        payments = payments_to_voters(event, charged, ruling, fee=fee)
        return flows + [
            (place, HoldFlow(owner, reason.name, share.payee, share.amount))
            for place, owner, _ in holders
            for share in payments.get(bytes((place,)), ())
        ]


@dataclass(slots=True)
class TaskClaims:
    """The open and past claims and disputes of tasks, with their payments in the present block."""

    cheats: TaskCheats = field(default_factory=TaskCheats)
    claims: dict[bytes, ReckonedSlot] = field(default_factory=dict)
    claim_of_dispute: dict[bytes, bytes] = field(default_factory=dict)
    disputes: dict[bytes, TaskDispute] = field(default_factory=dict)
    spent: Counter[tuple[bytes, TaskPurse]] = field(default_factory=Counter)
    """The spent part of each purse, by the case of its slot."""
    flows: list[tuple[bytes, HoldFlow]] = field(default_factory=list)
    """The expected payments of this block, each with its task."""
    paid: Counter[tuple[bytes, bytes, str]] = field(default_factory=Counter)
    """The chain's payments out of bonds in this block, by task, owner and hold."""

    async def take(self, chain: ChainClient, height: int, event: Any) -> None:
        """Take an event. Others than those about claims and disputes of tasks are ignored."""
        match event:
            case ResultsClaimed():
                await self._open_claims(chain, height, event.task)
            case TaskDisputed():
                record = await task_after(chain, height, event.task)
                self.disputes[event.dispute] = TaskDispute(event.task, record, event.question)
            case Paid():
                self._note_payment(event)
            case _:
                self._take_of_claim(height, event)

    def end_block(self) -> tuple[list[tuple[bytes, HoldFlow]], Counter[tuple[bytes, bytes, str]]]:
        """Return the expected payments of the block, and the chain's payments out of bonds."""
        flows, paid = self.flows, self.paid
        self.flows, self.paid = [], Counter()
        return flows, paid

    async def _open_claims(self, chain: ChainClient, height: int, task_id: bytes) -> None:
        at_block = await block_hash(chain, height)
        record = await task_after(chain, height, task_id)
        for place, slot in enumerate(record.slots):
            if slot.outcome is None:
                claim = await chain.read(ResultClaims.claims, slot_case(task_id, place), at=at_block)
                self.claims[slot_case(task_id, place)] = ReckonedSlot(claim, cheats=self.cheats, task=task_id)

    def _take_of_claim(self, height: int, event: Any) -> None:
        dispute_id = getattr(event, "dispute", b"")
        claim_id = getattr(event, "claim", None) or self.claim_of_dispute.get(dispute_id, b"")
        claim = self.claims.get(claim_id)
        if claim is not None:
            if isinstance(event, ItemDisputed):
                self.claim_of_dispute[dispute_id] = claim_id
            known = len(claim.flows)
            claim.take(height, event)
            self._note(claim.task, claim_id, claim.flows[known:])
            return
        dispute = self.disputes.get(dispute_id)
        if dispute is None:
            return
        match event:
            case VotersDrawn():
                dispute.votes = dict.fromkeys(event.voters)
            case VoteOpened():
                dispute.votes[event.voter] = event.vote
            case DisputeEnded():
                for place, flow in dispute.rule(event.vote, self.cheats):
                    self._note(dispute.task, slot_case(dispute.task, place), [flow])
            case _:
                pass

    def _note(self, task_id: bytes, case: bytes, flows: list[HoldFlow]) -> None:
        for flow in flows:
            self.flows.append((task_id, flow))
            if flow.reason in PURSES:
                self.spent[case, PURSES[flow.reason]] += flow.grains

    def _note_payment(self, event: Paid) -> None:
        claim = self.claims.get(self.claim_of_dispute.get(event.case, event.case))
        about = claim or self.disputes.get(event.case)
        if about is not None and event.reason.name in BONDS:
            self.paid[about.task, event.who, event.reason.name] += event.amount


async def task_after(chain: ChainClient, height: int, task_id: bytes) -> Task:
    """Return the task's record after the block at a height."""
    record = await chain.read(TrainingMarket.tasks, task_id, at=await block_hash(chain, height))
    assert isinstance(record, Task), "a task of a claim or a dispute is known"
    return record
