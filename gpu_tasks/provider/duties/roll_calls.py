"""Roll calls: each device computes its matrix chain and states the root of its rows.

Invariants:

* All devices compute at once, each in a process beside its workers, even while they work.
* Rows are on the disk before their root is sent. They stay until the claim is over (`row_items` delivers them).
* A root is sent only for a seed that the final chain has: a root of another seed would cost the collateral.
* A message of an earlier process is not repeated while it may be in transit.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from enum import Enum, auto

from gpu_tasks.data.proven_rates import why_no_work
from gpu_tasks.market.capacity import roll_call as times
from gpu_tasks.market.capacity.capacity import Capacity
from gpu_tasks.market.capacity.proofs import OpenProof, ProvenRate, WorkShape, claim_of, device_seed
from gpu_tasks.market.capacity.roll_call import RollCall
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.provider.chain.port import ChainError, RollCallPort, RollCallView, View
from gpu_tasks.provider.duties.duty import ENDINGS_EVERY_BLOCKS, Duty, telling_refusals
from gpu_tasks.provider.duties.kept_rows import ComputedChain, KeptRows
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.duties.row_items import RowComputer, challenge_of
from gpu_tasks.provider.duties.sent_steps import StepBook, StepMessage
from gpu_tasks.provider.execution.chain_process import ChainComputer, MakeChains
from gpu_tasks.provider.execution.chain_rates import WORK_SLOTS, MeasuredRate, chain_shape, measured_rate
from gpu_tasks.provider.execution.chain_worker import ChainWork
from gpu_tasks.provider.execution.device_times import Activity
from gpu_tasks.provider.execution.executor import ExecutionError
from gpu_tasks.provider.journal.schema import JournalError
from gpu_tasks.provider.telemetry import Detail, failure
from gpu_tasks.workloads.matmul_chain.challenge import ChainChallenge
from wallet.amounts import format_amount

IDLE_LOOK_BLOCKS = 12
"""The interval of looking at a chain without roll calls."""
WARM_BLOCKS = 30
"""Blocks before a roll call at which its processes start and measure. PyTorch takes seconds to load, and these would
count."""
EARLIER_BLOCKS = 2
"""Blocks during which an earlier process's message may be in transit. A second copy would only cost its fee."""
MESSAGE_SLOTS = 2
"""Slots from the end of a computation to the block with its proof."""


@dataclass(frozen=True, slots=True)
class RollCallPolicy:
    """The operator's choice about roll calls."""

    are_answered: bool = True
    work: WorkShape | None = None
    """The work of every device; None to measure each one."""


class RollStep(Enum):
    """The next step of a device at a roll call."""

    NOTHING = auto()
    COMPUTE = auto()
    PROVE = auto()


def next_step(
    roll_call: RollCall, proof: ProvenRate | None, open_proof: OpenProof | None, *, has_rows: bool, newest_height: int
) -> RollStep:
    """Return a device's next step. A message sent now is included after block `newest_height`.

    Lost rows of an open claim are computed again.
    """
    if proof is not None and proof.number == roll_call.number:
        return RollStep.NOTHING if has_rows or open_proof is None else RollStep.COMPUTE
    if newest_height >= roll_call.at + times.PROOFS_TO:
        return RollStep.NOTHING
    if not has_rows:
        return RollStep.COMPUTE
    return RollStep.PROVE if times.can_prove(roll_call, newest_height + 1) else RollStep.NOTHING


def slots_for_work(roll_call: RollCall, newest_height: int) -> int:
    """Return the slots that a computation may take from now on; 0 if it is too late."""
    return max(0, min(WORK_SLOTS, roll_call.at + times.PROOFS_TO - newest_height - MESSAGE_SLOTS))


@dataclass(frozen=True, slots=True)
class ChainOnDisk:
    """A chain whose rows are on the disk."""

    challenge: ChainChallenge
    root: bytes


class RollCallDuty(Duty):
    """The proofs of all devices at roll calls."""

    def __init__(
        self,
        parts: Parts[RollCallPort],
        kept: KeptRows,
        make_chains: MakeChains,
        single_rows: RowComputer,
        policy: RollCallPolicy,
    ) -> None:
        """Rows are stored in `kept`. `make_chains` creates the process that computes on some hardware.

        The duty ends the process of `single_rows` when that is idle.
        """
        self.parts = parts
        self.book: StepBook[RollStep] = StepBook(parts)
        self.running = (self.book.tasks,)
        self.view: RollCallView | None = None
        """The last view of roll calls, which decides the devices that may work."""
        self.make = make_chains
        self._kept = kept
        self._single_rows = single_rows
        self._policy = policy
        self._computers: dict[str, ChainComputer] = {}
        self._turns: dict[bytes, asyncio.Lock] = {}
        self._rates: dict[bytes, MeasuredRate] = {}
        self._measured_for: dict[bytes, int] = {}
        """The planned roll call for which a device measured itself last."""
        self._on_disk: dict[bytes, ChainOnDisk] = {}
        """The chains on the disk, by claim."""
        self._final: RollCall | None = None
        """The newest roll call that the final chain had."""
        self._earlier: dict[bytes, int] = {}
        """The block up to which an earlier process's message is awaited, by claim."""
        self._sent: set[bytes] = set()
        """The claims of proofs that this process sent."""
        self._looks_at = 0
        self._tidies_at = 0

    async def step(self, view: View) -> None:
        """Take the due steps of the newest roll call. Raise ChainError if the node does not answer."""
        self.book.look(view)
        await self._single_rows.end_idle(view.height)
        if view.newest < self._looks_at:
            return
        devices = tuple(self.parts.workers.devices)
        roll_view = self.view = await self.parts.chain.roll_call(devices)
        roll_call = roll_view.called
        # A chain without roll calls is rarely asked: each look costs several reads.
        self._looks_at = view.newest + (1 if roll_call is not None or roll_view.planned else IDLE_LOOK_BLOCKS)
        if not self._policy.are_answered:
            devices = ()
        # Also at its block itself, while the node still shows the state before.
        is_near = 0 < roll_view.planned <= view.newest + WARM_BLOCKS
        for device_id in devices if is_near else ():
            if self._measured_for.get(device_id) != roll_view.planned:
                self.book.tasks.start(("warm", device_id), self._warm_up(device_id, roll_view.planned))
        is_running = roll_call is not None and not times.is_over(roll_call, view.newest)
        for device_id in devices:
            # After the roll call, a reader may still ask for rows that this machine has lost.
            if roll_call is not None and (is_running or device_id in roll_view.open_proofs):
                await self._take_step(roll_call, device_id, roll_view, view.newest)
        if not is_running and view.height >= self._tidies_at:
            self._tidies_at = view.height + ENDINGS_EVERY_BLOCKS
            await self._forget_ended(_open_claims(roll_view))
        may_prove = roll_call is not None and view.newest <= roll_call.at + times.PROOFS_TO
        if not may_prove and not is_near and not any(turn.locked() for turn in self._turns.values()):
            await self._end_computers()

    def why_not(self, device_id: bytes, kind: DeviceClass) -> str:
        """Return the reason that the chain gives a device no work, by the last view; empty if it does."""
        return "" if self.view is None else why_no_work(self.view.rates, device_id, kind)

    async def close(self) -> None:
        """End all processes."""
        await super().close()
        await self._end_computers()
        await self._single_rows.close()

    # ---------------------------------------------------------------------------------------------------- the roll call

    async def _take_step(
        self, roll_call: RollCall, device_id: bytes, roll_view: RollCallView, newest_height: int
    ) -> None:
        claim_id, open_proof = claim_of(device_id, roll_call.number), roll_view.open_proofs.get(device_id)
        seed = device_seed(roll_call.seed, device_id)
        kept = await self._kept_chain(claim_id, seed)
        has_rows = kept is not None and (open_proof is None or kept.challenge == challenge_of(open_proof))
        proof = roll_view.proofs.get(device_id)
        roll_step = next_step(roll_call, proof, open_proof, has_rows=has_rows, newest_height=newest_height)
        if roll_step is RollStep.COMPUTE:
            work = self._policy.work if open_proof is None else open_proof.shape
            if work is not None or slots_for_work(roll_call, newest_height):
                self.book.tasks.start((claim_id, seed), self._compute(roll_call, device_id, work))
        elif roll_step is RollStep.NOTHING or kept is None or self._is_under_way(claim_id, roll_call, newest_height):
            return
        else:
            with telling_refusals(self.parts.telemetry, claim_id):
                await self._prove(roll_call, device_id, claim_id, kept)

    async def _kept_chain(self, claim_id: bytes, seed: bytes) -> ChainOnDisk | None:
        """Return the chain of a claim, if this process or an earlier one computed it for this seed."""
        kept = self._on_disk.get(claim_id)
        if kept is None or kept.challenge.seed != seed:
            chain = await asyncio.to_thread(self._kept.load, claim_id, seed)
            if chain is None:
                return None
            kept = self._on_disk[claim_id] = ChainOnDisk(chain.challenge, chain.rows.root)
        return kept

    def _is_under_way(self, claim_id: bytes, roll_call: RollCall, newest_height: int) -> bool:
        """Return True if an earlier process has just sent the proof, and the chain would also accept it later."""
        if claim_id in self._sent or not self._kept.was_sent(claim_id):
            return False
        until = self._earlier.setdefault(claim_id, newest_height + EARLIER_BLOCKS)
        return newest_height < until and times.can_prove(roll_call, newest_height + 2)

    async def _prove(self, roll_call: RollCall, device_id: bytes, claim_id: bytes, kept: ChainOnDisk) -> None:
        """Send the root of a device's rows, once the final chain has the seed. Raise ChainError if the node refuses."""
        if self._final != roll_call:
            self._final = await self.parts.chain.final_roll_call()
        if self._final != roll_call or not self.book.is_due((device_id, 0), RollStep.PROVE):
            return
        held, free = await self.parts.chain.proof_hold(), await self.parts.chain.spendable()
        if free < held:
            # The call would only cost its fee.
            raise ChainError(
                f"the stash has {format_amount(free)} oGPU free, and a proof holds {format_amount(held)} oGPU. Send "
                "money to it",
                code="stash_too_poor",
            )
        self._sent.add(claim_id)
        with contextlib.suppress(JournalError):  # a second copy costs a fee, but silence costs the rate
            self._kept.note_sent(claim_id)
        shape = kept.challenge.shape
        call = Capacity.prove(device=device_id, shape=WorkShape(shape.size, shape.rows, shape.rounds), root=kept.root)
        details: dict[str, Detail] = {"device": device_id, "number": roll_call.number, "claim": claim_id}
        await self.book.send(StepMessage(call, "roll_call_proof", details))

    async def _compute(self, roll_call: RollCall, device_id: bytes, work: WorkShape | None) -> None:
        """Compute a device's chain and store its rows. Without a given `work`, take as much as the time allows."""
        tell, claim_id = self.parts.telemetry.tell, claim_of(device_id, roll_call.number)
        try:
            async with self._turn(device_id):
                computer = self._computer(device_id)
                shape = work or await self._work_in_time(roll_call, device_id, computer)
                challenge = ChainChallenge(device_seed(roll_call.seed, device_id), chain_shape(shape))
                tell("roll_call", device=device_id, number=roll_call.number)
                with self.parts.workers.times.at(device_id, Activity.ROLL_CALLS):
                    rows = await computer.rows(ChainWork(challenge))
            # On the disk before the proof: a daemon that restarts could not deliver rows that it lost.
            await asyncio.to_thread(self._kept.keep, claim_id, ComputedChain(challenge, rows))
            self._on_disk[claim_id] = ChainOnDisk(challenge, rows.root)
        except (ExecutionError, ChainError, KeyError, OSError) as error:
            tell("roll_call_failed", device=device_id, number=roll_call.number, **failure(error))

    async def _work_in_time(self, roll_call: RollCall, device_id: bytes, computer: ChainComputer) -> WorkShape:
        """Return the work that a device finishes in time. Raise ExecutionError if it is too late."""
        if device_id not in self._rates:
            self._rates[device_id] = await self._measured(device_id, computer)
        slots = slots_for_work(roll_call, self.book.newest)
        if not slots:
            raise ExecutionError("too little time is left at this roll call", code="roll_call_late")
        return self._rates[device_id].work(slots)

    # -------------------------------------------------------------------------------------- before and after roll calls

    async def _warm_up(self, device_id: bytes, planned_height: int) -> None:
        """Start a device's process before a planned roll call, and measure the device for it."""
        try:
            async with self._turn(device_id):
                computer = self._computer(device_id)
                if self._policy.work is None:
                    self._rates[device_id] = await self._measured(device_id, computer)
                else:
                    await computer.start()
            self._measured_for[device_id] = planned_height
        except (ExecutionError, ChainError, KeyError) as error:
            self.parts.telemetry.tell("roll_call_failed", device=device_id, **failure(error))

    async def _measured(self, device_id: bytes, computer: ChainComputer) -> MeasuredRate:
        with self.parts.workers.times.at(device_id, Activity.ROLL_CALLS):
            measured = await measured_rate(computer, await self.parts.chain.slot_ms())
        self.parts.telemetry.tell("roll_call_rate", device=device_id, rate=measured.rate)
        return measured

    async def _forget_ended(self, open_claims: set[bytes]) -> None:
        """Delete the rows of all claims that are over. No roll call runs, so no proof is under way."""
        self._earlier.clear()
        self._sent.clear()
        with contextlib.suppress(OSError, JournalError):  # tried again later
            # If finality stops for a minute, the final chain does not have an open claim yet.
            for claim_id in set(self._kept.claims()) - open_claims:
                if await self.parts.chain.claim(claim_id, final=True) is None:
                    self._kept.forget(claim_id)
                    self._on_disk.pop(claim_id, None)

    # ------------------------------------------------------------------------------------------------------- processes

    def _turn(self, device_id: bytes) -> asyncio.Lock:
        """Return the lock of a device: it measures and computes one after the other."""
        return self._turns.setdefault(device_id, asyncio.Lock())

    def _computer(self, device_id: bytes) -> ChainComputer:
        """Return a device's process. Raise KeyError if the machine no longer serves the device."""
        hardware = self.parts.workers.devices[device_id]
        if hardware.uuid not in self._computers:
            self._computers[hardware.uuid] = self.make(hardware)
        return self._computers[hardware.uuid]

    async def _end_computers(self) -> None:
        computers, self._computers = list(self._computers.values()), {}
        for computer in computers:
            await computer.close()


def _open_claims(roll_view: RollCallView) -> set[bytes]:
    """Return the claims of the newest roll call's open proofs."""
    return {claim_of(device_id, proof.number) for device_id, proof in roll_view.open_proofs.items()}
