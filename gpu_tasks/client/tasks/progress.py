"""Following a task: a line for each change, with the reason for the wait, until it has ended in the final chain.

With the customer's key, the follower also holds the task's checkpoints, and hands them on when providers change.

Invariants:

* A failure to hold a checkpoint is reported with its reason, and tried again.
* The follower sends nothing else.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

import click

from cli.chain_time import ChainTime, read_time
from cli.output import Output, fields_of, plain
from gpu_tasks.client.tasks import records
from gpu_tasks.client.tasks.records import task_view
from gpu_tasks.client.tasks.results import CheckpointKeeper, RunBlobError
from gpu_tasks.client.tasks.task_checks import task_checks
from gpu_tasks.client.units.watch import moments
from gpu_tasks.data import training_reads
from gpu_tasks.market.training.tasks import Task, TaskState, is_open
from runtime.frame.call import Call
from wallet.client import ChainClient, NotIncludedError, Outcome
from wallet.errors import WalletError, harmless
from wallet.proved.refutation import NodeRefutedError
from wallet.rpc import RpcError

BLOCKS_BETWEEN_TRIES = 3
"""Blocks between attempts. A checkpoint has a megabyte, so a store without it is not asked in every block."""

Send = Callable[[Call], Awaitable[Outcome]]
Hand = Callable[[Task, bytes], Awaitable[None]]


@dataclass(slots=True)
class TaskFollower:
    """Follows one task. `keeper` and `send` are set if the key is the task's customer's."""

    client: ChainClient
    task_id: bytes
    keeper: CheckpointKeeper | None
    send: Send
    hand: Hand | None = None
    """A function that hands the secrets to the task's provider at a block. None if there are no secrets."""
    _next_try: int = 0
    _problem: str | None = None
    _hands: tuple[Any, ...] = field(default=())
    _handed: tuple[Any, ...] = field(default=())
    """The auction and providers that have received the secrets."""
    _said: str | None = None
    """The last announced step."""
    _pace: ChainTime | None = None
    """The time at an earlier block."""

    async def changes(self) -> AsyncIterator[tuple[int, Task | None, dict[str, Any]]]:
        """Yield the height, the task and its row at each change in the final chain, until the task has ended."""
        row_before: dict[str, Any] | None = None
        async for _ in moments(self.client):
            final_hash = await self.client.finalized()
            height = await self.client.height(final_hash)
            task = await training_reads.task(self.client, self.task_id, final_hash)
            if task is None:
                yield height, None, {"task": self.task_id, "state": "forgotten by the chain", "why": None}
                return
            row = fields_of(
                task_view(self.task_id, task, await task_checks(self.client, self.task_id, task, final_hash))
            )
            activity = self._next_step(task, height)
            if activity is not None and activity != self._said:
                self._said, row_before = activity, dict(row)
                yield height, task, row | {"why": f"{row['why']}; {activity}"}
            await self._do(task, final_hash, height)
            if self._problem is not None:
                row["why"] = f"{row['why']}; {self._problem}"
            if row != row_before:
                row_before = row
                yield height, task, row
            if not is_open(task):
                if self.keeper is not None:
                    self.keeper.forget(self.task_id)
                return

    async def said(self, height: int, row: dict[str, Any]) -> list[str]:
        """Return the state of a row, and the reason with the times of its blocks, if there is one."""
        if row["why"] is None:
            return [row["state"]]
        if self._pace is None:
            self._pace = await read_time(self.client, await self.client.finalized())
        return [row["state"], replace(self._pace, height=height).timed(row["why"])]

    def _next_step(self, task: Task, height: int) -> str | None:
        """Return the next step of the customer's key in words. Fetching, storing and a final block take some time."""
        if self.keeper is None or height < self._next_try:
            return None
        if self._hands and self._hands != _hands(task) and task.checkpoint is not None and is_open(task):
            return f"storing the checkpoint of milestone {task.checkpoint.milestone.number} again, for the successor"
        number = records.unheld(task)
        if number is not None:
            return f"confirming milestone {number}: fetching, checking and storing its checkpoint"
        if self._is_to_hand(task):
            return "handing over its secrets; then its program starts"
        return None

    def _is_to_hand(self, task: Task) -> bool:
        return self.hand is not None and task.state is TaskState.RUNNING and self._handed != _hands(task)

    async def _do(self, task: Task, final_hash: bytes, height: int) -> None:
        """Carry out the steps of the customer's key for its task at a block."""
        if self.keeper is None:
            return
        hands = _hands(task)
        if height < self._next_try:
            return
        if self._hands and hands != self._hands:
            # The copy of the provider that left is gone with it, and its successor begins from this checkpoint.
            handing = self.keeper.hand_on(self.task_id, task, final_hash)
            if not await self._tried(handing, height, "checkpoint not handed on"):
                return
        self._hands = hands
        if records.unheld(task) is not None:
            await self._tried(self._hold(self.keeper, task, final_hash), height, "not held")
        elif self.hand is not None and self._is_to_hand(task):
            if await self._tried(self.hand(task, final_hash), height, "its secrets are not handed over"):
                self._handed = _hands(task)
        else:
            self._problem = None

    async def _tried(self, work: Awaitable[None], height: int, subject: str) -> bool:
        """Run `work`, and return True if it succeeded. After a failure, note the reason and wait some blocks."""
        try:
            await work
        # The node lied, so none of its answers is of use.
        except NodeRefutedError:
            raise
        except (WalletError, RpcError, NotIncludedError) as error:
            self._problem = f"{subject}: {error}"
            self._next_try = height + BLOCKS_BETWEEN_TRIES
            return False
        self._problem = None
        return True

    async def _hold(self, keeper: CheckpointKeeper, task: Task, final_hash: bytes) -> None:
        await self._send(await keeper.take(self.task_id, task, final_hash))

    async def _send(self, call: Call) -> None:
        outcome = await self.send(call)
        if not outcome.is_success:
            reason = f"{call.name} failed in block {outcome.block_number}: {outcome.error}"
            raise RunBlobError(reason, code="call_failed")


def _hands(task: Task) -> tuple[Any, ...]:
    """Return the providers of a task, and the milestone at which they began."""
    return (task.auction, task.behind, *(slot.provider for slot in task.slots))


async def show_changes(follower: TaskFollower, output: Output) -> Task | None:
    """Follow a task to its end, with a line for each change.

    Return its last state, or None if the chain forgot it.
    """
    last: Task | None = None
    async for height, task, row in follower.changes():
        last = task
        if output.as_json:
            click.echo(json.dumps({"height": height, **plain(row)}))
        else:
            # The reason may quote a provider or a store.
            click.echo(harmless(f"block {height}  {'  '.join(await follower.said(height, row))}"))
    return last
