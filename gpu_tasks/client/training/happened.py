"""What the blocks of a task's life tell that its record does not: their events, as long as the node keeps the states.

Always: blocks are final ones, read from the newest down until the node shows no older one; what a case moved is
reckoned by the chain's own rules over the state before the block of its end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from gpu_tasks.data.appeals import flows_at_end
from gpu_tasks.market.courts.events import CaseEnded
from gpu_tasks.market.courts.money import Flow
from gpu_tasks.market.training import events
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.tasks import Task, TaskState, slot_case
from wallet.client import ChainClient
from wallet.rpc import OddAnswerError, RpcError
from wallet.trial import TrialError, over_state

BLOCKS_READ = 64
"""A node proves the states of so many final blocks."""
Told = TypeVar("Told")
KINDS = (
    events.TaskSubmitted, events.SlotSettled, events.StandbyReleased,
    events.FraudProven, events.FraudNotShown,
)  # fmt: skip


@dataclass(slots=True)
class TaskEvents:
    """Events of a task with their heights, the newest first, and what its cases moved, by case."""

    told: list[tuple[int, Any]] = field(default_factory=list)
    cases: dict[bytes, tuple[Flow, ...]] = field(default_factory=dict)

    def of(self, kind: type[Told]) -> Iterator[tuple[int, Told]]:
        """Those of a kind, the newest first."""
        return ((height, event) for height, event in self.told if isinstance(event, kind))

    def settled(self, provider: bytes, place: int) -> list[tuple[int, events.SlotSettled]]:
        """How a provider's work on a slot was settled, the newest first: a task may go to auction several times.

        That an interval of bought time was paid ends nothing.
        """
        ends = (each for each in self.of(events.SlotSettled) if each[1].outcome is not TaskOutcome.INTERVAL_PAID)
        return [each for each in ends if (each[1].provider, each[1].place) == (provider, place)]

    @property
    def is_whole(self) -> bool:
        """Whether they are all, since the task was submitted."""
        return any(True for _ in self.of(events.TaskSubmitted))


async def task_events(client: ChainClient, task_id: bytes, task: Task, final: bytes) -> TaskEvents:
    """What the newest blocks of a task's life tell of it, as far as the node shows them."""
    last = await client.height(final)
    oldest = max(task.submitted_at, last - BLOCKS_READ + 1)
    if task.state is TaskState.ENDED:
        last = min(last, task.deadline - task.windows.keep)
    found = TaskEvents()
    cases = {slot_case(task_id, place) for place in range(task.order.slots)}
    for height in range(last, oldest - 1, -1):
        try:
            records = await client.events(await client.block_id(height))
        except (RpcError, OddAnswerError):
            break
        for event in reversed([record.event for record in records]):
            if isinstance(event, KINDS) and event.task == task_id:
                found.told.append((height, event))
            elif isinstance(event, CaseEnded) and event.case in cases:
                found.cases |= await _moved(client, height, event)
    return found


async def _moved(client: ChainClient, height: int, ended: CaseEnded) -> dict[bytes, tuple[Flow, ...]]:
    """What a case moved that ended in a block; nothing where the state before is not there."""
    try:
        before = await client.block_id(height - 1)
        moved = await over_state(client, before, lambda bound: flows_at_end(bound, ended.case, ended))
    except (RpcError, OddAnswerError, TrialError):
        return {}
    return {} if moved is None else {ended.case: moved[1]}
