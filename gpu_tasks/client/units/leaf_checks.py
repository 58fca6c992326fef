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
from gpu_tasks.workloads import registry
from gpu_tasks.workloads.form import outcomes_of
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


def why_checked(check: LeafCheck) -> str:
    """Return a sentence about the stage of a batch's check."""
    leaf = "" if check.doubt is None else check.doubt.shown.index
    return WORDS[check.stage].format(deadline=check.deadline, leaf=leaf)


def is_early(check: LeafCheck | None) -> bool:
    """Return True if the check is not yet at the stage in which its customer may dispute leaves."""
    return check is not None and check.stage is not LeafStage.OPEN


def require_disputable(unit: Unit, check: LeafCheck | None, height: int) -> LeafCheck:
    """Return the check of a batch whose leaves can be disputed in the next block.

    Raise ResultError, with the reason and the next step, if they cannot.
    """
    if check is None and not unit.leaf_audit_ppm:
        raise ResultError(
            "the chain does not check the leaves of this unit, because it has too few requests, or the chain had fewer "
            "than six validators when it was posted. Only a random audit of the whole unit can refute it",
            code="leaves_not_checked",
        )
    if check is None:
        since = f", and the unit ended in block {unit.ended_at}" if unit.ended_at else ""
        why = f"no leaf can be disputed any more: the check of the unit has ended{since}"
        raise ResultError(why, code="check_ended")
    assert not is_early(check), "an early dispute waits for the check"
    # The next block is the first that could hold the call.
    if height >= check.deadline:
        why = f"no leaf can be disputed any more: the time for that ended after block {check.deadline}"
        raise ResultError(why, code="dispute_time_over")
    return check


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
        why = "this program does not know the unit's workload and cannot compute it. Update ogpu"
        raise ResultError(why, code="unknown_workload")
    if indices and max(indices) >= len(paid.requests):
        count = len(paid.requests)
        raise ResultError(
            f"the batch has {counted(count, 'request')}. Name a leaf from 0 to {count - 1}", code="no_such_leaf"
        )
    chosen = [paid.requests[index] for index in indices]
    outputs: list[bytes | None] = [None] * len(chosen)
    workload = _opened(form.name, backend)
    for done, (place, output) in enumerate(workload.run_many(chosen), 1):
        outputs[place] = output
        tell(done)
    said = leaves_of(genesis, unit_id, paid.salt, paid.outcomes)
    for index, outcome in zip(indices, outcomes_of(form, chosen, outputs), strict=True):
        found = leaf_of(genesis, unit_id, paid.salt, index, outcome)
        if found != said[index]:
            return WrongLeaf(index, said, found)
    return None


def _opened(name: str, backend: str) -> Workload:
    try:
        return registry.open_workload(name, backend)
    except (LookupError, ImportError, ValueError, NonConformingBackendError) as error:
        why = f"this machine cannot compute the leaf: {error}. Name another --backend"
        raise ResultError(why, code="unusable_backend") from None


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
            "silent": [Account(who) for who in self.check.silent],
            "doubted_leaf": None if doubt is None else doubt.shown.index,
            "doubted_by": None if doubt is None else Account(doubt.doubter),
            "judged": None if self.case is None else self.case.outcome.name.lower(),
        }

    def says(self, unit: Unit) -> str:
        """Return a sentence for people: the findings, and each party's losses and rewards."""
        said = {
            CheckOutcome.PASSED: self._passed,
            CheckOutcome.UNLOOKED: self._unlooked,
            CheckOutcome.REFUTED: self._refuted,
            CheckOutcome.WITHHELD: self._withheld,
        }[self.told.outcome]()
        silent = f"{_names(self.check.silent)} did not answer" if self.check.silent else ""
        return "; ".join(
            filter(None, (f"ended in block {self.block}: {said}", silent, self._dismissed(), *_lost_and_back(unit)))
        )

    def payments(self, unit: Unit) -> list[UnitPayment]:
        """Return all payments of the end, with their payers."""
        terms, earner = self.check.terms, self.told.earner
        fee_to = "audit pot" if earner is None else "auditor"
        found = [UnitPayment(fee_to, earner or AUDIT_POT, terms.fee, terms.customer)]
        if earner is not None:
            found += [UnitPayment("burned", None, terms.fee, who, "a silent auditor") for who in self.check.silent]
        if self.told.outcome is CheckOutcome.WITHHELD:
            held = [(each.account, each.held) for each in terms.answerers]
            for who, shares in withheld_shares(terms.price, terms.customer, held):
                for share in shares:
                    role = "burned" if share.payee is None else "customer, price returned"
                    found.append(UnitPayment(role, share.payee, share.amount, who, "showed no leaves"))
        return found + ([] if self.moved is None else case_payments(unit, *self.moved))

    def _passed(self) -> str:
        assert self.check.auditor is not None, "a passed check has an auditor"
        them = "it" if len(self.check.shown) == 1 else "them"
        found = f"{_names([self.check.auditor])} computed the {_drawn(self.check)} and found {them} right"
        return found + self._not_upheld()

    def _unlooked(self) -> str:
        return f"no auditor's verdict on the {_drawn(self.check)} counts, so the settlement stays" + self._not_upheld()

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
        return "its customer" if who == self.check.terms.customer else _names([who])

    def _dismissed(self) -> str:
        """Return a clause about earlier auditors without effect."""
        others = [who for who in self.check.drawn if who != self.check.auditor and who not in self.check.silent]
        return f"the verdict of the earlier auditor {_names(others)} does not count" if others else ""


async def check_end(client: ChainClient, unit_id: bytes, unit: Unit, final: bytes) -> CheckEnd | None:
    """Return the end of a settled batch's check, at or before a final block.

    Return None if no served block shows the end, or if there was no check.
    """
    last = await client.height(final)
    for first in (unit.ended_at, max(unit.ended_at, last - LOOKED_BACK)):
        try:
            found = await _last_of(client, unit_id, first, last)
            return None if found is None else await _end_after(client, unit_id, *found)
        except (RpcError, OddAnswerError):
            continue  # A node without older states may still serve newer ones.
    return None


async def leaves_ended(client: ChainClient, unit_id: bytes, unit: Unit, final: bytes) -> tuple[str, CheckEnd | None]:
    """Return a sentence about an ended check, and its end as far as the node serves it."""
    end = await check_end(client, unit_id, unit, final)
    if end is not None:
        return end.says(unit), end
    said = "a leaf was wrong or not shown" if unit.is_refuted else "no leaf was refuted"
    return "; ".join((f"the check is over: {said}", *_lost_and_back(unit), NOT_SHOWN)), None


async def dispute_ended(client: ChainClient, unit_id: bytes, unit: Unit) -> str | None:
    """Return a sentence about racers with another answer than the settled one. None if there are none."""
    if unit.state is not UnitState.SETTLED or unit.output_root is None:
        return None
    others = [racer for racer in unit.racers if racer.reveal and racer.reveal.output_root != unit.output_root]
    if not others:
        return None
    said = await _how_decided(client, unit_id, unit, others)
    back = f"its customer got {_amount(unit.price)} of that back"
    return "; ".join((said, *_lost(unit, others), back))


def lost_by(unit: Unit, racer: Racer) -> int:
    """Return the collateral that a racer lost, in grains."""
    return max(0, money.collateral(unit.rules, unit.price) - racer.collateral) if unit.price else 0


async def _how_decided(client: ChainClient, unit_id: bytes, unit: Unit, others: list[Racer]) -> str:
    dispute = await _dispute_before(client, unit_id, unit) if unit.leaf_audit_ppm else None
    if dispute is None:
        return f"its racers gave different answers; that of {_names(racer.owner for racer in others)} is wrong"
    if dispute.stage is DisputeStage.JUDGED:
        return f"its racers differed first in leaf {dispute.leaf}, which judges computed"
    silent = [who for side in dispute.sides if not side.has_shown for who in side.accounts]
    return f"its racers differed, and {_names(silent)} did not show its tree"


async def _dispute_before(client: ChainClient, unit_id: bytes, unit: Unit) -> LeafDispute | None:
    """Return the dispute before the block that settled its unit."""
    try:
        before = await client.block_id(unit.ended_at - 1)
        found: LeafDispute | None = await client.read(LeafDisputes.disputes, unit_id, at=before)
    except (RpcError, OddAnswerError):
        return None
    return found


async def _last_of(client: ChainClient, unit_id: bytes, first: int, last: int) -> tuple[int, LeafCheck] | None:
    """Return the last block whose state has the check, and that check.

    The check must be over by `last`. Return None if it was over by `first` too.
    """
    found = await _check_after(client, unit_id, first)
    if found is None:
        return None
    there = first
    # Invariant: the check exists after block `there`, and is over after block `last`.
    while last - there > 1:
        middle = (there + last) // 2
        check = await _check_after(client, unit_id, middle)
        if check is None:
            last = middle
        else:
            there, found = middle, check
    return there, found


async def _check_after(client: ChainClient, unit_id: bytes, height: int) -> LeafCheck | None:
    found: LeafCheck | None = await client.read(LeafChecks.checks, unit_id, at=await client.block_id(height))
    return found


async def _end_after(client: ChainClient, unit_id: bytes, height: int, check: LeafCheck) -> CheckEnd | None:
    events = [record.event for record in await client.events(await client.block_id(height + 1))]
    told = next((each for each in events if isinstance(each, LeafCheckEnded) and each.unit == unit_id), None)
    if told is None:
        return None
    case = next((each for each in events if isinstance(each, CaseEnded) and each.case == check.case), None)
    moved = None if case is None else await moved_by(client, height + 1, case)
    return CheckEnd(height + 1, told, check, case, moved)


def _lost_and_back(unit: Unit) -> list[str]:
    """Return clauses about a refuted result: the racers' losses, and the money returned to the customer."""
    winner = winner_of(unit)
    if not unit.is_refuted or winner is None:
        return []
    answered = [racer for racer in unit.racers if racer.reveal and racer.reveal.output_root == unit.output_root]
    return [*_lost(unit, answered), f"its customer got {_amount(money.due(unit, winner))} back"]


def _lost(unit: Unit, racers: Iterable[Racer]) -> list[str]:
    return [f"{_names([racer.owner])} lost {_amount(lost_by(unit, racer))}" for racer in racers]


def _drawn(check: LeafCheck) -> str:
    return "drawn leaf" if len(check.shown) == 1 else f"{len(check.shown)} drawn leaves"


def _names(accounts: Iterable[bytes]) -> str:
    return ", ".join(ss58.encode(who)[:ACCOUNT_LETTERS] for who in accounts)


def _amount(grains: int) -> str:
    return f"{format_amount(grains)} {SYMBOL}"
