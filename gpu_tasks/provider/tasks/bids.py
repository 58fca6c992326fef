"""Bids: examine auctions, try their work on the device that would do it, and bid.

Invariants:

* Before a bid, the input is opened, its checkpoint fetched and checked, and some steps taken on the device itself. So
  the promise is measured.
* A bid with its salt is in the journal before its commitment is sent. There is one bid in each auction.
* The log has a reason for each auction without a bid.
"""

from __future__ import annotations

import os
from collections.abc import Callable
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
class _Try:
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
        policy: PolicySource,
        machine: HostMachine,
        why_not: Callable[[bytes, DeviceClass], str] = lambda *_: "",
    ) -> None:
        """There is no bid yet. `why_not` returns the reason that the chain accepts no bid with a device."""
        self._why_not = why_not
        self.parts = parts
        self.book = book
        self.tasks = KeyedTasks()
        self.running = (self.tasks,)
        self._programs = programs
        self._policy = policy
        self._machine = machine
        self._tries: dict[TaskKey, _Try] = {}
        self._preparing: dict[TaskKey, bytes] = {}
        self._told_problem = ""

    async def step(self, view: View) -> None:
        """Examine the auctions of a block. Raise ChainError if they cannot be read."""
        policy = self._policy.policy()
        if self._policy.problem != self._told_problem:
            self._told_problem = self._policy.problem
            self.parts.telemetry.tell("policy", problem=self._policy.problem or "it is readable again")
        if not policy.kinds:
            return
        auctions = await self.parts.chain.auctions()
        stash = self.parts.identity.stash
        # Known auctions are dropped first, so that a block without new ones costs no further reads.
        fresh = {key: task for key, task in _open(auctions, stash).items() if self._is_new(key, task)}
        if not fresh:
            return
        spendable, slot_ms = await self.parts.chain.spendable(), await self.parts.chain.slot_ms()
        devices = await self.parts.chain.own_devices()
        for key, task in fresh.items():
            try:
                if runs_program(task.order):
                    program_offer(task, policy, slot_ms)
                else:
                    check_price(task, policy, slot_ms)
                self._look(key, task, policy, devices, spendable, view.newest)
            except (UnfitError, ExecutionError) as error:
                self._pass(key, error)

    def _is_new(self, key: TaskKey, task: Task) -> bool:
        known = self._tries.get(key)
        is_refused = known is not None and known.is_refused and known.terms == task.terms
        return key not in self.parts.journal.tasks and key not in self._preparing and not is_refused

    def _look(
        self,
        key: TaskKey,
        task: Task,
        policy: BidPolicy,
        devices: list[DeviceStatus],
        spendable: int,
        newest: int,
    ) -> None:
        """Start to prepare a bid with a suitable device.

        Raise UnfitError or ExecutionError with the reason if there is none.
        """
        self._check(task, policy, self._means(spendable, 0), newest)
        if len(self._preparing) >= PREPARED_MAX:
            raise UnfitError(f"{PREPARED_MAX} other bids are being prepared", code="too_many_bids")
        device = self._device_for(task, devices)
        self._preparing[key] = device
        self.tasks.start(key, self._bid(key, task, device, newest))

    def _check(self, task: Task, policy: BidPolicy, means: Means, newest: int) -> None:
        kind = CONTAINER_KIND if runs_program(task.order) else form_of(self.parts, task.order).name
        weekday, minute = self._machine.time_of_week()
        is_idle = not policy.only_when_idle or (self._machine.is_idle() and not any(self.parts.journal.open_races()))
        reason = policy.forbids(kind, weekday, minute, is_idle=is_idle)
        if reason:
            raise UnfitError(reason, code="policy_refuses")
        if not runs_program(task.order):
            check_task(task, means, policy, newest)
        elif self._programs.why_not:
            raise UnfitError(self._programs.why_not, code="no_container_engine")
        else:
            check_program(task, means, newest)

    def _means(self, spendable: int, disk_bytes: int) -> Means:
        return Means(self.parts.identity.stash, spendable - self.book.promised(), disk_bytes)

    def _device_for(self, task: Task, devices: list[DeviceStatus]) -> bytes:
        """Return a device that is here, free and in no other bid.

        Raise UnfitError with the reason of the last unfit one.
        """
        unfit = UnfitError("no device of this provider is on this machine", code="no_device_here")
        used = self.book.devices_in_use() | set(self._preparing.values())
        for status in devices:
            if status.id not in self.parts.workers.devices:
                continue
            try:
                check_device(task, status.device, self._why_not(status.id, status.device.kind))
            except UnfitError as error:
                unfit = error
                continue
            if status.id not in used:
                return status.id
            unfit = UnfitError("the device has a bid for another task", code="device_in_bid")
        raise unfit

    async def _bid(self, key: TaskKey, task: Task, device: bytes, newest: int) -> None:
        """Prepare, measure and promise."""
        known = self._tries.get(key)
        # A customer that raises the price gets a new attempt.
        if known is None or known.terms != task.terms:
            known = self._tries[key] = _Try(task.terms)
        known.count += 1
        try:
            await self._prepared_bid(key, task, device, newest)
        except (UnusableInputError, BadRequestError, UnfitError, UnfitProgramError) as error:
            self._let_pass(key, known, error)
        except (BlobError, ExecutionError, ProgramError, ChainError, OSError) as error:
            if known.count >= TRIES_MAX:
                self._let_pass(key, known, error, f"; tried {known.count} times")
            else:
                self._pass(key, error, "; tried again with the next block")
        finally:
            del self._preparing[key]
            if key not in self.parts.journal.tasks:  # without a bid, nothing needs the prepared program
                await self._programs.remove(key)

    async def _prepared_bid(self, key: TaskKey, task: Task, device: bytes, newest: int) -> None:
        parts, (task_id, auction) = self.parts, key
        is_time, measured, disk_bytes = runs_program(task.order), NOT_MEASURED, 0
        if is_time:
            await self._programs.prepare(parts, key, task, device)
        else:
            run = await self.book.prepare(task_id, task, device)
            measured, disk_bytes = await run.measure(), run.folder.free_bytes()
        slot_ms, spendable = await parts.chain.slot_ms(), await parts.chain.spendable()
        now = (await parts.chain.tasks([task_id], final=True)).get(task_id)
        # Bids follow the final chain, because a task that is not final may change or vanish.
        if now is None:
            raise ChainError("the final chain does not have the task yet", code="task_not_final")
        # The preparation took time. The auction may have ended or restarted meanwhile.
        if now.order != task.order or sale_number(now) != auction or now.state is not task.state:
            raise UnfitError("its auction is over", code="auction_over")
        # no await from here on, so that two bids cannot promise the same device or grains
        policy, means = self._policy.policy(), self._means(spendable, disk_bytes)
        self._check(now, policy, means, newest)
        offer = program_offer(now, policy, slot_ms) if is_time else offer_for(now, measured, policy, slot_ms, means)
        if device in self.book.devices_in_use():
            raise UnfitError("the device has a bid for another task", code="device_in_bid")
        basis = BidBasis(now.order.task_hash, now.order.input_root, now.order.input_blob)
        parts.journal.tasks.put(key, TaskEntry(device, basis, offer, os.urandom(32)))
        parts.telemetry.tell(
            "bid", task=task_id, auction=auction, device=device, price=offer.price, blocks=offer.blocks,
            collateral=offer.collateral, step_us=measured.step_us,
        )  # fmt: skip

    def _pass(self, key: TaskKey, error: Exception, more: str = "") -> None:
        self.book.wait(key[0], "not_bid", f"{error}{more}", code=code_of(error))

    def _let_pass(self, key: TaskKey, known: _Try, error: Exception, more: str = "") -> None:
        known.is_refused = True
        self.book.forget(key[0])
        self._pass(key, error, more)
        # Anyone can post tasks, so the memory of refused ones needs a bound.
        while len(self._tries) > REFUSED_MAX:
            del self._tries[next(iter(self._tries))]


def _open(auctions: dict[bytes, Task], stash: bytes) -> dict[TaskKey, Task]:
    """Return the tasks that accept bids or seek replicas, by task and the present number of a bid or offer."""
    return {
        (task_id, sale_number(task)): task
        for task_id, task in auctions.items()
        if task.state is TaskState.COMMITTING or seeks_devices(task, stash)
    }
