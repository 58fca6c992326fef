"""Roll calls: each enrolled device computes its matrix chain, commits to it and shows rows, and inspects others.

Invariants:

* All devices compute at once, each in a process beside its workers, even while they work.
* Rows are on the disk before their root is committed.
* An objection follows only from rows that were computed here.
* A message of an earlier process is not repeated while it may be in transit.
* Between roll calls nothing is on the disk.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

from gpu_tasks.data.proven_rates import why_no_work
from gpu_tasks.market.capacity import roll_call as times
from gpu_tasks.market.capacity.capacity import Capacity
from gpu_tasks.market.capacity.proofs import ROW_DOMAIN, CapacityProof, Enrolment, ShownRow, drawn_rows
from gpu_tasks.market.capacity.roll_call import RollCall
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.provider.chain.port import ChainError, Inspection, RollCallPort, RollCallView, View
from gpu_tasks.provider.chain.roll_calls import challenge_of
from gpu_tasks.provider.duties.duty import Duty
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.duties.sent_steps import StepBook, StepMessage
from gpu_tasks.provider.execution.chain_process import ChainComputer, MakeChains
from gpu_tasks.provider.execution.chain_worker import ROWS, ChainRows, ChainWork
from gpu_tasks.provider.execution.device_times import Activity
from gpu_tasks.provider.execution.executor import ExecutionError
from gpu_tasks.provider.execution.gpu import Hardware
from gpu_tasks.provider.execution.worker_pool import JUDGES_BENCH
from gpu_tasks.provider.telemetry import Detail, failure
from gpu_tasks.workloads.matmul_chain.challenge import CHALLENGE, ChainChallenge
from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.merkle import merkle_paths
from runtime.encoding.codec import DecodeError
from wallet.private_file import replace

IDLE_LOOK_BLOCKS = 12
"""The interval of looking while no device is enrolled and no roll call runs."""
WARM_BLOCKS = 30
"""Blocks before a roll call at which its processes start. PyTorch takes seconds to load, and these would count."""
INSPECT_EVERY_BLOCKS = 5
EARLIER_BLOCKS = 2
"""Blocks during which an earlier process's message may be in transit. A second copy would only cost its fee."""


# The row hashes of a matrix chain on disk, and the sent steps, kept until others can no longer request them.
# Invariant: a file is complete or invalid, and is on the disk before the commit is sent. Its content follows from its
# challenge, so a lost or damaged file only costs computing it again. A step is noted before it is sent, so after a
# `kill -9` the next process knows that it may be in transit.
DIGEST_BYTES = 32


class RollStep(Enum):
    """The next step of a roll call."""

    NOTHING = auto()
    COMPUTE = auto()
    COMMIT = auto()
    SHOW = auto()
    OBJECT = auto()
    """Object as an inspector of another device."""


def is_called(roll_call: RollCall | None, enrolled: Enrolment | None) -> bool:
    """Return True if a device must answer the newest roll call."""
    return roll_call is not None and enrolled is not None and enrolled.since < roll_call.at


def next_step(
    roll_call: RollCall, proof: CapacityProof | None, kept_root: bytes | None, newest_height: int
) -> RollStep:
    """Return a called device's next step. A message sent now is included after block `newest_height`.

    Lost rows are computed again, and shown if they have the committed root.
    """
    if proof is None:
        if newest_height >= roll_call.at + times.COMMITS_TO:
            return RollStep.NOTHING
        if kept_root is None:
            return RollStep.COMPUTE
        return RollStep.COMMIT if times.can_commit(roll_call, newest_height + 1) else RollStep.NOTHING
    is_rows_due = (
        not proof.is_open and newest_height >= times.rows_at(roll_call) and times.can_open(roll_call, newest_height + 1)
    )
    if not is_rows_due:
        return RollStep.NOTHING
    if kept_root is None:
        return RollStep.COMPUTE
    return RollStep.SHOW if kept_root == proof.root else RollStep.NOTHING


def can_wait(roll_call: RollCall, roll_step: RollStep, newest_height: int) -> bool:
    """Return True if the chain would still accept a step that is sent a block later."""
    if roll_step is RollStep.COMMIT:
        return times.can_commit(roll_call, newest_height + 2)
    if roll_step is RollStep.SHOW:
        return times.can_open(roll_call, newest_height + 2)
    return times.can_object(roll_call, newest_height + 2)


def can_inspect(roll_call: RollCall | None, newest_height: int) -> bool:
    """Return True if inspectors of the newest roll call are drawn and may still object."""
    return (
        roll_call is not None
        and newest_height >= times.inspectors_at(roll_call)
        and times.can_object(roll_call, newest_height + 1)
    )  # an objection sent now comes after the newest block


@dataclass(frozen=True, slots=True)
class KeptRows:
    """A folder with one file for each challenge."""

    folder: Path

    def load(self, challenge: ChainChallenge) -> ChainRows | None:
        """Return the stored rows of a challenge; None if they are missing or damaged."""
        try:
            content = self._file_path(challenge).read_bytes()
        except OSError:
            return None
        rows_bytes = content[DIGEST_BYTES:]
        if blake2_256(rows_bytes) != content[:DIGEST_BYTES]:
            return None
        try:
            rows: ChainRows = ROWS.decode(rows_bytes)
        except DecodeError:
            return None
        return rows if len(rows.digests) == DIGEST_BYTES * challenge.shape.rows else None

    def keep(self, challenge: ChainChallenge, rows: ChainRows) -> None:
        """Write the rows to the disk. Raise OSError on failure."""
        rows_bytes = ROWS.encode(rows)
        replace(self._file_path(challenge), blake2_256(rows_bytes) + rows_bytes)

    def note_sent(self, challenge: ChainChallenge, step: str) -> None:
        """Note that a step about a challenge is sent next. Raise OSError on failure."""
        replace(self._file_path(challenge, step), b"")

    def was_sent(self, challenge: ChainChallenge, step: str) -> bool:
        """Return True if this process or an earlier one sent a step about a challenge."""
        return self._file_path(challenge, step).exists()

    def forget_all(self) -> None:
        """Remove everything, as no roll call runs. Raise OSError on failure."""
        if self.folder.is_dir():
            for path in self.folder.iterdir():
                path.unlink(missing_ok=True)

    def _file_path(self, challenge: ChainChallenge, name: str = "rows") -> Path:
        return self.folder / f"{blake2_256(CHALLENGE.encode(challenge)).hex()}.{name}"


class RollCallDuty(Duty):
    """The steps of all devices at roll calls, and of an inspector."""

    def __init__(self, parts: Parts[RollCallPort], folder: Path, make_chains: MakeChains) -> None:
        """Rows are stored in `folder`. `make_chains` creates the process that computes on some hardware."""
        self.parts = parts
        self.book: StepBook[RollStep] = StepBook(parts)
        self.running = (self.book.tasks,)
        self.view: RollCallView | None = None
        """The last view of roll calls, which decides the devices that may work."""
        self._kept = KeptRows(folder)
        self.make = make_chains
        self._computers: dict[str, ChainComputer] = {}
        self._rows: dict[ChainChallenge, ChainRows] = {}
        self._judged: dict[tuple[bytes, int], bool] = {}
        self._earlier: dict[tuple[ChainChallenge, RollStep], int] = {}
        """The block up to which an earlier process's message is awaited."""
        self._sent: set[tuple[ChainChallenge, RollStep]] = set()
        """Steps sent by this process."""
        self._is_tidy = False
        self._looks_at = 0

    async def step(self, view: View) -> None:
        """Take the due steps of the newest roll call. Raise ChainError if the node refuses one."""
        self.book.look(view)
        # Roll calls are rare, and each look costs several reads.
        if view.newest < self._looks_at:
            return
        hardware_by_device = self._devices()
        roll_view = self.view = await self.parts.chain.roll_call(tuple(hardware_by_device))
        roll_call = roll_view.called
        is_needed = roll_call is not None and not times.is_over(roll_call, view.newest)
        self._looks_at = view.newest + (1 if is_needed or roll_view.enrolled else IDLE_LOOK_BLOCKS)
        if roll_call is not None and is_needed:
            self._is_tidy = False
            for device_id, enrolled in roll_view.enrolled.items():
                if is_called(roll_call, enrolled):
                    await self._take_step(roll_call, device_id, enrolled, roll_view, view.newest)
            if can_inspect(roll_call, view.newest) and view.newest % INSPECT_EVERY_BLOCKS == 0:
                self.book.tasks.start(("inspect", roll_call.number), self._inspect_others())
        elif not 0 < roll_view.planned - view.newest <= WARM_BLOCKS:
            await self._forget_calls()
        if 0 < roll_view.planned - view.newest <= WARM_BLOCKS:
            for device_id in roll_view.enrolled:
                self.book.tasks.start(("warm", device_id), self._warm_up(hardware_by_device[device_id]))

    def why_not(self, device_id: bytes, kind: DeviceClass) -> str:
        """Return the reason that the chain gives a device no work, by the last view; empty if it does."""
        return "" if self.view is None else why_no_work(self.view.rates, device_id, kind)

    async def close(self) -> None:
        """End all processes."""
        await super().close()
        await self._end_computers()

    # ----------------------------------------------------------------------------------------------------- own devices

    def _devices(self) -> Mapping[bytes, Hardware]:
        return {
            device_id: piece for device_id, piece in self.parts.workers.devices.items() if device_id != JUDGES_BENCH
        }

    async def _take_step(
        self, roll_call: RollCall, device_id: bytes, enrolled: Enrolment, roll_view: RollCallView, newest_height: int
    ) -> None:
        proof = roll_view.proofs.get(device_id)
        # The owner may enrol another shape for the next roll call. The committed shape is the one to show.
        challenge = challenge_of(roll_call, device_id, enrolled if proof is None else proof)
        rows = self._known_rows(challenge)
        roll_step = next_step(roll_call, proof, None if rows is None else rows.root, newest_height)
        step_key = (device_id, roll_call.number)
        if roll_step is RollStep.COMPUTE:
            self.book.tasks.start(
                (step_key, challenge.seed), self._compute_rows(device_id, roll_call.number, challenge)
            )
        elif (
            rows is None
            or roll_step is RollStep.NOTHING
            or self._is_under_way(challenge, roll_step, roll_call, newest_height)
        ):
            return
        elif roll_step is RollStep.COMMIT and self.book.is_due(step_key, roll_step):
            self._note_sent(challenge, roll_step)
            call = Capacity.commit(device=device_id, root=rows.root)
            await self.book.send(
                StepMessage(call, "roll_call_commit", {"device": device_id, "number": roll_call.number})
            )
        elif roll_step is RollStep.SHOW and self.book.is_due(step_key, roll_step):
            self._note_sent(challenge, roll_step)
            shown = await asyncio.to_thread(_rows_to_show, roll_call, device_id, challenge.shape.rows, rows)
            call = Capacity.show_rows(device=device_id, rows=shown)
            await self.book.send(StepMessage(call, "roll_call_rows", {"device": device_id, "number": roll_call.number}))

    def _known_rows(self, challenge: ChainChallenge) -> ChainRows | None:
        """Return the rows of a challenge, if this process or an earlier one computed them."""
        if challenge not in self._rows:
            rows = self._kept.load(challenge)
            if rows is None:
                return None
            self._rows[challenge] = rows
        return self._rows[challenge]

    def _is_under_way(
        self, challenge: ChainChallenge, roll_step: RollStep, roll_call: RollCall, newest_height: int
    ) -> bool:
        """Return True if an earlier process has just sent a step, and the chain would also accept it a block later."""
        key = (challenge, roll_step)
        if key in self._sent or not self._kept.was_sent(challenge, roll_step.name.lower()):
            return False
        return newest_height < self._earlier.setdefault(key, newest_height + EARLIER_BLOCKS) and can_wait(
            roll_call, roll_step, newest_height
        )

    def _note_sent(self, challenge: ChainChallenge, roll_step: RollStep) -> None:
        self._sent.add((challenge, roll_step))
        with contextlib.suppress(OSError):  # a second copy costs a fee, but silence costs a bond
            self._kept.note_sent(challenge, roll_step.name.lower())

    async def _compute_rows(self, device_id: bytes, number: int, challenge: ChainChallenge) -> None:
        tell = self.parts.telemetry.tell
        tell("roll_call", device=device_id, number=number)
        try:
            with self.parts.workers.times.at(device_id, Activity.ROLL_CALLS):
                rows = await self._computer(self._devices()[device_id]).rows(ChainWork(challenge))
            # On the disk before the commitment: a daemon that restarts could not show rows that it lost.
            await asyncio.to_thread(self._kept.keep, challenge, rows)
            self._rows[challenge] = rows
        except (ExecutionError, KeyError, OSError) as error:
            tell("roll_call_failed", device=device_id, number=number, **failure(error))

    async def _warm_up(self, hardware: Hardware) -> None:
        try:
            await self._computer(hardware).start()
        except ExecutionError as error:
            self.parts.telemetry.tell("roll_call_failed", **failure(error))

    # ------------------------------------------------------------------------------------------------- others' devices

    async def _inspect_others(self) -> None:
        """Compute the rows that this provider was drawn to inspect, and object to wrong ones."""
        try:
            roll_call = None if self.view is None else self.view.called
            for inspection in await self.parts.chain.inspections():
                key = (inspection.device, inspection.number)
                if key not in self._judged:
                    self._judged[key] = await self._is_right(inspection)
                if self._judged[key] or roll_call is None:
                    continue
                if self._is_under_way(inspection.challenge, RollStep.OBJECT, roll_call, self.book.newest):
                    continue
                if self.book.is_due(key, RollStep.OBJECT):
                    self._note_sent(inspection.challenge, RollStep.OBJECT)
                    call = Capacity.object(device=inspection.device)
                    details: dict[str, Detail] = {"device": inspection.device, "number": inspection.number}
                    await self.book.send(StepMessage(call, "roll_call_objection", details))
        except (ChainError, ExecutionError) as error:
            self.parts.telemetry.tell("no_inspection", **failure(error))

    async def _is_right(self, inspection: Inspection) -> bool:
        """Check one row first, so that a device that computed nothing costs its inspectors little."""
        computer = self._computer(self.parts.workers.hardware[0])
        rows = list(zip(inspection.places, inspection.digests, strict=True))
        for group in (rows[:1], rows[1:]):
            computed = await computer.rows(ChainWork(inspection.challenge, tuple(place for place, _ in group)))
            if computed.digests != b"".join(digest for _, digest in group):
                return False
        return True

    # ------------------------------------------------------------------------------------------------------- processes

    def _computer(self, hardware: Hardware) -> ChainComputer:
        if hardware.uuid not in self._computers:
            self._computers[hardware.uuid] = self.make(hardware)
        return self._computers[hardware.uuid]

    async def _forget_calls(self) -> None:
        """Stop all processes and delete all records between roll calls."""
        if self._computers:
            await self._end_computers()
        if self._is_tidy:
            return
        for memory in (self._rows, self._judged, self._earlier, self._sent):
            memory.clear()
        with contextlib.suppress(OSError):  # tried again after the next roll call or start
            await asyncio.to_thread(self._kept.forget_all)
        self._is_tidy = True

    async def _end_computers(self) -> None:
        computers, self._computers = list(self._computers.values()), {}
        for computer in computers:
            await computer.close()


def _rows_to_show(roll_call: RollCall, device_id: bytes, row_count: int, rows: ChainRows) -> tuple[ShownRow, ...]:
    """Return the drawn rows with their paths."""
    row_places = drawn_rows(roll_call.rows_seed, device_id, row_count)
    row_digests = [
        rows.digests[digest_start : digest_start + DIGEST_BYTES]
        for digest_start in range(0, len(rows.digests), DIGEST_BYTES)
    ]
    row_paths = merkle_paths(ROW_DOMAIN, row_digests, row_places)
    return tuple(
        ShownRow(row_digests[place], merkle_path) for place, merkle_path in zip(row_places, row_paths, strict=True)
    )
