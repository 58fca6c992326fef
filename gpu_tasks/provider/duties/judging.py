"""Seats in cases about units, about the disputed leaf of a batch, and about shown leaves.

Invariant: leaves are computed from the input, never taken from a racer's data.
"""

from __future__ import annotations

from gpu_tasks.data.unit_input import UnitInput
from gpu_tasks.market.courts.courts_api import SeatStatus
from gpu_tasks.market.courts.opinions import Statement
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.leaf_checks.leaf_checks import LeafChecks
from gpu_tasks.market.leaf_disputes.disputes import DisputeStage
from gpu_tasks.provider.blobs.kept_inputs import InputUse
from gpu_tasks.provider.chain.port import ChainError, UnitCasePort
from gpu_tasks.provider.duties.cases import Case, DisputedLeaf, Lacking, LeafCase, Search, must_give_up, seated
from gpu_tasks.provider.duties.leaf_work import computed_leaves, proof_by
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.duties.seats import UNANSWERABLE, SeatDuty
from gpu_tasks.provider.duties.verdicts import FoundRight, find_verdict, leaf_verdict, stated
from gpu_tasks.provider.execution.executor import ExecutionError
from gpu_tasks.workloads.form import WorkloadForm


class JudgeDuty(SeatDuty[Case]):
    """The steps of all cases about units and leaves."""

    parts: Parts[UnitCasePort]

    async def _case(self, judge_seat: SeatStatus) -> Case | None:
        if judge_seat.status.case.handler == LeafChecks.index:
            return await self._leaf_case(judge_seat)
        unit_status = (
            await self.parts.chain.unit(judge_seat.id)
            if judge_seat.status.case.handler == InferenceMarket.index
            else None
        )
        if unit_status is None:
            return None
        leaf_dispute = await self.parts.chain.final_dispute(judge_seat.id) if unit_status.unit.leaf_audit_ppm else None
        if leaf_dispute is None:
            return Case(*seated(judge_seat), unit_status.unit)
        # in another stage the case is over or not final yet
        is_judged = leaf_dispute.stage is DisputeStage.JUDGED
        return DisputedLeaf(*seated(judge_seat), unit_status.unit, leaf_dispute.leaf) if is_judged else None

    async def _leaf_case(self, judge_seat: SeatStatus) -> LeafCase | None:
        check_status = await self.parts.chain.check_of_case(judge_seat.id)
        unit = None if check_status is None else await self.parts.chain.unit(check_status.unit)
        if check_status is None or unit is None:
            return None
        return LeafCase(*seated(judge_seat), unit.unit, check_status.unit, check_status.check)

    def _given_up(self, case: Case, search: Search, newest_height: int) -> Statement | None:
        # A judge that is merely slow says nothing. Only a missing input becomes an answer.
        return UNANSWERABLE if search.lacks is Lacking.INPUT and must_give_up(case, newest_height) else None

    async def _found(self, judged_case: Case, search: Search) -> Statement:
        workload_form = await self.parts.form_of(judged_case.unit)
        search.lacks = Lacking.INPUT
        unit_input = await self.parts.inputs.open(judged_case.posted_as, judged_case.unit, InputUse.LOOKED_AT)
        search.lacks = Lacking.NOTHING
        match judged_case:
            case DisputedLeaf():
                return await leaf_verdict(self.parts, judged_case, workload_form, unit_input, judged_case.leaf)
            case LeafCase():
                return await self._shown_leaves(judged_case, workload_form, unit_input)
            case _:
                return await find_verdict(self.parts, judged_case, workload_form, unit_input)

    async def _shown_leaves(self, case: LeafCase, workload_form: WorkloadForm, unit_input: UnitInput) -> Statement:
        """Return the statement about the doubted leaf, or about the auditor's proof.

        It raises the errors of `_found`.
        """
        leaf_check, doubt, identity = case.check, case.check.doubt, self.parts.identity
        leaf_indices = [leaf.index for leaf in leaf_check.shown] if doubt is None else [doubt.shown.index]
        leaves = await computed_leaves(self.parts, case.batch, case.unit, workload_form, unit_input, leaf_indices)
        if doubt is not None:
            root = leaves[0].claim
        elif leaf_check.auditor is not None:
            # The auditor's proof is computed again from the leaves: an auditor that computed nothing cannot have the
            # right one.
            root = proof_by(identity.genesis, case.batch, leaf_check, leaf_check.auditor, unit_input.salt, leaves)
        else:
            raise ExecutionError("the case has no subject", code="no_subject")
        requests, outcomes = (
            tuple(found_leaf.request for found_leaf in leaves),
            tuple(found_leaf.outcome for found_leaf in leaves),
        )
        return await stated(self.parts, case, FoundRight(workload_form, unit_input.salt, requests, outcomes, root))

    async def _check_final(self, case: Case) -> None:
        status = await self.parts.chain.final_unit(case.posted_as)
        if status is None or status.unit.terms != case.unit.terms:
            raise ChainError(
                "the node's input differs from the final chain's, so the judgement is void", code="input_not_final"
            )
        if isinstance(case, DisputedLeaf):
            await self._check_leaf(case)

    async def _check_leaf(self, case: DisputedLeaf) -> None:
        """Raise ChainError unless this leaf is still the seat's. A batch may have several cases in sequence."""
        leaf_dispute = await self.parts.chain.final_dispute(case.id)
        places = {
            judge_seat.seat.probe_place
            for judge_seat in await self.parts.chain.final_seats()
            if judge_seat.id == case.id
        }
        is_same_dispute = (
            leaf_dispute is not None and leaf_dispute.stage is DisputeStage.JUDGED and leaf_dispute.leaf == case.leaf
        )
        if not is_same_dispute or case.seat.probe_place not in places:
            raise ChainError("the case is now about another leaf", code="other_leaf")
