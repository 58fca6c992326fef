"""The money that a case about a task moves, from its events and the task's record: by the table of the courts.

Invariant: the expected sums do not come from the runtime's own results. A case with an outcome other than "right" is a
problem, unless `may_lie` allows lies or there were no judges. Judges get at most the audit pot's balance before the
block.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from devnet.stage.measuring.ledger import block_hash
from gpu_tasks.market.courts.benches import is_beyond_a_third
from gpu_tasks.market.courts.cases import AUDIT_POT
from gpu_tasks.market.courts.closing import FINED_PARTS, FINING_PARTS
from gpu_tasks.market.courts.events import BenchDrawn, CaseDecided, CaseEnded, OpinionOpened
from gpu_tasks.market.courts.money import CaseMoney, CaseOutcome, Flow, Payee, Purse, settle
from gpu_tasks.market.courts.opinions import Answered
from gpu_tasks.market.training.fraud_claims import claim_bond
from gpu_tasks.market.training.life.judging import fee_of_case
from gpu_tasks.market.training.money import dispute_bond, pot_max
from gpu_tasks.market.training.tasks import JudgedFor, Task, slot_case
from gpu_tasks.market.training.terms import covered
from runtime.pallets.balances import Balances
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.pallets.system import System
from wallet.client import ChainClient

CASE_EVENTS = (BenchDrawn, OpinionOpened, CaseDecided, CaseEnded)
# The outcomes with a known table row, none of them after an appeal: liars in these scenarios never appeal.
KNOWN_OUTCOMES = (CaseOutcome.AUDIT_RIGHT, CaseOutcome.AUDIT_WRONG, CaseOutcome.AUDIT_UNDECIDED, CaseOutcome.UNHEARD)


@dataclass(slots=True)
class AuditedSlot:
    """A slot before the courts: its task, its judges' fee, and their opinions."""

    task: bytes
    fee: int
    judges: list[bytes] = field(default_factory=list)
    opinions_by_judge: dict[bytes, Any] = field(default_factory=dict)
    root: bytes = b""
    """The stated result root."""
    provider: bytes = b""
    customer: bytes = b""
    cover: int = 0
    """The customer's due if the result is a lie."""
    held: int = 0
    """The most that a lie costs."""
    asker: bytes = b""
    """The account that disputed the result or showed a fraud proof."""
    bond: int = 0
    """The asker's locked bond. It pays the judges if the result is right."""
    is_challenge: bool = False
    pot_max: int = 0
    """The most that the audit pot pays for the case."""
    has_court: bool = False
    lost: int | None = None
    """The cost of a lie to the provider, or None if no lie was found."""
    judged_by_bond: int = 0
    """The grains that the bond has paid to judges."""


@dataclass(slots=True)
class TaskAudits:
    """The cases of tasks, by case id."""

    slots: dict[bytes, AuditedSlot] = field(default_factory=dict)
    drawn: dict[int, int] = field(default_factory=dict)
    """Grains drawn from the pot, by block height."""
    may_lie: bool = False
    """True if the scenario contains liars. Then a discovered lie is no problem."""

    def open(self, task_id: bytes, record: Task) -> None:
        """Add a case for each slot that is judged. `record` is the task after the block that called the courts."""
        for slot_index, task_slot in enumerate(record.slots):
            fraud_challenge = record.challenge
            if (
                task_slot.result is None
                or task_slot.outcome is not None
                or (fraud_challenge and fraud_challenge.place != slot_index)
            ):
                continue
            slot = AuditedSlot(task_id, fee_of_case(record, task_slot))
            slot.pot_max = 0 if fraud_challenge else pot_max(record.rules, task_slot.price)
            slot.root, slot.provider, slot.customer = (task_slot.result.root, task_slot.provider, record.customer)
            slot.cover, slot.held = (covered(record.terms.price_max, task_slot.collateral), task_slot.collateral)
            if fraud_challenge is not None:
                slot.held -= fraud_challenge.reward
                slot.asker, slot.bond, slot.is_challenge = (fraud_challenge.challenger, claim_bond(record), True)
            elif record.judged_for is JudgedFor.DISPUTE:
                slot.asker = record.customer
                slot.bond = dispute_bond(record.rules, record.terms.price_max, task_slot.price)
            self.slots[slot_case(task_id, slot_index)] = slot

    async def take(self, chain: ChainClient, height: int, event: Any) -> tuple[list[tuple[bytes, int]], list[str]]:
        """Return the grains that an event of a case moves, by account, and the problems."""
        slot = self.slots[event.case]
        match event:
            case BenchDrawn(_, _, judges):
                slot.judges += judges
            case OpinionOpened(_, opening_judge, statement):
                slot.opinions_by_judge[opening_judge] = statement.opinion
            case CaseDecided(_, _, appeal_until):
                slot.has_court = appeal_until > 0
            case CaseEnded(_, CaseOutcome.AUDIT_UNDECIDED, None) if not slot.judges:
                return [], []  # of four validators, the parties leave too few for a bench: nothing moves
            case CaseEnded(_, case_outcome, verdict):
                if case_outcome is not CaseOutcome.AUDIT_RIGHT and not (
                    self.may_lie and case_outcome in KNOWN_OUTCOMES
                ):
                    return [], [f"block {height}: a case about the task ended as {case_outcome.name}"]
                return await self._case_dues(chain, height, slot, case_outcome, verdict), []
            case _:
                pass
        return [], []

    async def _case_dues(
        self, chain: ChainClient, height: int, slot: AuditedSlot, case_outcome: CaseOutcome, verdict: Any
    ) -> list[tuple[bytes, int]]:
        pot_account = await chain.read(System.account, AUDIT_POT, at=await block_hash(chain, height - 1))
        # The pot keeps the existential deposit, and earlier cases of this block have already drawn from it.
        pot_grains = pot_account.data.free - Balances.existential_deposit.default - self.drawn.get(height, 0)
        seats = await chain.read(TrustStake.active_set, at=await block_hash(chain, height))
        weights_in_office = [(seat.stash, seat.weight) for seat in seats]
        flows = settle(
            case_outcome, _case_money(slot, verdict, max(0, min(pot_grains, slot.pot_max)), weights_in_office)
        )
        case_moves = []
        for flow in flows:
            case_moves += [(flow.source, -flow.amount)] if flow.source != AUDIT_POT else []
            case_moves += [(flow.payee, flow.amount)] if flow.payee is not None else []
        self.drawn[height] = self.drawn.get(height, 0) + _grains_from(flows, Purse.POT)
        slot.judged_by_bond = _grains_from(flows, Purse.CUSTOMER_SPARE)
        if case_outcome is CaseOutcome.AUDIT_WRONG:
            slot.lost = _grains_from(flows, Purse.LIED)
        elif slot.is_challenge and isinstance(verdict, Answered):  # the proof was wrong: the rest of the bond burns
            case_moves.append((slot.asker, slot.judged_by_bond - slot.bond))
        return case_moves


def _case_money(
    slot: AuditedSlot, verdict: Any, pot_grains: int, weights_in_office: list[tuple[bytes, int]]
) -> CaseMoney:
    agreeing = tuple(judge for judge in slot.judges if slot.opinions_by_judge.get(judge) == verdict)
    silent_judges = (
        tuple((judge, slot.fee) for judge in slot.judges if judge not in slot.opinions_by_judge)
        if _fines_silence(slot)
        else ()
    )
    payers_by_purse: dict[Purse, tuple[tuple[bytes, int], ...]] = {
        Purse.POT: ((AUDIT_POT, pot_grains),),
        Purse.SILENT: silent_judges,
    }
    if isinstance(verdict, Answered) and verdict.root == slot.root:
        payers_by_purse[Purse.CUSTOMER_SPARE] = ((slot.asker, slot.bond),)
    elif isinstance(verdict, Answered):
        payers_by_purse[Purse.LIED] = ((slot.provider, slot.held),)
    payees_by_kind = {Payee.JUDGES: agreeing, Payee.CUSTOMER: (slot.customer,)}
    takes_whole = slot.has_court or is_beyond_a_third(agreeing, weights_in_office)
    return CaseMoney(slot.cover, slot.fee, takes_whole, payers_by_purse, payees_by_kind)


def _fines_silence(slot: AuditedSlot) -> bool:
    """Return whether enough judges answered for the silent ones to be fined."""
    return len(slot.opinions_by_judge) * FINED_PARTS >= len(slot.judges) * FINING_PARTS


def _grains_from(flows: tuple[Flow, ...], flow_purse: Purse) -> int:
    return sum(flow.amount for flow in flows if flow.purse is flow_purse)
