"""A race from the provider's side: execute, commit, attest.

Always: the next step is a function of what the chain says and what the journal says, so it is the same after a restart;
a result that is in the journal is never computed again; a step that the world can see is in the journal before it is
taken, and is taken again until the chain shows it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import Enum, auto

from gpu_tasks.data.blob_client import BlobError
from gpu_tasks.data.sealing import seal
from gpu_tasks.data.unit_input import output_root
from gpu_tasks.market.api import DutyStatus
from gpu_tasks.market.attestations.attestations import Attestations
from gpu_tasks.market.attestations.statement import (
    VERSION,
    Attestation,
    ProofKind,
    SignedAttestation,
    Usage,
    signing_payload,
)
from gpu_tasks.market.inference.commitments import result_commitment
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import Racer, Unit, UnitState, racer_of
from gpu_tasks.provider.blobs.inputs import Inputs, UnusableInputError
from gpu_tasks.provider.blobs.store import BlobStore
from gpu_tasks.provider.chain.port import ChainError, ChainPort, Identity, View
from gpu_tasks.provider.duties.keyed_tasks import KeyedTasks
from gpu_tasks.provider.execution.executor import BadRequestError, Execution, ExecutionError, Executor
from gpu_tasks.provider.execution.gpu import Meter
from gpu_tasks.provider.journal.journal import Journal
from gpu_tasks.provider.journal.records import Assigned, RaceEntry, Sending, Sent, WorkDone, WorkResult
from gpu_tasks.provider.telemetry import Telemetry

RESEND_BLOCKS = 3
"""A step that the chain does not show after this many blocks is taken again."""
OMITTED_BLOCKS = 5
"""After this many blocks of an open reveal window an attestation that nobody attached goes as a transaction."""
GIVE_BACK_BLOCKS = 8
"""A race whose input is nowhere to be had this many blocks before commits close is given back."""


class RaceStep(Enum):
    """What to do next about a race."""

    NOTHING = auto()
    EXECUTE = auto()
    DECLINE = auto()
    COMMIT = auto()
    ATTEST = auto()
    REVEAL = auto()


SENT_BY = {RaceStep.DECLINE: Sent.DECLINE, RaceStep.COMMIT: Sent.COMMIT, RaceStep.ATTEST: Sent.ATTESTATION}
"""What the journal calls the steps that the world sees."""


@dataclass(frozen=True, slots=True)
class Race:
    """One attempt at one unit that this provider was drawn for."""

    unit_id: bytes
    unit: Unit
    place: int
    commits_until: int
    reveals_from: int
    reveals_until: int

    @property
    def racer(self) -> Racer:
        """This provider's place."""
        return self.unit.racers[self.place]

    @property
    def key(self) -> tuple[bytes, int]:
        """How the journal names it."""
        return self.unit_id, self.unit.attempt


def race_of(duty: DutyStatus, stash: bytes) -> Race | None:
    """The race that a duty is about; None if it is one no more."""
    unit = duty.status.unit
    racer = racer_of(unit, stash)
    if racer is None:
        return None
    status = duty.status
    place = unit.racers.index(racer)
    return Race(duty.id, unit, place, status.commits_until, status.reveals_from, status.reveals_until)


def next_step(race: Race, entry: RaceEntry | None, height: int) -> RaceStep:
    """What the state of the chain after block `height` and the journal ask for."""
    racer, result = race.racer, entry.result if entry else None
    is_closed = race.unit.round is None or race.unit.round.closed_at > 0
    if race.unit.state is not UnitState.RACING or racer.has_declined or racer.reveal is not None:
        return RaceStep.NOTHING
    if racer.commitment is None:
        if is_closed:
            return RaceStep.NOTHING
        if entry is not None and Sent.DECLINE in entry.sent:
            return RaceStep.DECLINE
        return RaceStep.EXECUTE if result is None else RaceStep.COMMIT
    if result is None or not race.reveals_from:
        return RaceStep.NOTHING
    return RaceStep.REVEAL if height >= race.reveals_from + OMITTED_BLOCKS else RaceStep.ATTEST


class Racing:
    """Takes the steps of all races."""

    def __init__(
        self,
        identity: Identity,
        chain: ChainPort,
        journal: Journal,
        executor: Executor,
        inputs: Inputs,
        store: BlobStore,
        meter: Meter,
        telemetry: Telemetry,
    ) -> None:
        """One executor: its requests are served in turn."""
        self.identity = identity
        self.chain = chain
        self.journal = journal
        self.executor = executor
        self.inputs = inputs
        self.store = store
        self.meter = meter
        self.telemetry = telemetry
        self.tasks = KeyedTasks()
        self.height = 0
        self._taken: dict[tuple[bytes, int, RaceStep], int] = {}

    async def step(self, duty: DutyStatus, view: View) -> None:
        """Do what a race asks for now; ChainError if the node does not take it."""
        self.height = view.height
        race = race_of(duty, self.identity.stash)
        if race is None:
            return
        step = next_step(race, self.journal.races.get(race.key), view.height)
        if step is RaceStep.EXECUTE:
            self.tasks.start(race.key, self._execute(race))
        elif step is not RaceStep.NOTHING and self._is_due(race, step, view.height):
            await self.take(race, step)

    def forget(self, key: tuple[bytes, int]) -> None:
        """A race is over."""
        for step in RaceStep:
            self._taken.pop((*key, step), None)

    def _is_due(self, race: Race, step: RaceStep, height: int) -> bool:
        """Whether to take the step now: at once, or again. What an earlier process sent may still be on its way."""
        key = (*race.key, step)
        if key not in self._taken and SENT_BY.get(step) in self.journal.races[race.key].sent:
            self._taken[key] = height
            return False
        if height < self._taken.get(key, -RESEND_BLOCKS) + RESEND_BLOCKS:
            return False
        self._taken[key] = height
        return True

    async def take(self, race: Race, step: RaceStep) -> None:
        """Take a step that the world sees."""
        if step is RaceStep.DECLINE:
            await self._submit_decline(race)
            return
        result = self.journal.races[race.key].result
        assert result is not None  # `next_step` asked for it; for the type checker
        if step is RaceStep.COMMIT:
            await self.commit(race, result)
            return
        signed = await self.attestation(race, result)
        self.note(race, Sent.ATTESTATION)
        if step is RaceStep.ATTEST:
            await self.chain.attest(signed)
        else:
            await self.chain.submit(Attestations.reveal(attestation=signed))
        self.telemetry.tell("attested", unit=race.unit_id, attempt=race.unit.attempt, way=step.name.lower())

    # ------------------------------------------------------------------------------------------------------ execution

    async def _execute(self, race: Race) -> None:
        """From assignment to commit.

        Inputs that cannot be used, or be had, are given back. A fault of this machine's own is not: it is tried again
        with each block, and a lease that runs out costs this provider, not the customer.
        """
        if race.key not in self.journal.races:
            self.journal.append(Assigned(race.unit_id, race.unit.attempt, race.racer.device))
            self.telemetry.tell("assigned", unit=race.unit_id, attempt=race.unit.attempt, height=self.height)
        try:
            result = await self._result(race)
            self.journal.append(WorkDone(race.unit_id, race.unit.attempt, result))
            self.telemetry.tell("executed", unit=race.unit_id, tokens=len(result.output), ms=result.usage.wall_ms)
            if self._is_due(race, RaceStep.COMMIT, self.height):
                await self.commit(race, result)
        except (UnusableInputError, BadRequestError) as error:
            self.telemetry.tell("bad_input", unit=race.unit_id, problem=str(error))
            await self._decline(race)
        except BlobError as error:
            self.telemetry.tell("hindered", unit=race.unit_id, problem=str(error))
            if race.commits_until and self.height + GIVE_BACK_BLOCKS >= race.commits_until:
                await self._decline(race)
        except (ExecutionError, ChainError) as error:
            self.telemetry.tell("hindered", unit=race.unit_id, problem=str(error))

    async def _result(self, race: Race) -> WorkResult:
        started_at = self.height
        service = await self.chain.service(race.unit.service)
        if (service.terms.workload, service.terms.model) != (self.executor.workload_id, self.executor.model_id):
            raise ExecutionError("this provider does not have the service's workload or model")
        asked = await self.inputs.open(race.unit)
        self.meter.begin()
        execution = await self.executor.run(asked.request)
        if len(execution.output) > race.unit.terms.tokens_max:
            raise UnusableInputError("the request asks for more tokens than the unit")
        blob = self.store.put(seal(execution.output, [asked.reply_key]), is_own=True)
        root = output_root(self.identity.genesis, race.unit_id, asked.salt, execution.output)
        usage = self._usage(execution)
        return WorkResult(execution.output, root, blob, os.urandom(32), usage, started_at, finished_at=self.height)

    def _usage(self, execution: Execution) -> Usage:
        reading = self.meter.end()
        return Usage(
            work_units=len(execution.output),
            gpu_ms=execution.wall_ms if reading.is_gpu else 0,
            energy_mj=reading.energy_mj,
            cpu_ms=execution.cpu_ms,
            wall_ms=execution.wall_ms,
            memory_peak_bytes=max(reading.memory_peak_bytes, execution.memory_peak_bytes),
        )

    # ---------------------------------------------------------------------------------------------------------- steps

    async def commit(self, race: Race, result: WorkResult) -> None:
        """Commit to a result."""
        identity, attempt = self.identity, race.unit.attempt
        commitment = result_commitment(
            identity.genesis, race.unit_id, attempt, identity.stash, result.output_root, result.salt
        )
        self.note(race, Sent.COMMIT)
        await self.chain.submit(
            InferenceMarket.commit_result(unit=race.unit_id, attempt=attempt, commitment=commitment)
        )
        self.telemetry.tell("committed", unit=race.unit_id, attempt=attempt)

    async def _decline(self, race: Race) -> None:
        is_due = self._is_due(race, RaceStep.DECLINE, self.height)
        self.note(race, Sent.DECLINE)
        if is_due:
            await self._submit_decline(race)

    async def _submit_decline(self, race: Race) -> None:
        await self.chain.submit(InferenceMarket.decline(unit=race.unit_id, attempt=race.unit.attempt))
        self.telemetry.tell("declined", unit=race.unit_id, attempt=race.unit.attempt)

    def note(self, race: Race, sent: Sent) -> None:
        """Write down that a step is about to be taken."""
        if sent not in self.journal.races[race.key].sent:
            self.journal.append(Sending(race.unit_id, race.unit.attempt, sent))

    async def attestation(self, race: Race, result: WorkResult) -> SignedAttestation:
        """The signed statement that opens the commitment.

        Heights are those at which this provider saw the work begin and end; a race that a reverted block drew and a
        later one drew again began with the later one.
        """
        service = await self.chain.service(race.unit.service)
        drawn_at = race.unit.round.drawn_at if race.unit.round else 0
        started_at = max(result.started_at, drawn_at)
        statement = Attestation(
            version=VERSION,
            unit=race.unit_id,
            attempt=race.unit.attempt,
            replica=race.place,
            provider_key=self.identity.key.public_key,
            device=race.racer.device,
            workload=service.terms.workload,
            model=service.terms.model,
            input_root=race.unit.terms.input_root,
            output_root=result.output_root,
            output_blob=result.output_blob,
            output_tokens=len(result.output),
            salt=result.salt,
            proof_kind=ProofKind.EXACT_HASH,
            proof_hash=result.output_root,
            proof_inline=b"",
            usage=result.usage,
            started_at=started_at,
            finished_at=max(result.finished_at, started_at),
        )
        return self.signed(statement)

    def signed(self, statement: Attestation) -> SignedAttestation:
        """A statement under the provider key."""
        signature = self.identity.key.sign(signing_payload(self.identity.genesis, statement))
        return SignedAttestation(statement, signature)
