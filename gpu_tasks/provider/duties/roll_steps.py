"""A device at a roll call as its provider sees it, and what to do next about it: a function of chain and disk."""

from __future__ import annotations

from enum import Enum, auto

from gpu_tasks.market.capacity import roll_call as times
from gpu_tasks.market.capacity.proofs import CapacityProof, Enrolment
from gpu_tasks.market.capacity.roll_call import RollCall


class RollStep(Enum):
    """What to do next about a roll call."""

    NOTHING = auto()
    COMPUTE = auto()
    COMMIT = auto()
    SHOW = auto()
    OBJECT = auto()
    """As an inspector of another's device."""


def is_called(called: RollCall | None, enrolled: Enrolment | None) -> bool:
    """Whether a device has to answer the newest roll call."""
    return called is not None and enrolled is not None and enrolled.since < called.at


def next_step(called: RollCall, proof: CapacityProof | None, kept_root: bytes | None, newest: int) -> RollStep:
    """What a device that is called does while the newest block is `newest`: what is sent now comes after it.

    Rows that were lost are computed again, and shown if they have the root that was committed.
    """
    if proof is None:
        if newest >= called.at + times.COMMITS_TO:
            return RollStep.NOTHING
        if kept_root is None:
            return RollStep.COMPUTE
        return RollStep.COMMIT if times.can_commit(called, newest + 1) else RollStep.NOTHING
    is_due = not proof.is_open and newest >= times.rows_at(called) and times.can_open(called, newest + 1)
    if not is_due:
        return RollStep.NOTHING
    if kept_root is None:
        return RollStep.COMPUTE
    return RollStep.SHOW if kept_root == proof.root else RollStep.NOTHING


def can_wait(called: RollCall, step: RollStep, newest: int) -> bool:
    """Whether the chain would still take a step that is sent a block later."""
    if step is RollStep.COMMIT:
        return times.can_commit(called, newest + 2)
    if step is RollStep.SHOW:
        return times.can_open(called, newest + 2)
    return times.can_object(called, newest + 2)


def can_inspect(called: RollCall | None, newest: int) -> bool:
    """Whether inspectors of the newest roll call are drawn, and may still object."""
    return (
        called is not None and newest >= times.inspectors_at(called) and times.can_object(called, newest + 1)
    )  # an objection of now comes after the newest block
