"""The pallet LeafChecks: drawn leaves of every settled batch are audited.

An answerer shows the leaves that the beacon draws, before any other party has computed them. One auditor, a validator
of the active set, computes them and passes or doubts. A doubt goes before the courts, and a pass sometimes does.

Invariants: each state has a scheduled deadline. The work of the hook is bounded. A check pays only from its own holds,
and nothing is held for one that is over.
"""

from collections.abc import Sequence
from typing import Annotated

from gpu_tasks.batches.leaf_draws import CHECKED_MAX
from gpu_tasks.batches.sum_tree import LeafPath, Totals
from gpu_tasks.market.block_room import KEPT_FOR_UNITS, BlockRoom
from gpu_tasks.market.courts.handlers import CaseRuling
from gpu_tasks.market.ids import UnitId
from gpu_tasks.market.leaf_checks import cases, life
from gpu_tasks.market.leaf_checks import events as ev
from gpu_tasks.market.leaf_checks.checks import ANSWERERS_MAX, LEAF_BOND, LEAF_FEE, LEAF_SEAT, CheckTerms, LeafStage
from gpu_tasks.market.leaf_checks.storage import LeafStorage
from gpu_tasks.market.weights import WEIGHTS
from runtime.encoding.codec import U32, Bounded
from runtime.encoding.types import Hash, Weight
from runtime.frame.measured import times
from runtime.frame.pallet import FREE, PostDispatch, Signed, call
from runtime.frame.schedule import WeightMeter
from runtime.frame.weights import work
from runtime.pallets.staking.slashing import Share

STEP_WEIGHT = work(reads=8, writes=8, microseconds=200)
"""The weight of a check's step: leaves are drawn, or an auditor is asked."""
BEGIN_WEIGHT = work(reads=1, writes=2, microseconds=100)
"""The weight of beginning a window, when the draw of leaves is final."""
END_WEIGHT = WEIGHTS["LeafChecks.on_initialize step"]
"""The weight of ending a check: at most eight answerers that showed nothing, all of which pay."""
AUDITOR_LOOK_WEIGHT = work(reads=6, microseconds=9)
"""The weight of checking that one validator may audit. Usually the first few may."""
HEIGHT_BUDGET = work(microseconds=8_000)
FINAL_BUDGET = work(microseconds=8_000)

ShownPaths = Annotated[tuple[LeafPath, ...], Bounded(CHECKED_MAX)]


class LeafChecks(LeafStorage, index=18):
    """Checks of batches, keyed by unit, for every pallet."""

    events = (
        ev.LeavesDrawn, ev.LeavesShown, ev.AuditorDrawn, ev.AuditorSilent, ev.LeavesPassed, ev.LeafDoubted,
        ev.LeafCheckEnded,
    )  # fmt: skip
    errors = (
        ev.UnknownCheck, ev.NotAnswerer, ev.NotAuditor, ev.NotBatchCustomer, ev.CheckWindowClosed, ev.WrongLeaves,
        ev.NothingDoubted,
    )  # fmt: skip
    hold_reasons = (LEAF_SEAT, LEAF_FEE, LEAF_BOND)

    # ----------------------------------------------------- duty calls: signed by the provider key, free if they succeed

    @call(index=0, weight=WEIGHTS["LeafChecks.show_leaves"])
    def show_leaves(self, origin: Signed, unit: UnitId, totals: Totals, paths: ShownPaths) -> PostDispatch:
        """Show the totals of a result, and the path of the leaf at each drawn point. Free if it succeeds."""
        life.show(self, unit, self.open_check(unit), self.devices.operator(origin.account), totals, paths)
        return FREE

    @call(index=1, weight=WEIGHTS["LeafChecks.pass_leaves"])
    def pass_leaves(self, origin: Signed, unit: UnitId, proof: Hash) -> PostDispatch:
        """Confirm as the auditor that all shown leaves are right, with a proof (`proofs.leaves_proof`).

        Free if it succeeds.
        """
        auditor = self.devices.operator(origin.account)
        life.pass_leaves(self, self.index, unit, self.open_check(unit), auditor, proof)
        return FREE

    @call(index=2, weight=WEIGHTS["LeafChecks.doubt_leaf"])
    def doubt_leaf(self, origin: Signed, unit: UnitId, index: U32, found: Hash) -> PostDispatch:
        """State as the auditor that a shown leaf has another claim. The courts decide. Free if it succeeds."""
        auditor = self.devices.operator(origin.account)
        life.doubt(self, self.index, unit, self.open_check(unit), auditor, index, found)
        return FREE

    # ------------------------------------------------------------------------------------------------- the customer

    @call(index=3, weight=WEIGHTS["LeafChecks.dispute_leaf"])
    def dispute_leaf(self, origin: Signed, unit: UnitId, totals: Totals, path: LeafPath, found: Hash) -> None:
        """State as the customer that any leaf has another claim, with a bond that pays the judges if it has not."""
        life.dispute(self, self.index, unit, self.open_check(unit), origin.account, totals, path, found)

    # -------------------------------------------------------------------------------------------- a method for handlers

    def open(self, unit: bytes, terms: CheckTerms) -> None:
        """Open a check of a settled batch, whose customer holds `terms.fee` as LEAF_FEE for it.

        The handler is charged and receives a ruling as after an audit by the courts.
        """
        life.begin(self, unit, terms)

    # ------------------------------------------------------------------ a handler of cases: the interface to the courts

    def charge_party(self, case: bytes, party: bytes, shares: Sequence[Share]) -> None:
        """Pay the shares out of the hold of an auditor, a customer or an answerer."""
        cases.charge_party(self, case, party, shares)

    def charge_customer(self, case: bytes, shares: Sequence[Share]) -> None:
        """Pay the shares out of a customer's bond of doubt, its only hold for a case."""
        cases.charge_customer(self, case, shares)

    def carry_out(self, case: bytes, ruling: CaseRuling) -> None:
        """Carry out the ruling about a leaf, or about an auditor's pass."""
        cases.carry_out(self, case, ruling)

    # ------------------------------------------------------------------------------------------------------------ hook

    def on_initialize(self) -> Weight:
        """Step every due check. At an era's turn with many candidates, checks may wait a block."""
        room = BlockRoom(self.context.mandatory_left - KEPT_FOR_UNITS.ref_time)
        reached, final = room.budget(HEIGHT_BUDGET), room.budget(FINAL_BUDGET)
        for unit in self.final_agenda.take(self.beacon.final_height(), final):
            check = self.open_check(unit)
            if check.stage is LeafStage.SHOWING:
                final.spend(BEGIN_WEIGHT)
                life.begin_window(self, unit, check)
            else:
                final.spend(STEP_WEIGHT)
                self._step(unit, final)
        for unit in self.agenda.take(self.system.number.get(), reached, STEP_WEIGHT):
            self._step(unit, reached)
        return reached.spent + final.spent

    def _step(self, unit: bytes, budget: WeightMeter) -> None:
        check = self.checks[unit]
        assert check is not None, "every check on an agenda has a record"
        if check.stage is LeafStage.OPEN or (check.stage is LeafStage.SHOWING and not check.shown):
            # Charged by the number of released accounts: charged as the worst end, only three checks a block ended, and
            # a busy market's checks waited for ever.
            share = 1 + len(check.terms.excluded)
            budget.spend(Weight(END_WEIGHT.ref_time * share // (1 + ANSWERERS_MAX), 0))
        budget.spend(times(life.step(self, unit, check), AUDITOR_LOOK_WEIGHT))
