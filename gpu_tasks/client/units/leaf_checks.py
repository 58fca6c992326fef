"""Checks of a batch by its leaves: recomputed answers, the state of a check, and its end.

The unit's record holds the losses while it exists. The auditor and the leaves stand in the state before the block of
the end and in that block's events. Halving finds that block, because a check exists until it is over.

Invariants:

* A leaf counts as wrong only if the same request gives another answer on this machine.
* Only facts that the node proves are reported. Missing blocks are named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from cli.output import Account
from gpu_tasks.batches.leaves import Leaf, leaf_of, leaves_of
from gpu_tasks.batches.sum_tree import leaf_claim, leaf_path, totals_of
from gpu_tasks.client.units.events import BLOCKS_PROVED
from gpu_tasks.client.units.results import PaidOutput, ResultError, UnitPayment, case_payments, moved_by, winner_of
from gpu_tasks.market.courts.cases import AUDIT_POT, CourtCase
from gpu_tasks.market.courts.events import CaseEnded
from gpu_tasks.market.courts.money import CaseOutcome, Flow
from gpu_tasks.market.inference import money
from gpu_tasks.market.inference.units import Racer, Unit, UnitState
from gpu_tasks.market.leaf_checks.checks import CheckOutcome, LeafCheck, LeafStage
from gpu_tasks.market.leaf_checks.events import LeafCheckEnded
from gpu_tasks.market.leaf_checks.fees import withheld_shares
from gpu_tasks.market.leaf_checks.leaf_checks import LeafChecks
from gpu_tasks.market.leaf_disputes.disputes import DisputeStage, LeafDispute
from gpu_tasks.market.leaf_disputes.leaf_disputes import LeafDisputes
from gpu_tasks.workloads.form import WorkloadForm, outcomes_of
from gpu_tasks.workloads.workload import NonConformingBackendError, Workload
from runtime.cryptography import ss58
from runtime.frame.call import Call
from wallet.amounts import SYMBOL, counted, format_amount
from wallet.client import ChainClient
from wallet.rpc import OddAnswerError, RpcError

WORDS = {
    LeafStage.AWAITED: "the leaves to check are drawn once the next blocks are final",
    LeafStage.SHOWING: "the racers must show the drawn leaves by block {deadline}",
    LeafStage.CHECKING: "an auditor must compute the drawn leaves by block {deadline}",
    LeafStage.PROVING: "an auditor found the drawn leaves right; courts may review that",
    LeafStage.DOUBTED: "judges compute the disputed leaf {leaf}",
    LeafStage.OPEN: "its customer may dispute any leaf by block {deadline}",
}


def why_checked(leaf_check: LeafCheck) -> str:
    """Return a sentence about the stage of a batch's check."""
    leaf = "" if leaf_check.doubt is None else leaf_check.doubt.shown.index
    return WORDS[leaf_check.stage].format(deadline=leaf_check.deadline, leaf=leaf)


def is_early(leaf_check: LeafCheck | None) -> bool:
    """Return True if the check is not yet at the stage in which its customer may dispute leaves."""
    return leaf_check is not None and leaf_check.stage is not LeafStage.OPEN


def require_disputable(unit: Unit, leaf_check: LeafCheck | None, height: int) -> LeafCheck:
    """Return the check of a batch whose leaves can be disputed in the next block.

    Raise ResultError, with the reason and the next step, if they cannot.
    """
    if leaf_check is None and not unit.leaf_audit_ppm:
        raise ResultError(
            "the chain does not check the leaves of this unit, because it has too few requests, or the chain had fewer "
            "than six validators when it was posted. Only a random audit of the whole unit can refute it",
            code="leaves_not_checked",
        )
    if leaf_check is None:
        since = f", and the unit ended in block {unit.ended_at}" if unit.ended_at else ""
        reason = f"no leaf can be disputed any more: the check of the unit has ended{since}"
        raise ResultError(reason, code="check_ended")
    assert not is_early(leaf_check), "an early dispute waits for the check"
    # The next block is the first that could hold the call.
    if height >= leaf_check.deadline:
        reason = f"no leaf can be disputed any more: the time for that ended after block {leaf_check.deadline}"
        raise ResultError(reason, code="dispute_time_over")
    return leaf_check


@dataclass(frozen=True, slots=True)
class WrongLeaf:
    """A wrong leaf of a result, with the paid and the recomputed answer."""

    index: int
    said: tuple[Leaf, ...]
    found: Leaf

    def dispute(self, unit_id: bytes) -> Call:
        """Return the call that brings the leaf before the courts."""
        return LeafChecks.dispute_leaf(
            unit=unit_id,
            totals=totals_of(self.said),
            path=leaf_path(self.said, self.index),
            found=leaf_claim(self.index, self.found),
        )


def first_wrong(
    genesis: bytes, unit_id: bytes, paid: PaidOutput, indices: Sequence[int], backend: str, tell: Callable[[int], None]
) -> WrongLeaf | None:
    """Return the first of these leaves that differs from the paid one.

    `tell` receives the number of computed leaves.
    """
    form = paid.form
    if form is None:
        reason = "this program does not know the unit's workload and cannot compute it. Update ogpu"
        raise ResultError(reason, code="unknown_workload")
    if indices and max(indices) >= len(paid.requests):
        count = len(paid.requests)
        raise ResultError(
            f"the batch has {counted(count, 'request')}. Name a leaf from 0 to {count - 1}", code="no_such_leaf"
        )
    chosen = [paid.requests[index] for index in indices]
    outputs: list[bytes | None] = [None] * len(chosen)
    workload = _open_backend(form, backend)
    for computed_count, (place, output) in enumerate(workload.run_many(chosen), 1):
        outputs[place] = output
        tell(computed_count)
    paid_leaves = leaves_of(genesis, unit_id, paid.salt, paid.outcomes)
    for index, outcome in zip(indices, outcomes_of(form, chosen, outputs), strict=True):
        computed_leaf = leaf_of(genesis, unit_id, paid.salt, index, outcome)
        if computed_leaf != paid_leaves[index]:
            return WrongLeaf(index, paid_leaves, computed_leaf)
    return None


def _open_backend(form: WorkloadForm, backend: str) -> Workload:
    try:
        return form.open(backend)
    except (LookupError, ImportError, ValueError, NonConformingBackendError) as error:
        reason = f"this machine cannot compute the leaf: {error}. Name another --backend"
        raise ResultError(reason, code="unusable_backend") from None


LOOKED_BACK = BLOCKS_PROVED - 8
"""The number of final blocks searched if the node has no older ones. Less than a node keeps, because new blocks become
final during the search."""
ACCOUNT_LETTERS = 8
NOT_SHOWN = f"the auditor and the leaves are proved for the last {BLOCKS_PROVED} final blocks only"
BY_COURT = (
    CaseOutcome.COURT_DECIDED, CaseOutcome.APPEAL_LOST, CaseOutcome.APPEAL_WON, CaseOutcome.APPEAL_UNDECIDED,
)  # fmt: skip
UNDECIDED = (CaseOutcome.UNDECIDED, CaseOutcome.UNHEARD)


@dataclass(frozen=True, slots=True)
class CheckEnd:
    """The end of a check: its block, its event, and the check just before."""

    block: int
    told: LeafCheckEnded
    check: LeafCheck
    case: CaseEnded | None = None
    """The verdict on the last doubted leaf."""
    moved: tuple[CourtCase, tuple[Flow, ...]] | None = None
    """The money moved by that case. None if there is none, or if the node does not serve it."""

    def facts(self) -> dict[str, Any]:
        """Return the facts for programs."""
        doubt = self.check.doubt
        return {
            "outcome": self.told.outcome.name.lower(),
            "ended_in_block": self.block,
            "leaves": [leaf.index for leaf in self.check.shown],
            "auditor": None if self.check.auditor is None else Account(self.check.auditor),
            "silent": [Account(account) for account in self.check.silent],
            "doubted_leaf": None if doubt is None else doubt.shown.index,
            "doubted_by": None if doubt is None else Account(doubt.doubter),
            "judged": None if self.case is None else self.case.outcome.name.lower(),
        }

    def says(self, unit: Unit) -> str:
        """Return a sentence for people: the findings, and each party's losses and rewards."""
        verdict = {
            CheckOutcome.PASSED: self._passed,
            CheckOutcome.UNLOOKED: self._unlooked,
            CheckOutcome.REFUTED: self._refuted,
            CheckOutcome.WITHHELD: self._withheld,
        }[self.told.outcome]()
        silence_clause = f"{_names_text(self.check.silent)} did not answer" if self.check.silent else ""
        return "; ".join(
            filter(
                None,
                (f"ended in block {self.block}: {verdict}", silence_clause, self._dismissed(), *_lost_and_back(unit)),
            )
        )

    def payments(self, unit: Unit) -> list[UnitPayment]:
        """Return all payments of the end, with their payers."""
        terms, earner = self.check.terms, self.told.earner
        fee_to = "audit pot" if earner is None else "auditor"
        unit_payments = [UnitPayment(fee_to, earner or AUDIT_POT, terms.fee, terms.customer)]
        if earner is not None:
            unit_payments += [
                UnitPayment("burned", None, terms.fee, account, "a silent auditor") for account in self.check.silent
            ]
        if self.told.outcome is CheckOutcome.WITHHELD:
            held = [(each.account, each.held) for each in terms.answerers]
            for account, shares in withheld_shares(terms.price, terms.customer, held):
                for share in shares:
                    role = "burned" if share.payee is None else "customer, price returned"
                    unit_payments.append(UnitPayment(role, share.payee, share.amount, account, "showed no leaves"))
        return unit_payments + ([] if self.moved is None else case_payments(unit, *self.moved))

    def _passed(self) -> str:
        assert self.check.auditor is not None, "a passed check has an auditor"
        pronoun = "it" if len(self.check.shown) == 1 else "them"
        sentence = (
            f"{_names_text([self.check.auditor])} computed the {_drawn_text(self.check)} and found {pronoun} right"
        )
        return sentence + self._not_upheld()

    def _unlooked(self) -> str:
        return (
            f"no auditor's verdict on the {_drawn_text(self.check)} counts, so the settlement stays"
            + self._not_upheld()
        )

    def _refuted(self) -> str:
        assert self.check.doubt is not None, "a leaf was doubted"
        by = "a court" if self.case is not None and self.case.outcome in BY_COURT else "judges"
        return f"leaf {self.check.doubt.shown.index} is wrong: {self._doubter()} disputed it, and {by} confirmed that"

    def _withheld(self) -> str:
        return "the racers did not show the drawn leaves"

    def _not_upheld(self) -> str:
        """Return a clause about a doubted leaf that was not refuted."""
        if self.check.doubt is None:
            return ""
        leaf = f"; leaf {self.check.doubt.shown.index}, which {self._doubter()} disputed,"
        if self.case is None:
            return f"{leaf} was not refuted"
        if self.case.outcome is CaseOutcome.INPUT_BAD:
            return f"{leaf} was not judged, because its input cannot be used"
        undecided = self.case.outcome in UNDECIDED
        return f"{leaf} {'was judged without a decision' if undecided else 'is right, as judges decided'}"

    def _doubter(self) -> str:
        assert self.check.doubt is not None, "the caller checks for a doubt"
        who = self.check.doubt.doubter
        return "its customer" if who == self.check.terms.customer else _names_text([who])

    def _dismissed(self) -> str:
        """Return a clause about earlier auditors without effect."""
        others = [
            account
            for account in self.check.drawn
            if account != self.check.auditor and account not in self.check.silent
        ]
        return f"the verdict of the earlier auditor {_names_text(others)} does not count" if others else ""


async def check_end(client: ChainClient, unit_id: bytes, unit: Unit, final_hash: bytes) -> CheckEnd | None:
    """Return the end of a settled batch's check, at or before a final block.

    Return None if no served block shows the end, or if there was no check.
    """
    last_block = await client.height(final_hash)
    for first_block in (unit.ended_at, max(unit.ended_at, last_block - LOOKED_BACK)):
        try:
            last_check = await _last_with_check(client, unit_id, first_block, last_block)
            return None if last_check is None else await _end_after(client, unit_id, *last_check)
        except (RpcError, OddAnswerError):
            continue  # A node without older states may still serve newer ones.
    return None


async def leaves_ended(
    client: ChainClient, unit_id: bytes, unit: Unit, final_hash: bytes
) -> tuple[str, CheckEnd | None]:
    """Return a sentence about an ended check, and its end as far as the node serves it."""
    end = await check_end(client, unit_id, unit, final_hash)
    if end is not None:
        return end.says(unit), end
    verdict = "a leaf was wrong or not shown" if unit.is_refuted else "no leaf was refuted"
    return "; ".join((f"the check is over: {verdict}", *_lost_and_back(unit), NOT_SHOWN)), None


async def dispute_ended(client: ChainClient, unit_id: bytes, unit: Unit) -> str | None:
    """Return a sentence about racers with another answer than the settled one. None if there are none."""
    if unit.state is not UnitState.SETTLED or unit.output_root is None:
        return None
    others = [racer for racer in unit.racers if racer.reveal and racer.reveal.output_root != unit.output_root]
    if not others:
        return None
    decision = await _how_decided(client, unit_id, unit, others)
    refund_clause = f"its customer got {_amount_text(unit.price)} of that back"
    return "; ".join((decision, *_loss_clauses(unit, others), refund_clause))


def lost_by(unit: Unit, racer: Racer) -> int:
    """Return the collateral that a racer lost, in grains."""
    return max(0, money.collateral(unit.rules, unit.price) - racer.collateral) if unit.price else 0


async def _how_decided(client: ChainClient, unit_id: bytes, unit: Unit, others: list[Racer]) -> str:
    dispute = await _dispute_before(client, unit_id, unit) if unit.leaf_audit_ppm else None
    if dispute is None:
        return f"its racers gave different answers; that of {_names_text(racer.owner for racer in others)} is wrong"
    if dispute.stage is DisputeStage.JUDGED:
        return f"its racers differed first in leaf {dispute.leaf}, which judges computed"
    silent = [account for side in dispute.sides if not side.has_shown for account in side.accounts]
    return f"its racers differed, and {_names_text(silent)} did not show its tree"


async def _dispute_before(client: ChainClient, unit_id: bytes, unit: Unit) -> LeafDispute | None:
    """Return the dispute before the block that settled its unit."""
    try:
        before = await client.block_id(unit.ended_at - 1)
        dispute: LeafDispute | None = await client.read(LeafDisputes.disputes, unit_id, at=before)
    except (RpcError, OddAnswerError):
        return None
    return dispute


async def _last_with_check(
    client: ChainClient, unit_id: bytes, first_block: int, last_block: int
) -> tuple[int, LeafCheck] | None:
    """Return the last block whose state has the check, and that check.

    The check must be over by `last_block`. Return None if it was over by `first_block` too.
    """
    last_check = await _check_after(client, unit_id, first_block)
    if last_check is None:
        return None
    check_height = first_block
    # Invariant: the check exists after block `check_height`, and is over after block `last_block`.
    while last_block - check_height > 1:
        middle = (check_height + last_block) // 2
        leaf_check = await _check_after(client, unit_id, middle)
        if leaf_check is None:
            last_block = middle
        else:
            check_height, last_check = middle, leaf_check
    return check_height, last_check


async def _check_after(client: ChainClient, unit_id: bytes, height: int) -> LeafCheck | None:
    leaf_check: LeafCheck | None = await client.read(LeafChecks.checks, unit_id, at=await client.block_id(height))
    return leaf_check


async def _end_after(client: ChainClient, unit_id: bytes, height: int, leaf_check: LeafCheck) -> CheckEnd | None:
    events = [record.event for record in await client.events(await client.block_id(height + 1))]
    told = next((event for event in events if isinstance(event, LeafCheckEnded) and event.unit == unit_id), None)
    if told is None:
        return None
    case = next((event for event in events if isinstance(event, CaseEnded) and event.case == leaf_check.case), None)
    moved = None if case is None else await moved_by(client, height + 1, case)
    return CheckEnd(height + 1, told, leaf_check, case, moved)


def _lost_and_back(unit: Unit) -> list[str]:
    """Return clauses about a refuted result: the racers' losses, and the money returned to the customer."""
    winner = winner_of(unit)
    if not unit.is_refuted or winner is None:
        return []
    answered = [racer for racer in unit.racers if racer.reveal and racer.reveal.output_root == unit.output_root]
    return [*_loss_clauses(unit, answered), f"its customer got {_amount_text(money.due(unit, winner))} back"]


def _loss_clauses(unit: Unit, racers: Iterable[Racer]) -> list[str]:
    return [f"{_names_text([racer.owner])} lost {_amount_text(lost_by(unit, racer))}" for racer in racers]


def _drawn_text(leaf_check: LeafCheck) -> str:
    return "drawn leaf" if len(leaf_check.shown) == 1 else f"{len(leaf_check.shown)} drawn leaves"


def _names_text(accounts: Iterable[bytes]) -> str:
    return ", ".join(ss58.encode(account)[:ACCOUNT_LETTERS] for account in accounts)


def _amount_text(grains: int) -> str:
    return f"{format_amount(grains)} {SYMBOL}"
