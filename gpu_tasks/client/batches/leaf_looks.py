"""A customer looks at its batch: requests are computed again here, and a leaf that is wrong is what a dispute is about.

Always: a leaf is called wrong only where the same request gives something else on this machine; how a check stands, and
why a leaf can or cannot be disputed now, is said in words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpu_tasks.batches.leaves import Leaf, leaf_of, leaves_of
from gpu_tasks.batches.sum_tree import leaf_claim, leaf_path, totals_of
from gpu_tasks.client.results import PaidOutput, ResultError
from gpu_tasks.market.inference.units import Unit
from gpu_tasks.market.leaf_checks.checks import LeafCheck, LeafStage
from gpu_tasks.market.leaf_checks.leaf_checks import LeafChecks
from gpu_tasks.workloads import registry
from gpu_tasks.workloads.form import outcomes_of
from gpu_tasks.workloads.workload import NonConformingBackendError, Workload
from runtime.frame.call import Call

WORDS = {
    LeafStage.AWAITED: "which leaves are looked at is drawn once the next blocks are final",
    LeafStage.SHOWING: "who answered shows the leaves that were drawn, up to block {deadline}",
    LeafStage.CHECKING: "an auditor computes the leaves that were drawn, up to block {deadline}",
    LeafStage.PROVING: "an auditor has passed the leaves that were drawn; courts may look at that",
    LeafStage.DOUBTED: "judges compute leaf {leaf}, which was called wrong",
    LeafStage.OPEN: "its customer may dispute any leaf, up to block {deadline}",
}


def why_checked(check: LeafCheck) -> str:
    """A sentence: how far the check of a batch is."""
    leaf = "" if check.doubt is None else check.doubt.shown.index
    return WORDS[check.stage].format(deadline=check.deadline, leaf=leaf)


def is_early(check: LeafCheck | None) -> bool:
    """Whether a check goes on whose leaves its customer may dispute later."""
    return check is not None and check.stage is not LeafStage.OPEN


def require_disputable(unit: Unit, check: LeafCheck | None, height: int) -> LeafCheck:
    """The check of a batch whose leaves may be disputed in the next block; ResultError says why not, and what then."""
    if check is None and not unit.leaf_audit_ppm:
        raise ResultError(
            "its leaves are not checked: it has too few requests, or the chain had fewer than six in office when it "
            "was posted; it is audited as a whole, now and then, without anybody's word"
        )
    if check is None:
        since = f", and the unit ended in block {unit.ended_at}" if unit.ended_at else ""
        raise ResultError(f"the time to dispute a leaf of it is over: its check has ended{since}")
    assert not is_early(check), "who is early waits"
    if height >= check.deadline:
        raise ResultError(f"the time to dispute a leaf of it was over after block {check.deadline}")
    return check


@dataclass(frozen=True, slots=True)
class WrongLeaf:
    """A leaf of a result that this machine does not find, and what it found instead."""

    index: int
    said: tuple[Leaf, ...]
    found: Leaf

    def dispute(self, unit_id: bytes) -> Call:
        """The call that brings it before the courts."""
        return LeafChecks.dispute_leaf(
            unit=unit_id,
            totals=totals_of(self.said),
            path=leaf_path(self.said, self.index),
            found=leaf_claim(self.index, self.found),
        )


def first_wrong(
    genesis: bytes,
    unit_id: bytes,
    paid: PaidOutput,
    indices: Sequence[int],
    backend: str,
    tell: Callable[[int], None],
) -> WrongLeaf | None:
    """The first of these leaves that is another one than was paid for; `tell` hears how many are computed."""
    form = paid.form
    if form is None:
        raise ResultError("this program does not know the workload, so it cannot compute it")
    if indices and max(indices) >= len(paid.requests):
        raise ResultError(f"the batch has {len(paid.requests)} requests, counted from 0")
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
        raise ResultError(f"nothing can be computed here: {error}; name another --backend") from None
