"""Bids: examine auctions, try their work on the device that would do it, and bid.

Invariants:

* Before a bid, the input is opened, its checkpoint fetched and checked, and some steps taken on the device itself. So
  the promise is measured.
* A bid with its salt is in the journal before its commitment is sent. There is one bid in each auction.
* The log has a reason for each auction without a bid.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from dataclasses import dataclass

from gpu_tasks.data.blob_client import BlobError
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.inference.gpu_tasks_api import DeviceStatus
from gpu_tasks.market.training.orders import runs_program
from gpu_tasks.market.training.tasks import Task, TaskState
from gpu_tasks.market.training.terms import TaskTerms
from gpu_tasks.provider.blobs.inputs import UnusableInputError
from gpu_tasks.provider.chain.port import BidPort, ChainError, View
from gpu_tasks.provider.duties.duty import Duty
from gpu_tasks.provider.duties.keyed_tasks import KeyedTasks
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.execution.executor import BadRequestError, ExecutionError
from gpu_tasks.provider.journal.task_records import BidBasis, TaskEntry, TaskKey
from gpu_tasks.provider.programs.means import CONTAINER_KIND
from gpu_tasks.provider.programs.requests import ProgramError, UnfitProgramError
from gpu_tasks.provider.programs.supervisor import ContainerSupervisor
from gpu_tasks.provider.tasks.bid_terms import (
    Means,
    MeasuredRun,
    UnfitError,
    check_device,
    check_price,
    check_program,
    check_task,
    offer_for,
    program_offer,
)
from gpu_tasks.provider.tasks.policy import BidPolicy
from gpu_tasks.provider.tasks.policy_file import HostMachine, PolicySource
from gpu_tasks.provider.tasks.replica_places import sale_number, seeks_devices
from gpu_tasks.provider.tasks.task_book import TaskBook
from gpu_tasks.provider.tasks.task_inputs import form_of
from wallet.errors import code_of

TRIES_MAX = 3
"""Attempts at preparing a task before it is given up."""
REFUSED_MAX = 4_096
"""The most remembered auctions without a bid."""
NOT_MEASURED = MeasuredRun((), 0, 0)
"""The empty measurement of a program that sells time. No step of it runs before its start."""
PREPARED_MAX = 4
"""Tasks prepared at once. Each may hold a megabyte of state, and fetches blobs."""


@dataclass(slots=True)
class _BidTry:
    """An auction in preparation, or one that was given up."""

    terms: TaskTerms
    """The terms. A raised price makes it another task."""
    count: int = 0
    is_refused: bool = False


class BidDuty(Duty):
    """The duty to examine auctions and bid. `working` continues with the bids."""

    def __init__(
        self,
        parts: Parts[BidPort],
        book: TaskBook,
        programs: ContainerSupervisor,
        policy_source: PolicySource,
        machine: HostMachine,
        reason_against: Callable[[bytes, DeviceClass], str] = lambda *_: "",
        in_session: Callable[[], Collection[bytes]] = tuple,
    ) -> None:
        """There is no bid yet. `reason_against` returns the reason that the chain accepts no bid with a device.

        `in_session` returns the devices with a session, which get no task beside it.
        """
        self._reason_against = reason_against
        self._in_session = in_session
        self.parts = parts
        self.book = book
        self.tasks = KeyedTasks()
        self.running = (self.tasks,)
        self._programs = programs
        self._policy = policy_source
        self._machine = machine
        self._bid_tries: dict[TaskKey, _BidTry] = {}
        self._preparing: dict[TaskKey, bytes] = {}
        self._told_problem = ""

    async def step(self, view: View) -> None:
        """Examine the auctions of a block. Raise ChainError if they cannot be read."""
        policy = self._policy.policy()
        if self._policy.problem != self._told_problem:
            # Told once for each change, and not at every block.
            self._told_problem = self._policy.problem
            self.parts.telemetry.tell("policy", problem=self._policy.problem or "it is readable again")
        if not policy.kinds:
            return
        auctions = await self.parts.chain.auctions()
        stash = self.parts.identity.stash
        # Known auctions are dropped first, so that a block without new ones costs no further reads.
        fresh_tasks = {
            task_key: task for task_key, task in _open_tasks(auctions, stash).items() if self._is_new(task_key, task)
        }
        if not fresh_tasks:
            return
        spendable, slot_length_ms = await self.parts.chain.spendable(), await self.parts.chain.slot_ms()
        own_devices = await self.parts.chain.own_devices()
        for task_key, task in fresh_tasks.items():
            try:
                if runs_program(task.order):
                    program_offer(task, policy, slot_length_ms)
                else:
                    check_price(task, policy, slot_length_ms)
                self._look_at_task(task_key, task, policy, own_devices, spendable, view.newest)
            except (UnfitError, ExecutionError) as error:
                self._pass_over(task_key, error)

    def _is_new(self, task_key: TaskKey, task: Task) -> bool:
        attempt = self._bid_tries.get(task_key)
        # A raised price makes another auction of it, which deserves another look.
        is_refused = attempt is not None and attempt.is_refused and attempt.terms == task.terms
        return task_key not in self.parts.journal.tasks and task_key not in self._preparing and not is_refused

    def _look_at_task(
        self,
        task_key: TaskKey,
        task: Task,
        policy: BidPolicy,
        own_devices: list[DeviceStatus],
        spendable: int,
        newest_height: int,
    ) -> None:
        """Start to prepare a bid with a suitable device.

        Raise UnfitError or ExecutionError with the reason if there is none.
        """
        self._check_against_policy(task, policy, self._task_means(spendable, 0), newest_height)
        if len(self._preparing) >= PREPARED_MAX:
            raise UnfitError(f"{PREPARED_MAX} other bids are being prepared", code="too_many_bids")
        free_device = self._device_for(task, own_devices)
        self._preparing[task_key] = free_device
        self.tasks.start(task_key, self._place_bid(task_key, task, free_device, newest_height))

    def _check_against_policy(self, task: Task, policy: BidPolicy, means: Means, newest_height: int) -> None:
        kind = CONTAINER_KIND if runs_program(task.order) else form_of(self.parts, task.order).name
        weekday, minute_of_day = self._machine.time_of_week()
        is_idle_enough = not policy.only_when_idle or (
            self._machine.is_idle() and not any(self.parts.journal.open_races())
        )
        refusal_reason = policy.forbids(kind, weekday, minute_of_day, is_idle=is_idle_enough)
        if refusal_reason:
            raise UnfitError(refusal_reason, code="policy_refuses")
        if not runs_program(task.order):
            check_task(task, means, policy, newest_height)
        elif self._programs.why_not:
            raise UnfitError(self._programs.why_not, code="no_container_engine")
        else:
            check_program(task, means, newest_height)

    def _task_means(self, spendable: int, disk_bytes: int) -> Means:
        # Less the promised grains: a bid won without its collateral loses its bond.
        return Means(self.parts.identity.stash, spendable - self.book.promised(), disk_bytes)

    def _device_for(self, task: Task, own_devices: list[DeviceStatus]) -> bytes:
        """Return a device that is here, free and in no other bid.

        Raise UnfitError with the reason of the last unfit one.
        """
        unfit_error = UnfitError("no device of this provider is on this machine", code="no_device_here")
        devices_in_use = self.book.devices_in_use() | set(self._preparing.values())
        for status in own_devices:
            if status.id not in self.parts.workers.devices:
                continue
            try:
                check_device(task, status.device, self._reason_against(status.id, status.device.kind))
                self._check_sessions(status.id)
            except UnfitError as error:
                unfit_error = error
                continue
            if status.id not in devices_in_use:
                return status.id
            unfit_error = UnfitError("the device has a bid for another task", code="device_in_bid")
        raise unfit_error

    def _check_sessions(self, device_id: bytes) -> None:
        # A task computes without pause, so both would miss their times.
        if device_id in self._in_session():
            raise UnfitError("the device serves a session, or stands by for one", code="device_in_session")

    async def _place_bid(self, task_key: TaskKey, task: Task, device_id: bytes, newest_height: int) -> None:
        """Prepare, measure and promise."""
        new_try = self._bid_tries.get(task_key)
        # A customer that raises the price gets a new attempt.
        if new_try is None or new_try.terms != task.terms:
            new_try = self._bid_tries[task_key] = _BidTry(task.terms)
        new_try.count += 1
        try:
            await self._prepared_bid(task_key, task, device_id, newest_height)
        except (UnusableInputError, BadRequestError, UnfitError, UnfitProgramError) as error:
            self._let_pass(task_key, new_try, error)
        except (BlobError, ExecutionError, ProgramError, ChainError, OSError) as error:
            if new_try.count >= TRIES_MAX:
                self._let_pass(task_key, new_try, error, f"; tried {new_try.count} times")
            else:
                self._pass_over(task_key, error, "; tried again with the next block")
        finally:
            del self._preparing[task_key]
            if task_key not in self.parts.journal.tasks:  # without a bid, nothing needs the prepared program
                await self._programs.remove(task_key)

    async def _prepared_bid(self, task_key: TaskKey, task: Task, device_id: bytes, newest_height: int) -> None:
        parts, (task_id, auction) = self.parts, task_key
        is_for_time, measured, disk_bytes = runs_program(task.order), NOT_MEASURED, 0
        if is_for_time:
            await self._programs.prepare(parts, task_key, task, device_id)
        else:
            task_run = await self.book.prepare(task_id, task, device_id)
            measured, disk_bytes = await task_run.measure(), task_run.folder.free_bytes()
        slot_length_ms, spendable = await parts.chain.slot_ms(), await parts.chain.spendable()
        current_task = (await parts.chain.tasks([task_id], final=True)).get(task_id)
        # Bids follow the final chain, because a task that is not final may change or vanish.
        if current_task is None:
            raise ChainError("the final chain does not have the task yet", code="task_not_final")
        # The preparation took time. The auction may have ended or restarted meanwhile.
        if (
            current_task.order != task.order
            or sale_number(current_task) != auction
            or current_task.state is not task.state
        ):
            raise UnfitError("its auction is over", code="auction_over")
        # no await from here on, so that two bids cannot promise the same device or grains
        policy, means = self._policy.policy(), self._task_means(spendable, disk_bytes)
        self._check_against_policy(current_task, policy, means, newest_height)
        bid_offer = (
            program_offer(current_task, policy, slot_length_ms)
            if is_for_time
            else offer_for(current_task, measured, policy, slot_length_ms, means)
        )
        if device_id in self.book.devices_in_use():
            raise UnfitError("the device has a bid for another task", code="device_in_bid")
        self._check_sessions(device_id)
        bid_basis = BidBasis(current_task.order.task_hash, current_task.order.input_root, current_task.order.input_blob)
        # On the disk before its commitment is sent: a bid without its salt cannot be opened, and its bond burns.
        parts.journal.tasks.put(task_key, TaskEntry(device_id, bid_basis, bid_offer, os.urandom(32)))
        parts.telemetry.tell(
            "bid", task=task_id, auction=auction, device=device_id,
            price=bid_offer.price, blocks=bid_offer.blocks, collateral=bid_offer.collateral, step_us=measured.step_us,
        )  # fmt: skip

    def _pass_over(self, task_key: TaskKey, error: Exception, more_text: str = "") -> None:
        self.book.wait(task_key[0], "not_bid", f"{error}{more_text}", code=code_of(error))

    def _let_pass(self, task_key: TaskKey, attempt: _BidTry, error: Exception, more_text: str = "") -> None:
        attempt.is_refused = True
        self.book.forget(task_key[0])
        self._pass_over(task_key, error, more_text)
        # Anyone can post tasks, so the memory of refused ones needs a bound.
        while len(self._bid_tries) > REFUSED_MAX:
            del self._bid_tries[next(iter(self._bid_tries))]


def _open_tasks(auctions: dict[bytes, Task], stash: bytes) -> dict[TaskKey, Task]:
    """Return the tasks that accept bids or seek replicas, by task and the present number of a bid or offer."""
    return {
        (task_id, sale_number(task)): task
        for task_id, task in auctions.items()
        if task.state is TaskState.COMMITTING or seeks_devices(task, stash)
    }
