"""What the judges of an audited task are due, from the events of its cases: by the table of the courts.

Always: a case that ends otherwise than by finding a result right is told, for here all results are right, unless there
was nobody to look at it; judges have what the audit pot held before, and no more.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from devnet.measuring.ledger import block_hash
from gpu_tasks.market.courts.cases import AUDIT_POT
from gpu_tasks.market.courts.events import BenchDrawn, CaseEnded, OpinionOpened
from gpu_tasks.market.courts.money import FIRST_JUDGES, CaseMoney, CaseOutcome, Payee, Purse, judge_fee, settle
from gpu_tasks.market.training.tasks import Task, slot_case
from runtime.pallets.balances import Balances
from runtime.pallets.system import System
from wallet.client import ChainClient

CASE_EVENTS = (BenchDrawn, OpinionOpened, CaseEnded)


@dataclass(slots=True)
class AuditedSlot:
    """A slot before the courts: whose task, for which fee, and what its judges have said."""

    task: bytes
    fee: int
    judges: list[bytes] = field(default_factory=list)
    said: dict[bytes, Any] = field(default_factory=dict)


@dataclass(slots=True)
class TaskAudits:
    """The cases of tasks, by id."""

    slots: dict[bytes, AuditedSlot] = field(default_factory=dict)
    drawn: dict[int, int] = field(default_factory=dict)
    """Grains that were drawn from the pot in a block."""

    def open(self, task_id: bytes, task: Task) -> None:
        """The courts have a task: a case for each slot."""
        fee = judge_fee(task.terms.price_max, task.rules.judge_fee_ppm, task.rules.judge_fee_min)
        self.slots |= {slot_case(task_id, place): AuditedSlot(task_id, fee) for place in range(len(task.slots))}

    async def take(self, chain: ChainClient, height: int, event: Any) -> tuple[list[tuple[bytes, int]], list[str]]:
        """What an event of a task's case moves, by account; and what is wrong with it."""
        slot = self.slots[event.case]
        match event:
            case BenchDrawn(_, _, judges):
                slot.judges += judges
            case OpinionOpened(_, judge, statement):
                slot.said[judge] = statement.opinion
            case CaseEnded(_, CaseOutcome.AUDIT_UNDECIDED, None) if not slot.judges:
                return [], []  # of four, customer, winner and runner-up leave too few for a bench: nothing moves
            case CaseEnded(_, outcome, verdict):
                if outcome is not CaseOutcome.AUDIT_RIGHT:
                    return [], [f"block {height}: a case about the task ended as {outcome.name}"]
                return await self._dues(chain, height, slot, verdict), []
            case _:
                pass
        return [], []

    async def _dues(self, chain: ChainClient, height: int, slot: AuditedSlot, verdict: Any) -> list[tuple[bytes, int]]:
        before = await chain.read(System.account, AUDIT_POT, at=await block_hash(chain, height - 1))
        in_pot = before.data.free - Balances.existential_deposit.default - self.drawn.get(height, 0)
        right = tuple(judge for judge in slot.judges if slot.said.get(judge) == verdict)
        silent = tuple((judge, slot.fee) for judge in slot.judges if judge not in slot.said)
        pot = (AUDIT_POT, max(0, min(in_pot, FIRST_JUDGES * slot.fee)))
        payers = {Purse.POT: (pot,), Purse.SILENT: silent}
        money = CaseMoney(FIRST_JUDGES * slot.fee, slot.fee, True, payers, {Payee.JUDGES: right})
        moved = []
        for flow in settle(CaseOutcome.AUDIT_RIGHT, money):
            moved += [(flow.source, -flow.amount)] if flow.source != AUDIT_POT else []
            moved += [(flow.payee, flow.amount)] if flow.payee is not None else []
            self.drawn[height] = self.drawn.get(height, 0) + flow.amount * (flow.source == AUDIT_POT)
        return moved
