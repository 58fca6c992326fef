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
RECKONED = (CaseOutcome.AUDIT_RIGHT, CaseOutcome.AUDIT_WRONG, CaseOutcome.AUDIT_UNDECIDED, CaseOutcome.UNHEARD)
"""The outcomes with a known table row, none of them after an appeal: liars in these scenarios never appeal."""


@dataclass(slots=True)
class AuditedSlot:
    """A slot before the courts: its task, its judges' fee, and their opinions."""

    task: bytes
    fee: int
    judges: list[bytes] = field(default_factory=list)
    said: dict[bytes, Any] = field(default_factory=dict)
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

    def open(self, task_id: bytes, task: Task) -> None:
        """Add a case for each slot that is judged. `task` is the record after the block that called the courts."""
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
        """Return the grains that an event of a case moves, by account, and the problems."""
        slot = self.slots[event.case]
        match event:
            case BenchDrawn(_, _, judges):
                slot.judges += judges
            case OpinionOpened(_, judge, statement):
                slot.said[judge] = statement.opinion
            case CaseDecided(_, _, until):
                slot.has_court = until > 0
            case CaseEnded(_, CaseOutcome.AUDIT_UNDECIDED, None) if not slot.judges:
                return [], []  # of four validators, the parties leave too few for a bench: nothing moves
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
        # The pot keeps the existential deposit, and earlier cases of this block have already drawn from it.
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
        elif slot.is_challenge and isinstance(verdict, Answered):  # the proof was wrong: the rest of the bond burns
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
    """Return whether enough judges answered for the silent ones to be fined."""
    return len(slot.said) * FINED_PARTS >= len(slot.judges) * FINING_PARTS


def _of(flows: tuple[Flow, ...], purse: Purse) -> int:
    return sum(flow.amount for flow in flows if flow.purse is purse)
