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

    async def _case(self, seat: SeatStatus) -> Case | None:
        if seat.status.case.handler == LeafChecks.index:
            return await self._leaf_case(seat)
        status = await self.parts.chain.unit(seat.id) if seat.status.case.handler == InferenceMarket.index else None
        if status is None:
            return None
        dispute = await self.parts.chain.final_dispute(seat.id) if status.unit.leaf_audit_ppm else None
        if dispute is None:
            return Case(*seated(seat), status.unit)
        # in another stage the case is over or not final yet
        is_judged = dispute.stage is DisputeStage.JUDGED
        return DisputedLeaf(*seated(seat), status.unit, dispute.leaf) if is_judged else None

    async def _leaf_case(self, seat: SeatStatus) -> LeafCase | None:
        found = await self.parts.chain.check_of_case(seat.id)
        posted = None if found is None else await self.parts.chain.unit(found.unit)
        if found is None or posted is None:
            return None
        return LeafCase(*seated(seat), posted.unit, found.unit, found.check)

    def _given_up(self, case: Case, search: Search, newest: int) -> Statement | None:
        # A judge that is merely slow says nothing. Only a missing input becomes an answer.
        return UNANSWERABLE if search.lacks is Lacking.INPUT and must_give_up(case, newest) else None

    async def _found(self, case: Case, search: Search) -> Statement:
        form = await self.parts.form_of(case.unit)
        search.lacks = Lacking.INPUT
        asked = await self.parts.inputs.open(case.posted_as, case.unit, InputUse.LOOKED_AT)
        search.lacks = Lacking.NOTHING
        match case:
            case DisputedLeaf():
                return await leaf_verdict(self.parts, case, form, asked, case.leaf)
            case LeafCase():
                return await self._shown_leaves(case, form, asked)
            case _:
                return await find_verdict(self.parts, case, form, asked)

    async def _shown_leaves(self, case: LeafCase, form: WorkloadForm, asked: UnitInput) -> Statement:
        """Return the statement about the doubted leaf, or about the auditor's proof.

        It raises the errors of `_found`.
        """
        check, doubt, identity = case.check, case.check.doubt, self.parts.identity
        indices = [leaf.index for leaf in check.shown] if doubt is None else [doubt.shown.index]
        found = await computed_leaves(self.parts, case.batch, case.unit, form, asked, indices)
        if doubt is not None:
            root = found[0].claim
        elif check.auditor is not None:
            # The auditor's proof is computed again from the leaves: an auditor that computed nothing cannot have the
            # right one.
            root = proof_by(identity.genesis, case.batch, check, check.auditor, asked.salt, found)
        else:
            raise ExecutionError("the case has no subject", code="no_subject")
        requests, outcomes = tuple(each.request for each in found), tuple(each.outcome for each in found)
        return await stated(self.parts, case, FoundRight(form, asked.salt, requests, outcomes, root))

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
        dispute = await self.parts.chain.final_dispute(case.id)
        places = {seat.seat.probe_place for seat in await self.parts.chain.final_seats() if seat.id == case.id}
        is_same = dispute is not None and dispute.stage is DisputeStage.JUDGED and dispute.leaf == case.leaf
        if not is_same or case.seat.probe_place not in places:
            raise ChainError("the case is now about another leaf", code="other_leaf")
