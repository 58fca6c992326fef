"""A seat in a case about a leaf of a batch, or about what its auditor passed with: as one about a unit, but computed.

Always: the leaves are computed from the input, whatever anybody shows; journal and commits are those of any seat.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpu_tasks.data.unit_input import UnitInput
from gpu_tasks.market.courts.opinions import Statement
from gpu_tasks.market.courts_api import SeatStatus
from gpu_tasks.market.leaf_checks.checks import LeafCheck
from gpu_tasks.market.leaf_checks.leaf_checks import LeafChecks
from gpu_tasks.provider.chain.port import ChainError
from gpu_tasks.provider.duties.cases import TASK_CASES, Case
from gpu_tasks.provider.duties.judging import JudgeDuty
from gpu_tasks.provider.duties.leaf_work import computed_leaves, proof_by
from gpu_tasks.provider.duties.verdicts import FoundRight, stated
from gpu_tasks.provider.execution.executor import ExecutionError
from gpu_tasks.workloads.form import WorkloadForm


@dataclass(frozen=True, slots=True)
class LeafCase(Case):
    """`unit_id` is the case's own id, `unit` the batch that it is about."""

    batch: bytes
    check: LeafCheck

    @property
    def key(self) -> tuple[bytes, int]:
        """How the journal names it: a case of its own, which has each kind of bench once."""
        return self.unit_id, TASK_CASES + self.seat.bench

    @property
    def posted_as(self) -> bytes:
        """The batch whose input is looked at."""
        return self.batch


class LeafJudgeDuty(JudgeDuty):
    """Takes the steps of all cases of checks."""

    async def _case(self, seat: SeatStatus) -> Case | None:
        if seat.status.case.handler != LeafChecks.index:
            return None
        found = await self.parts.chain.check_of_case(seat.id)
        posted = None if found is None else await self.parts.chain.unit(found.unit)
        if found is None or posted is None:
            return None
        status = seat.status
        return LeafCase(
            seat.id, posted.unit, status.case, seat.seat, status.commits_until, status.opens_from, found.unit,
            found.check,
        )  # fmt: skip

    async def _verdict(self, case: Case, form: WorkloadForm, asked: UnitInput) -> Statement:
        assert isinstance(case, LeafCase), "this duty makes no others"
        check, doubt, identity = case.check, case.check.doubt, self.parts.identity
        indices = [leaf.index for leaf in check.shown] if doubt is None else [doubt.shown.index]
        found = await computed_leaves(self.parts, case.batch, case.unit, form, asked, indices)
        if doubt is not None:
            root = found[0].claim
        elif check.auditor is not None:
            root = proof_by(identity.genesis, case.batch, check, check.auditor, asked.salt, found)
        else:
            raise ExecutionError("the case is about nothing")
        requests, outcomes = tuple(each.request for each in found), tuple(each.outcome for each in found)
        return await stated(self.parts, case, FoundRight(form, asked.salt, requests, outcomes, root))

    async def _check_final(self, case: Case) -> None:
        """ChainError if what was judged is not what the final chain asks for."""
        assert isinstance(case, LeafCase), "this duty makes no others"
        status = await self.parts.chain.final_unit(case.batch)
        if status is None or status.unit.terms != case.unit.terms:
            raise ChainError("the node said another input than the final chain holds: judged in vain")
