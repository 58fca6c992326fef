"""A race from the provider's side: execute, commit, attest.

Invariants:

* The next step is a function of chain and journal, so it is the same after a restart.
* A result in the journal is never computed again.
* A publicly visible step is in the journal before it is sent, and repeated until the chain shows it.
* Nothing is signed for another input than the computed one.
* Nothing is revealed before its own commitment is in the final chain.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from functools import partial

from gpu_tasks.data.blob_client import BlobError
from gpu_tasks.data.unit_input import UnitInput
from gpu_tasks.market.attestations.attestations import Attestations
from gpu_tasks.market.attestations.statement import VERSION, Attestation, ProofKind, SignedAttestation, signing_payload
from gpu_tasks.market.inference.gpu_tasks_api import DutyStatus
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import racer_of, result_commitment
from gpu_tasks.provider.blobs.inputs import UnusableInputError
from gpu_tasks.provider.blobs.kept_inputs import InputUse
from gpu_tasks.provider.chain.port import ChainError, RacePort, View
from gpu_tasks.provider.duties.duty import Duty, Endings, telling_refusals
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.duties.race_steps import SENT_BY, Race, RaceStep, next_step, race_of
from gpu_tasks.provider.duties.sent_steps import StepBook, StepMessage
from gpu_tasks.provider.duties.work import basis_of, execute, seconds_for
from gpu_tasks.provider.execution.executor import BadRequestError, ExecutionError, TooLargeError
from gpu_tasks.provider.journal.finished import forget, forget_others
from gpu_tasks.provider.journal.journal import RaceKey
from gpu_tasks.provider.journal.records import Basis, RaceEntry, UnitResult
from gpu_tasks.provider.telemetry import Detail, failure
from runtime.frame.call import Call

EARLIER_INPUT_SECONDS = 5.0
"""The longest wait of a race for the inputs of the races before it on its device."""


class RaceDuty(Duty):
    """The steps of all races."""

    def __init__(self, parts: Parts[RacePort]) -> None:
        """Races run in parallel, each on the device that was drawn for it."""
        self.parts = parts
        self.book: StepBook[RaceStep] = StepBook(parts)
        self.running = (self.book.tasks,)
        forget_others(parts.journal.database, [unit_id for (unit_id, _), _ in parts.journal.open_races()])
        # After a restart the store has the blobs, but does not know the units that need them.
        for (unit_id, _), race_entry in parts.journal.open_races():
            if race_entry.basis is not None:
                parts.inputs.kept.recall(race_entry.basis.input_root, InputUse.ANSWERED, unit_id)
        self._without_input: set[RaceKey] = set()
        self._before_work: dict[RaceKey, tuple[Race, asyncio.Event]] = {}
        """Races that are not ready for their device, each with the event of its readiness."""
        self._seen_final: set[RaceKey] = set()
        self.hindered: set[RaceKey] = set()
        """Races whose last execution failed for a reason other than a missing input."""
        self._at_work: set[RaceKey] = set()

    async def step(self, view: View) -> None:
        """Take the due steps of all races, and stop work on units that are no longer this provider's."""
        self.book.look(view)
        self._stop_others(view)
        # A race starts after those before it on its device, so that it sees that they are not ready yet.
        for duty in sorted(view.duties, key=lambda duty: duty.before):
            with telling_refusals(self.parts.telemetry, duty.id):
                await self.step_race(duty, view)

    async def step_race(self, duty: DutyStatus, view: View) -> None:
        """Take the due step of a race. Raise ChainError if the node refuses it."""
        race = race_of(duty, self.parts.identity.stash)
        if race is None:
            return
        lacks_input = race.key in self._without_input
        race_step = next_step(race, self.parts.journal.races.get(race.key), view, lacks_input=lacks_input)
        if race_step is RaceStep.EXECUTE:
            self._at_work.add(race.key)
            self.book.tasks.start(race.key, self._execute_race(race))
        elif race_step is not RaceStep.NOTHING and await self._may_be_seen(race, race_step):
            # The search for the input is over, or the result comes too late. It would occupy one of the limited tasks.
            if race_step is RaceStep.PASS or (race_step is RaceStep.DECLINE and lacks_input):
                self.book.tasks.cancel(race.key)
            await self._take_if_due(race, race_step)

    def _stop_others(self, view: View) -> None:
        """Stop work on units that are no longer this provider's, which frees their devices."""
        own_units = {duty.id for duty in view.duties}
        for race_key in [race_key for race_key in self._at_work if race_key[0] not in own_units]:
            self._at_work.discard(race_key)
            self.book.tasks.cancel(race_key)

    def learn(self, ended: Endings) -> None:
        """Forget ended races."""
        for race_key in ended.races:
            assert self.parts.journal.races[race_key].end is not None
            self.book.forget(race_key)
            forget(self.parts.journal.database, race_key[0])
            self._without_input.discard(race_key)
            self._seen_final.discard(race_key)
            self.hindered.discard(race_key)

    async def _take_if_due(self, race: Race, race_step: RaceStep) -> None:
        was_sent = SENT_BY[race_step] in self.parts.journal.races[race.key].sent
        if self.book.is_due(race.key, race_step, was_sent=was_sent):
            await self.take(race, race_step)

    async def _may_be_seen(self, race: Race, race_step: RaceStep) -> bool:
        """Return True if a step reveals nothing too early: a result is shown only after its commitment is final.

        A node that suppressed the commitment could claim that reveals are open, and pass the result to a rival.
        """
        if race_step not in (RaceStep.ATTEST, RaceStep.REVEAL) or race.key in self._seen_final:
            return True
        final_status = await self.parts.chain.final_unit(race.unit_id)
        final_racer = None if final_status is None else racer_of(final_status.unit, self.parts.identity.stash)
        if final_status is None or final_racer is None or final_racer.commitment != self._commitment(race):
            self.parts.telemetry.tell(
                "not_final", unit=race.unit_id, problem="the final chain does not have the commit"
            )
            return False
        is_closed = final_status.unit.round is not None and final_status.unit.round.closed_at > 0
        # If finality is delayed, a reveal that comes too late costs more than an early one.
        if is_closed or race_step is RaceStep.REVEAL:
            self._seen_final.add(race.key)
        return race.key in self._seen_final

    # ------------------------------------------------------------------------------------------------------ execution

    async def _execute_race(self, race: Race) -> None:
        """Work from assignment to commitment.

        An unusable input is declined here, and one that is too large for this machine is passed. An unavailable one is
        declined in `step`. A fault of this machine is retried at each block instead. If it lasts until the deadline,
        this provider passes and pays for it, not the customer.
        """
        unit_id, attempt_number, tell = race.unit_id, race.unit.attempt, self.parts.telemetry.tell
        if race.key not in self.parts.journal.races:
            self.parts.journal.races.put(race.key, RaceEntry(race.racer.device))
            tell("assigned", unit=unit_id, attempt=attempt_number, device=race.racer.device, height=self.book.height)
        try:
            with self._before_device(race):
                workload_form = await self.parts.form_of(race.unit)
                self._without_input.add(race.key)
                unit_input = await self.parts.inputs.open(unit_id, race.unit, InputUse.ANSWERED)
                self._without_input.discard(race.key)
                await self._let_earlier_begin(race)
            work_basis = basis_of(race.unit, workload_form)
            unit_result = await execute(
                self.parts,
                race,
                workload_form,
                work_basis,
                unit_input,
                lambda: self.book.height,
                await seconds_for(self.parts, race.unit),
            )
            self._keep_result(race, work_basis, unit_result, unit_input)
            self.hindered.discard(race.key)
            self.parts.workers.times.look()
            if await self._is_as_final(race):
                await self._take_if_due(race, RaceStep.COMMIT)
        except (UnusableInputError, BadRequestError) as error:
            self._without_input.discard(race.key)
            tell("bad_input", unit=unit_id, **failure(error))
            await self._take_if_due(race, RaceStep.DECLINE)
        except TooLargeError as error:
            # Voters would find this input usable. A race that cannot end in time also keeps the device from others.
            tell("too_large", unit=unit_id, **failure(error))
            await self._take_if_due(race, RaceStep.PASS)
        except (BlobError, ExecutionError, ChainError) as error:
            tell("hindered", unit=unit_id, **failure(error))
            if race.key not in self._without_input:
                self.hindered.add(race.key)
            self.parts.workers.times.look()

    @contextlib.contextmanager
    def _before_device(self, race: Race) -> Iterator[None]:
        """Show a race to the later ones on its device until it is ready for it, or fails."""
        is_ready = asyncio.Event()
        self._before_work[race.key] = race, is_ready
        try:
            yield
        finally:
            del self._before_work[race.key]
            is_ready.set()

    async def _let_earlier_begin(self, race: Race) -> None:
        """Wait a short time for the inputs of earlier races on this device.

        The chain counts the time of the first race already. If a later race took the free device, a long unit would use
        up the time of the first.
        """
        earlier_races = [
            is_ready.wait()
            for other, is_ready in self._before_work.values()
            if other.racer.device == race.racer.device and other.rank < race.rank
        ]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(EARLIER_INPUT_SECONDS):
                await asyncio.gather(*earlier_races)

    async def _is_as_final(self, race: Race) -> bool:
        """Return True if the final chain has the computed terms. A unit is drawn once its posting is final."""
        final_status = await self.parts.chain.final_unit(race.unit_id)
        is_same_unit = final_status is not None and final_status.unit.terms == race.unit.terms
        if not is_same_unit:
            problem = "the node's input differs from the final chain's, so the result is void"
            self.parts.telemetry.tell("not_final", unit=race.unit_id, problem=problem)
        return is_same_unit

    def _keep_result(self, race: Race, work_basis: Basis, unit_result: UnitResult, unit_input: UnitInput) -> None:
        """Write a result to the journal before any other party learns of it."""
        assert self.parts.journal.races[race.key].basis != work_basis  # nothing is executed twice
        with self.parts.journal.step():
            self.parts.journal.races.change(race.key, basis=work_basis, result=unit_result, input_salt=unit_input.salt)
            forget(self.parts.journal.database, race.unit_id)
        work_units, wall_ms = unit_result.usage.work_units, unit_result.usage.wall_ms
        self.parts.workers.times.note_tokens(race.racer.device, unit_result.totals.tokens_out)
        self.parts.telemetry.tell("executed", unit=race.unit_id, device=race.racer.device, cost=work_units, ms=wall_ms)

    # ---------------------------------------------------------------------------------------------------------- steps

    async def take(self, race: Race, step: RaceStep) -> None:
        """Take a publicly visible step. The journal notes each kind of step once."""
        race_entry, unit_id, attempt_number = self.parts.journal.races[race.key], race.unit_id, race.unit.attempt
        step_details: dict[str, Detail] = {"unit": unit_id, "attempt": attempt_number}
        step_content: Call | SignedAttestation
        match step:
            case RaceStep.COMMIT:
                commitment, event_name = self._commitment(race), "committed"
                step_content = InferenceMarket.commit_result(
                    unit=unit_id, attempt=attempt_number, commitment=commitment
                )
            case RaceStep.DECLINE:
                step_content, event_name = InferenceMarket.decline(unit=unit_id, attempt=attempt_number), "declined"
            case RaceStep.PASS:
                step_content, event_name = InferenceMarket.pass_unit(unit=unit_id, attempt=attempt_number), "passed"
            case RaceStep.ATTEST | RaceStep.REVEAL:
                assert race_entry.result is not None, "`next_step` requests no earlier step that needs it"
                attested, event_name = await attestation(self.parts, race, race_entry.result), "attested"
                step_content = attested if step is RaceStep.ATTEST else Attestations.reveal(attestation=attested)
                step_details["way"] = step.name.lower()
            case _:
                raise AssertionError(f"{step.name} is not a step with a transaction")
        journal_intent = partial(self.parts.journal.races.add, race.key, sent=SENT_BY[step])
        await self.book.send(StepMessage(step_content, event_name, step_details, journal_intent))

    def _commitment(self, race: Race) -> bytes:
        identity, unit_result = self.parts.identity, self.result(race)
        return result_commitment(
            identity.genesis, race.unit_id, race.unit.attempt, identity.stash, unit_result.output_root, unit_result.salt
        )

    def result(self, race: Race) -> UnitResult:
        """Return the journal's result of an executed race."""
        kept_result = self.parts.journal.races[race.key].result
        assert kept_result is not None  # `next_step` returns no step that needs a result earlier
        return kept_result


async def attestation(parts: Parts[RacePort], race: Race, unit_result: UnitResult) -> SignedAttestation:
    """Return the signed statement about a race's result. Raise ChainError if its service cannot be read.

    Heights are those at which this provider saw the work begin and end. If a reverted block drew a race and a later one
    drew it again, the later block is its start.
    """
    service_terms = (await parts.chain.service(race.unit.service)).terms
    drawn_at = race.unit.round.drawn_at if race.unit.round else 0
    started_at = max(unit_result.started_at, drawn_at)
    statement = Attestation(
        version=VERSION,
        unit=race.unit_id,
        attempt=race.unit.attempt,
        replica=race.place,
        provider_key=parts.identity.key.public_key,
        device=race.racer.device,
        workload=service_terms.workload,
        model=service_terms.model,
        input_root=race.unit.terms.input_root,
        output_root=unit_result.output_root,
        output_blob=unit_result.output_blob,
        totals=unit_result.totals,
        salt=unit_result.salt,
        proof_kind=ProofKind.EXACT_HASH,
        proof_hash=unit_result.output_root,
        proof_inline=b"",
        usage=unit_result.usage,
        started_at=started_at,
        finished_at=max(unit_result.finished_at, started_at),
    )
    return SignedAttestation(statement, parts.identity.key.sign(signing_payload(parts.identity.genesis, statement)))
