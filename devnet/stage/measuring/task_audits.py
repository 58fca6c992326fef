"""What a case about a task moves, from its events and the task's record: by the table of the courts.

Always: what the runtime reckons with is not read, but what it would have to; a case that ends otherwise than by finding
a result right is told, unless `may_lie` says that somebody lies on purpose, or there was nobody to look at it; judges
have what the audit pot held before, and no more.
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
RECKONED = (CaseOutcome.AUDIT_RIGHT, CaseOutcome.AUDIT_WRONG, CaseOutcome.AUDIT_UNDECIDED, CaseOutcome.UNHEARD)
"""Without an appeal: who lies here appeals against nothing."""


@dataclass(slots=True)
class AuditedSlot:
    """A slot before the courts: whose task, for which fee, and what its judges have said."""

    task: bytes
    fee: int
    judges: list[bytes] = field(default_factory=list)
    said: dict[bytes, Any] = field(default_factory=dict)
    root: bytes = b""
    """What was stated."""
    provider: bytes = b""
    customer: bytes = b""
    cover: int = 0
    """What the customer is due of a lie."""
    held: int = 0
    """What a lie costs at most."""
    asker: bytes = b""
    """Who disputed, or showed a fraud proof."""
    bond: int = 0
    """What that locked: it pays the judges of a right result."""
    is_challenge: bool = False
    pot_max: int = 0
    """Return the most that the audit pot gives to a case."""
    has_court: bool = False
    lost: int | None = None
    """What a lie has cost; None: none was found."""
    judged_by_bond: int = 0
    """What the bond has paid to judges."""


@dataclass(slots=True)
class TaskAudits:
    """The cases of tasks, by id."""

    slots: dict[bytes, AuditedSlot] = field(default_factory=dict)
    drawn: dict[int, int] = field(default_factory=dict)
    """Grains that were drawn from the pot in a block."""
    may_lie: bool = False
    """Whether somebody lies on purpose: then a lie that is found is no fault."""

    def open(self, task_id: bytes, task: Task) -> None:
        """The courts have a task: a case for each slot that is judged; `task` is as the block of that leaves it."""
        for place, slot in enumerate(task.slots):
            challenge = task.challenge
            if slot.result is None or slot.outcome is not None or (challenge and challenge.place != place):
                continue
            found = AuditedSlot(task_id, fee_of_case(task, slot))
            found.pot_max = 0 if challenge else pot_max(task.rules, slot.price)
            found.root, found.provider, found.customer = slot.result.root, slot.provider, task.customer
            found.cover, found.held = covered(task.terms.price_max, slot.collateral), slot.collateral
            if challenge is not None:
                found.held -= challenge.reward
                found.asker, found.bond, found.is_challenge = challenge.challenger, claim_bond(task), True
            elif task.judged_for is JudgedFor.DISPUTE:
                found.asker = task.customer
                found.bond = dispute_bond(task.rules, task.terms.price_max, slot.price)
            self.slots[slot_case(task_id, place)] = found

    async def take(self, chain: ChainClient, height: int, event: Any) -> tuple[list[tuple[bytes, int]], list[str]]:
        """What an event of a task's case moves, by account; and what is wrong with it."""
        slot = self.slots[event.case]
        match event:
            case BenchDrawn(_, _, judges):
                slot.judges += judges
            case OpinionOpened(_, judge, statement):
                slot.said[judge] = statement.opinion
            case CaseDecided(_, _, until):
                slot.has_court = until > 0
            case CaseEnded(_, CaseOutcome.AUDIT_UNDECIDED, None) if not slot.judges:
                return [], []  # of four, customer, winner and runner-up leave too few for a bench: nothing moves
            case CaseEnded(_, outcome, verdict):
                if outcome is not CaseOutcome.AUDIT_RIGHT and not (self.may_lie and outcome in RECKONED):
                    return [], [f"block {height}: a case about the task ended as {outcome.name}"]
                return await self._dues(chain, height, slot, outcome, verdict), []
            case _:
                pass
        return [], []

    async def _dues(
        self, chain: ChainClient, height: int, slot: AuditedSlot, outcome: CaseOutcome, verdict: Any
    ) -> list[tuple[bytes, int]]:
        before = await chain.read(System.account, AUDIT_POT, at=await block_hash(chain, height - 1))
        in_pot = before.data.free - Balances.existential_deposit.default - self.drawn.get(height, 0)
        seats = await chain.read(TrustStake.active_set, at=await block_hash(chain, height))
        in_office = [(seat.stash, seat.weight) for seat in seats]
        flows = settle(outcome, _money(slot, verdict, max(0, min(in_pot, slot.pot_max)), in_office))
        moved = []
        for flow in flows:
            moved += [(flow.source, -flow.amount)] if flow.source != AUDIT_POT else []
            moved += [(flow.payee, flow.amount)] if flow.payee is not None else []
        self.drawn[height] = self.drawn.get(height, 0) + _of(flows, Purse.POT)
        slot.judged_by_bond = _of(flows, Purse.CUSTOMER_SPARE)
        if outcome is CaseOutcome.AUDIT_WRONG:
            slot.lost = _of(flows, Purse.LIED)
        elif slot.is_challenge and isinstance(verdict, Answered):  # a proof that proves nothing: the rest of it burns
            moved.append((slot.asker, slot.judged_by_bond - slot.bond))
        return moved


def _money(slot: AuditedSlot, verdict: Any, in_pot: int, in_office: list[tuple[bytes, int]]) -> CaseMoney:
    right = tuple(judge for judge in slot.judges if slot.said.get(judge) == verdict)
    silent = tuple((judge, slot.fee) for judge in slot.judges if judge not in slot.said) if _fines(slot) else ()
    payers: dict[Purse, tuple[tuple[bytes, int], ...]] = {Purse.POT: ((AUDIT_POT, in_pot),), Purse.SILENT: silent}
    if isinstance(verdict, Answered) and verdict.root == slot.root:
        payers[Purse.CUSTOMER_SPARE] = ((slot.asker, slot.bond),)
    elif isinstance(verdict, Answered):
        payers[Purse.LIED] = ((slot.provider, slot.held),)
    payees = {Payee.JUDGES: right, Payee.CUSTOMER: (slot.customer,)}
    takes_whole = slot.has_court or is_beyond_a_third(right, in_office)
    return CaseMoney(slot.cover, slot.fee, takes_whole, payers, payees)


def _fines(slot: AuditedSlot) -> bool:
    """Whether so many judges said something that who did not is fined."""
    return len(slot.said) * FINED_PARTS >= len(slot.judges) * FINING_PARTS


def _of(flows: tuple[Flow, ...], purse: Purse) -> int:
    return sum(flow.amount for flow in flows if flow.purse is purse)
