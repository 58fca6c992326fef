"""Roll calls: each enrolled device of this machine computes its chain, commits, shows rows; others' are looked at.

Always: all devices of the machine compute at once, each in a process beside its workers, whether it is at work or not;
the rows are on the disk before their root is committed; nobody is objected to but for rows that were computed here;
what an earlier process sent is not sent again while it may be under way; between roll calls nothing is on the disk.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

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
from gpu_tasks.provider.telemetry import Detail
from gpu_tasks.workloads.matmul_chain.challenge import CHALLENGE, ChainChallenge
from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.merkle import merkle_paths
from runtime.encoding.codec import DecodeError
from wallet.private_file import replace

IDLE_LOOK_BLOCKS = 12
"""So often is looked where no device is enrolled, and no roll call goes on."""
WARM_BLOCKS = 30
"""So long before a roll call its processes are started: PyTorch takes seconds to load, and these count."""
INSPECT_EVERY_BLOCKS = 5
EARLIER_BLOCKS = 2
"""So long may what an earlier process sent be under way: a second copy would cost its fee, and do nothing."""


# The hashes of a chain's rows on disk, and which steps were sent: until others can not ask for them any more.
#
# Always: a file is whole or is none, and lies on the disk before the commit leaves; what it holds follows from its
# challenge, so a file that is lost or damaged costs computing it again, and nothing else. A step is noted before it is
# sent, so who comes after a `kill -9` knows that it may be under way.
DIGEST_BYTES = 32


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


@dataclass(frozen=True, slots=True)
class KeptRows:
    """A folder with one file for each challenge."""

    folder: Path

    def load(self, challenge: ChainChallenge) -> ChainRows | None:
        """What was kept of a challenge; None if nothing, or nothing that is whole."""
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
        """Write it down, and have it on the disk; OSError."""
        body = ROWS.encode(rows)
        replace(self._path(challenge), blake2_256(body) + body)

    def note_sent(self, challenge: ChainChallenge, step: str) -> None:
        """A step about a challenge is sent next; OSError."""
        replace(self._path(challenge, step), b"")

    def was_sent(self, challenge: ChainChallenge, step: str) -> bool:
        """Whether a step about it was sent, by this process or an earlier one."""
        return self._path(challenge, step).exists()

    def forget_all(self) -> None:
        """Remove everything: no roll call goes on. OSError."""
        if self.folder.is_dir():
            for path in self.folder.iterdir():
                path.unlink(missing_ok=True)

    def _path(self, challenge: ChainChallenge, what: str = "rows") -> Path:
        return self.folder / f"{blake2_256(CHALLENGE.encode(challenge)).hex()}.{what}"


class RollCallDuty(Duty):
    """Takes the steps of all devices, and of an inspector."""

    def __init__(self, parts: Parts[RollCallPort], folder: Path, make: MakeChains) -> None:
        """Rows are kept in `folder`; `make` gives what computes them on a piece of hardware."""
        self.parts = parts
        self.book: StepBook[RollStep] = StepBook(parts)
        self.running = (self.book.tasks,)
        self.view: RollCallView | None = None
        """As it was looked at last: who may work goes by it."""
        self._kept = KeptRows(folder)
        self.make = make
        self._computers: dict[str, ChainComputer] = {}
        self._rows: dict[ChainChallenge, ChainRows] = {}
        self._judged: dict[tuple[bytes, int], bool] = {}
        self._earlier: dict[tuple[ChainChallenge, RollStep], int] = {}
        """Up to which block what an earlier process sent is waited for."""
        self._sent: set[tuple[ChainChallenge, RollStep]] = set()
        """By this process."""
        self._is_tidy = False
        self._looks_at = 0

    async def step(self, view: View) -> None:
        """Do what the newest roll call asks for now; ChainError if the node does not take it."""
        self.book.look(view)
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
        """Why the chain would give a device no work, as it was looked at last; empty if it would."""
        return "" if self.view is None else self.view.rates.why_not(device, kind)

    async def close(self) -> None:
        """End everything."""
        await super().close()
        await self._end_computers()

    # ----------------------------------------------------------------------------------------------------- own devices

    def _devices(self) -> Mapping[bytes, Hardware]:
        return {device: piece for device, piece in self.parts.workers.devices.items() if device != JUDGES_BENCH}

    async def _take(
        self, called: RollCall, device: bytes, enrolled: Enrolment, seen: RollCallView, newest: int
    ) -> None:
        proof = seen.proofs.get(device)
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
        """The rows of a challenge, if they were computed, by this process or an earlier one."""
        if challenge not in self._rows:
            found = self._kept.load(challenge)
            if found is None:
                return None
            self._rows[challenge] = found
        return self._rows[challenge]

    def _is_under_way(self, challenge: ChainChallenge, step: RollStep, called: RollCall, newest: int) -> bool:
        """Whether an earlier process has sent this a moment ago, and the chain would take it a block later too."""
        name = (challenge, step)
        if name in self._sent or not self._kept.was_sent(challenge, step.name.lower()):
            return False
        return newest < self._earlier.setdefault(name, newest + EARLIER_BLOCKS) and can_wait(called, step, newest)

    def _note_sent(self, challenge: ChainChallenge, step: RollStep) -> None:
        self._sent.add((challenge, step))
        with contextlib.suppress(OSError):  # a copy of it would cost a fee, and silence a bond
            self._kept.note_sent(challenge, step.name.lower())

    async def _compute(self, device: bytes, number: int, challenge: ChainChallenge) -> None:
        tell = self.parts.telemetry.tell
        tell("roll_call", device=device, number=number)
        try:
            with self.parts.workers.times.at(device, Activity.ROLL_CALLS):
                rows = await self._computer(self._devices()[device]).rows(ChainWork(challenge))
            await asyncio.to_thread(self._kept.keep, challenge, rows)
            self._rows[challenge] = rows
        except (ExecutionError, KeyError, OSError) as error:
            tell("roll_call_failed", device=device, number=number, problem=str(error))

    async def _warm(self, hardware: Hardware) -> None:
        try:
            await self._computer(hardware).start()
        except ExecutionError as error:
            self.parts.telemetry.tell("roll_call_failed", problem=str(error))

    # ------------------------------------------------------------------------------------------------- others' devices

    async def _inspect(self) -> None:
        """Compute the rows that this provider was drawn to look at, and object to those that are wrong."""
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
            self.parts.telemetry.tell("no_inspection", problem=str(error))

    async def _is_right(self, shown: Inspection) -> bool:
        """One row by itself first: who computed nothing costs its inspectors no more than that."""
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
        """Between roll calls nothing runs, and nothing is kept, whoever wrote it."""
        if self._computers:
            await self._end_computers()
        if self._is_tidy:
            return
        for kept in (self._rows, self._judged, self._earlier, self._sent):
            kept.clear()
        with contextlib.suppress(OSError):  # tried again after the next roll call, or start
            await asyncio.to_thread(self._kept.forget_all)
        self._is_tidy = True

    async def _end_computers(self) -> None:
        computers, self._computers = list(self._computers.values()), {}
        for computer in computers:
            await computer.close()


def _shown(called: RollCall, device: bytes, count: int, rows: ChainRows) -> tuple[ShownRow, ...]:
    """The rows that were drawn, with their paths."""
    places = drawn_rows(called.rows_seed, device, count)
    digests = [rows.digests[at : at + DIGEST_BYTES] for at in range(0, len(rows.digests), DIGEST_BYTES)]
    paths = merkle_paths(ROW_DOMAIN, digests, places)
    return tuple(ShownRow(digests[place], path) for place, path in zip(places, paths, strict=True))
