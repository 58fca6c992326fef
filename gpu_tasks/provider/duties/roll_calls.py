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


def is_called(called: RollCall | None, enrolled: Enrolment | None) -> bool:
    """Return True if a device must answer the newest roll call."""
    return called is not None and enrolled is not None and enrolled.since < called.at


def next_step(called: RollCall, proof: CapacityProof | None, kept_root: bytes | None, newest: int) -> RollStep:
    """Return a called device's next step. A message sent now is included after block `newest`.

    Lost rows are computed again, and shown if they have the committed root.
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
    """Return True if the chain would still accept a step that is sent a block later."""
    if step is RollStep.COMMIT:
        return times.can_commit(called, newest + 2)
    if step is RollStep.SHOW:
        return times.can_open(called, newest + 2)
    return times.can_object(called, newest + 2)


def can_inspect(called: RollCall | None, newest: int) -> bool:
    """Return True if inspectors of the newest roll call are drawn and may still object."""
    return (
        called is not None and newest >= times.inspectors_at(called) and times.can_object(called, newest + 1)
    )  # an objection sent now comes after the newest block


@dataclass(frozen=True, slots=True)
class KeptRows:
    """A folder with one file for each challenge."""

    folder: Path

    def load(self, challenge: ChainChallenge) -> ChainRows | None:
        """Return the stored rows of a challenge; None if they are missing or damaged."""
        try:
            data = self._path(challenge).read_bytes()
        except OSError:
            return None
        body = data[DIGEST_BYTES:]
        if blake2_256(body) != data[:DIGEST_BYTES]:
            return None
        try:
            found: ChainRows = ROWS.decode(body)
        except DecodeError:
            return None
        return found if len(found.digests) == DIGEST_BYTES * challenge.shape.rows else None

    def keep(self, challenge: ChainChallenge, rows: ChainRows) -> None:
        """Write the rows to the disk. Raise OSError on failure."""
        body = ROWS.encode(rows)
        replace(self._path(challenge), blake2_256(body) + body)

    def note_sent(self, challenge: ChainChallenge, step: str) -> None:
        """Note that a step about a challenge is sent next. Raise OSError on failure."""
        replace(self._path(challenge, step), b"")

    def was_sent(self, challenge: ChainChallenge, step: str) -> bool:
        """Return True if this process or an earlier one sent a step about a challenge."""
        return self._path(challenge, step).exists()

    def forget_all(self) -> None:
        """Remove everything, as no roll call runs. Raise OSError on failure."""
        if self.folder.is_dir():
            for path in self.folder.iterdir():
                path.unlink(missing_ok=True)

    def _path(self, challenge: ChainChallenge, what: str = "rows") -> Path:
        return self.folder / f"{blake2_256(CHALLENGE.encode(challenge)).hex()}.{what}"


class RollCallDuty(Duty):
    """The steps of all devices at roll calls, and of an inspector."""

    def __init__(self, parts: Parts[RollCallPort], folder: Path, make: MakeChains) -> None:
        """Rows are stored in `folder`. `make` creates the process that computes on some hardware."""
        self.parts = parts
        self.book: StepBook[RollStep] = StepBook(parts)
        self.running = (self.book.tasks,)
        self.view: RollCallView | None = None
        """The last view of roll calls, which decides the devices that may work."""
        self._kept = KeptRows(folder)
        self.make = make
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
        devices = self._devices()
        seen = self.view = await self.parts.chain.roll_call(tuple(devices))
        called = seen.called
        is_on = called is not None and not times.is_over(called, view.newest)
        self._looks_at = view.newest + (1 if is_on or seen.enrolled else IDLE_LOOK_BLOCKS)
        if called is not None and is_on:
            self._is_tidy = False
            for device, enrolled in seen.enrolled.items():
                if is_called(called, enrolled):
                    await self._take(called, device, enrolled, seen, view.newest)
            if can_inspect(called, view.newest) and view.newest % INSPECT_EVERY_BLOCKS == 0:
                self.book.tasks.start(("inspect", called.number), self._inspect())
        elif not 0 < seen.planned - view.newest <= WARM_BLOCKS:
            await self._rest()
        if 0 < seen.planned - view.newest <= WARM_BLOCKS:
            for device in seen.enrolled:
                self.book.tasks.start(("warm", device), self._warm(devices[device]))

    def why_not(self, device: bytes, kind: DeviceClass) -> str:
        """Return the reason that the chain gives a device no work, by the last view; empty if it does."""
        return "" if self.view is None else why_no_work(self.view.rates, device, kind)

    async def close(self) -> None:
        """End all processes."""
        await super().close()
        await self._end_computers()

    # ----------------------------------------------------------------------------------------------------- own devices

    def _devices(self) -> Mapping[bytes, Hardware]:
        return {device: piece for device, piece in self.parts.workers.devices.items() if device != JUDGES_BENCH}

    async def _take(
        self, called: RollCall, device: bytes, enrolled: Enrolment, seen: RollCallView, newest: int
    ) -> None:
        proof = seen.proofs.get(device)
        # The owner may enrol another shape for the next roll call. The committed shape is the one to show.
        challenge = challenge_of(called, device, enrolled if proof is None else proof)
        rows = self._known(challenge)
        step = next_step(called, proof, None if rows is None else rows.root, newest)
        key = (device, called.number)
        if step is RollStep.COMPUTE:
            self.book.tasks.start((key, challenge.seed), self._compute(device, called.number, challenge))
        elif rows is None or step is RollStep.NOTHING or self._is_under_way(challenge, step, called, newest):
            return
        elif step is RollStep.COMMIT and self.book.is_due(key, step):
            self._note_sent(challenge, step)
            call = Capacity.commit(device=device, root=rows.root)
            await self.book.send(StepMessage(call, "roll_call_commit", {"device": device, "number": called.number}))
        elif step is RollStep.SHOW and self.book.is_due(key, step):
            self._note_sent(challenge, step)
            shown = await asyncio.to_thread(_shown, called, device, challenge.shape.rows, rows)
            call = Capacity.show_rows(device=device, rows=shown)
            await self.book.send(StepMessage(call, "roll_call_rows", {"device": device, "number": called.number}))

    def _known(self, challenge: ChainChallenge) -> ChainRows | None:
        """Return the rows of a challenge, if this process or an earlier one computed them."""
        if challenge not in self._rows:
            found = self._kept.load(challenge)
            if found is None:
                return None
            self._rows[challenge] = found
        return self._rows[challenge]

    def _is_under_way(self, challenge: ChainChallenge, step: RollStep, called: RollCall, newest: int) -> bool:
        """Return True if an earlier process has just sent a step, and the chain would also accept it a block later."""
        name = (challenge, step)
        if name in self._sent or not self._kept.was_sent(challenge, step.name.lower()):
            return False
        return newest < self._earlier.setdefault(name, newest + EARLIER_BLOCKS) and can_wait(called, step, newest)

    def _note_sent(self, challenge: ChainChallenge, step: RollStep) -> None:
        self._sent.add((challenge, step))
        with contextlib.suppress(OSError):  # a second copy costs a fee, but silence costs a bond
            self._kept.note_sent(challenge, step.name.lower())

    async def _compute(self, device: bytes, number: int, challenge: ChainChallenge) -> None:
        tell = self.parts.telemetry.tell
        tell("roll_call", device=device, number=number)
        try:
            with self.parts.workers.times.at(device, Activity.ROLL_CALLS):
                rows = await self._computer(self._devices()[device]).rows(ChainWork(challenge))
            # On the disk before the commitment: a daemon that restarts could not show rows that it lost.
            await asyncio.to_thread(self._kept.keep, challenge, rows)
            self._rows[challenge] = rows
        except (ExecutionError, KeyError, OSError) as error:
            tell("roll_call_failed", device=device, number=number, **failure(error))

    async def _warm(self, hardware: Hardware) -> None:
        try:
            await self._computer(hardware).start()
        except ExecutionError as error:
            self.parts.telemetry.tell("roll_call_failed", **failure(error))

    # ------------------------------------------------------------------------------------------------- others' devices

    async def _inspect(self) -> None:
        """Compute the rows that this provider was drawn to inspect, and object to wrong ones."""
        try:
            called = None if self.view is None else self.view.called
            for shown in await self.parts.chain.inspections():
                key = (shown.device, shown.number)
                if key not in self._judged:
                    self._judged[key] = await self._is_right(shown)
                if self._judged[key] or called is None:
                    continue
                if self._is_under_way(shown.challenge, RollStep.OBJECT, called, self.book.newest):
                    continue
                if self.book.is_due(key, RollStep.OBJECT):
                    self._note_sent(shown.challenge, RollStep.OBJECT)
                    call = Capacity.object(device=shown.device)
                    told: dict[str, Detail] = {"device": shown.device, "number": shown.number}
                    await self.book.send(StepMessage(call, "roll_call_objection", told))
        except (ChainError, ExecutionError) as error:
            self.parts.telemetry.tell("no_inspection", **failure(error))

    async def _is_right(self, shown: Inspection) -> bool:
        """Check one row first, so that a device that computed nothing costs its inspectors little."""
        computer = self._computer(self.parts.workers.hardware[0])
        rows = list(zip(shown.places, shown.digests, strict=True))
        for some in (rows[:1], rows[1:]):
            found = await computer.rows(ChainWork(shown.challenge, tuple(place for place, _ in some)))
            if found.digests != b"".join(digest for _, digest in some):
                return False
        return True

    # ------------------------------------------------------------------------------------------------------- processes

    def _computer(self, hardware: Hardware) -> ChainComputer:
        if hardware.uuid not in self._computers:
            self._computers[hardware.uuid] = self.make(hardware)
        return self._computers[hardware.uuid]

    async def _rest(self) -> None:
        """Stop all processes and delete all records between roll calls."""
        if self._computers:
            await self._end_computers()
        if self._is_tidy:
            return
        for kept in (self._rows, self._judged, self._earlier, self._sent):
            kept.clear()
        with contextlib.suppress(OSError):  # tried again after the next roll call or start
            await asyncio.to_thread(self._kept.forget_all)
        self._is_tidy = True

    async def _end_computers(self) -> None:
        computers, self._computers = list(self._computers.values()), {}
        for computer in computers:
            await computer.close()


def _shown(called: RollCall, device: bytes, count: int, rows: ChainRows) -> tuple[ShownRow, ...]:
    """Return the drawn rows with their paths."""
    places = drawn_rows(called.rows_seed, device, count)
    digests = [rows.digests[at : at + DIGEST_BYTES] for at in range(0, len(rows.digests), DIGEST_BYTES)]
    paths = merkle_paths(ROW_DOMAIN, digests, places)
    return tuple(ShownRow(digests[place], path) for place, path in zip(places, paths, strict=True))
