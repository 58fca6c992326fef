"""LeafChecks: every batch that is settled has drawn leaves looked at. This is the pallet: calls, hook, verbs.

Who answered shows the leaves that the beacon names, before anybody has computed them; one auditor, a validator in
office, computes them and passes or doubts; what it doubts goes before the courts, and what it passed with does now and
then. Always: each state has a deadline that the agenda keeps; the hook is bounded by work; a check pays from what is
held for it, and nothing is held for one that is over.
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
"""A check that is looked at: leaves are drawn, or an auditor is asked."""
BEGIN_WEIGHT = work(reads=1, writes=2, microseconds=100)
"""One whose window begins: which leaves are drawn is final."""
END_WEIGHT = WEIGHTS["LeafChecks.on_initialize step"]
"""One that ends: at most eight who showed nothing, all of whom pay."""
AUDITOR_LOOK_WEIGHT = work(reads=6, microseconds=9)
"""One in office, and whether it may audit: mostly the first few may."""
HEIGHT_BUDGET = work(microseconds=8_000)
FINAL_BUDGET = work(microseconds=8_000)

ShownPaths = Annotated[tuple[LeafPath, ...], Bounded(CHECKED_MAX)]


class LeafChecks(LeafStorage, index=18):
    """Checks of batches, keyed by unit, for every pallet that has some."""

    events = (
        ev.LeavesDrawn, ev.LeavesShown, ev.AuditorDrawn, ev.AuditorSilent, ev.LeavesPassed, ev.LeafDoubted,
        ev.LeafCheckEnded,
    )  # fmt: skip
    errors = (
        ev.UnknownCheck, ev.NotAnswerer, ev.NotAuditor, ev.NotBatchCustomer, ev.CheckWindowClosed, ev.WrongLeaves,
        ev.NothingDoubted,
    )  # fmt: skip
    hold_reasons = (LEAF_SEAT, LEAF_FEE, LEAF_BOND)

    # ------------------------------------------------- duty calls: signed by the provider key, free when they succeed

    @call(index=0, weight=WEIGHTS["LeafChecks.show_leaves"])
    def show_leaves(self, origin: Signed, unit: UnitId, totals: Totals, paths: ShownPaths) -> PostDispatch:
        """Show the totals of a result, and for each drawn point the path of the leaf that it names."""
        life.show(self, unit, self.open_check(unit), self.devices.operator(origin.account), totals, paths)
        return FREE

    @call(index=1, weight=WEIGHTS["LeafChecks.pass_leaves"])
    def pass_leaves(self, origin: Signed, unit: UnitId, proof: Hash) -> PostDispatch:
        """Say as the auditor that all leaves that were shown are right, with a proof (proofs.leaves_proof)."""
        auditor = self.devices.operator(origin.account)
        life.pass_leaves(self, self.index, unit, self.open_check(unit), auditor, proof)
        return FREE

    @call(index=2, weight=WEIGHTS["LeafChecks.doubt_leaf"])
    def doubt_leaf(self, origin: Signed, unit: UnitId, index: U32, found: Hash) -> PostDispatch:
        """Say as the auditor that a leaf that was shown has another claim: the courts find out who is right."""
        auditor = self.devices.operator(origin.account)
        life.doubt(self, self.index, unit, self.open_check(unit), auditor, index, found)
        return FREE

    # ------------------------------------------------------------------------------------------------- the customer

    @call(index=3, weight=WEIGHTS["LeafChecks.dispute_leaf"])
    def dispute_leaf(self, origin: Signed, unit: UnitId, totals: Totals, path: LeafPath, found: Hash) -> None:
        """Say as the customer that any leaf has another claim, with a bond that pays the judges if it has not."""
        life.dispute(self, self.index, unit, self.open_check(unit), origin.account, totals, path, found)

    # --------------------------------------------------------------------------------------------- a verb for handlers

    def open(self, unit: bytes, terms: CheckTerms) -> None:
        """Have the leaves of a settled batch looked at; its customer holds `terms.fee` as LEAF_FEE for it.

        The handler is charged and told of the end as by the courts of an audit.
        """
        life.begin(self, unit, terms)

    # ------------------------------------------------------ a handler of cases: what the courts ask of who brings them

    def charge_party(self, case: bytes, party: bytes, shares: Sequence[Share]) -> None:
        """Pay the shares out of what an auditor, a customer or who answered holds."""
        cases.charge_party(self, case, party, shares)

    def charge_customer(self, case: bytes, shares: Sequence[Share]) -> None:
        """Pay the shares out of what a customer doubts with: nothing else of its is held for a case."""
        cases.charge_customer(self, case, shares)

    def carry_out(self, case: bytes, ruling: CaseRuling) -> None:
        """A case about a leaf, or about what an auditor passed with, is over."""
        cases.carry_out(self, case, ruling)

    # ------------------------------------------------------------------------------------------------------------ hook

    def on_initialize(self) -> Weight:
        """Look at every check that is due; where an era turns and many stand for election, it waits a block."""
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
        assert check is not None, "a check that is over is on no agenda"
        if check.stage is LeafStage.OPEN or (check.stage is LeafStage.SHOWING and not check.shown):
            # by who is set free, whether or not it answered: three checks a block, each charged the worst end, left a
            # busy market's to wait for ever
            share = 1 + len(check.terms.excluded)
            budget.spend(Weight(END_WEIGHT.ref_time * share // (1 + ANSWERERS_MAX), 0))
        budget.spend(times(life.step(self, unit, check), AUDITOR_LOOK_WEIGHT))
