"""A race from the provider's side: execute, commit, attest.

Invariants:

* The next step is a function of chain and journal, so it is the same after a restart.
* A result in the journal is never computed again.
* A publicly visible step is in the journal before it is sent, and repeated until the chain shows it.
* Nothing is signed for another input than the computed one.
* Nothing is revealed before its own commitment is in the final chain.
"""

from __future__ import annotations

from functools import partial

from gpu_tasks.data.blob_client import BlobError
from gpu_tasks.data.unit_input import UnitInput
from gpu_tasks.market.attestations.attestations import Attestations
from gpu_tasks.market.attestations.statement import (
    VERSION,
    Attestation,
    ProofKind,
    SignedAttestation,
    signing_payload,
)
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
from gpu_tasks.provider.duties.work import basis_of, execute
from gpu_tasks.provider.execution.executor import BadRequestError, ExecutionError
from gpu_tasks.provider.journal.finished import forget, forget_others
from gpu_tasks.provider.journal.journal import RaceKey
from gpu_tasks.provider.journal.records import Basis, RaceEntry, UnitResult
from gpu_tasks.provider.telemetry import Detail, failure
from runtime.frame.call import Call


class RaceDuty(Duty):
    """The steps of all races."""

    def __init__(self, parts: Parts[RacePort]) -> None:
        """Races run in parallel, each on the device that was drawn for it."""
        self.parts = parts
        self.book: StepBook[RaceStep] = StepBook(parts)
        self.running = (self.book.tasks,)
        forget_others(parts.batches, [unit for (unit, _), _ in parts.journal.open_races()])
        # After a restart the store has the blobs, but does not know the units that need them.
        for (unit, _), entry in parts.journal.open_races():
            if entry.basis is not None:
                parts.inputs.kept.recall(entry.basis.input_root, InputUse.ANSWERED, unit)
        self._without_input: set[RaceKey] = set()
        self._seen_final: set[RaceKey] = set()
        self.hindered: set[RaceKey] = set()
        """Races whose last execution failed for a reason other than a missing input."""
        self._at_work: set[RaceKey] = set()

    async def step(self, view: View) -> None:
        """Take the due steps of all races, and stop work on units that are no longer this provider's."""
        self.book.look(view)
        self._stop_others(view)
        for duty in view.duties:
            with telling_refusals(self.parts.telemetry, duty.id):
                await self.step_race(duty, view)

    async def step_race(self, duty: DutyStatus, view: View) -> None:
        """Take the due step of a race. Raise ChainError if the node refuses it."""
        race = race_of(duty, self.parts.identity.stash)
        if race is None:
            return
        lacks_input = race.key in self._without_input
        step = next_step(race, self.parts.journal.races.get(race.key), view, lacks_input=lacks_input)
        if step is RaceStep.EXECUTE:
            self._at_work.add(race.key)
            self.book.tasks.start(race.key, self._execute(race))
        elif step is not RaceStep.NOTHING and await self._may_be_seen(race, step):
            # The search for the input is over. It would occupy one of the limited tasks.
            if step is RaceStep.DECLINE and lacks_input:
                self.book.tasks.cancel(race.key)
            await self._take_if_due(race, step)

    def _stop_others(self, view: View) -> None:
        """Stop work on units that are no longer this provider's, which frees their devices."""
        own = {duty.id for duty in view.duties}
        for key in [key for key in self._at_work if key[0] not in own]:
            self._at_work.discard(key)
            self.book.tasks.cancel(key)

    def learn(self, ended: Endings) -> None:
        """Forget ended races."""
        for key in ended.races:
            assert self.parts.journal.races[key].end is not None
            self.book.forget(key)
            forget(self.parts.batches, key[0])
            self._without_input.discard(key)
            self._seen_final.discard(key)
            self.hindered.discard(key)

    async def _take_if_due(self, race: Race, step: RaceStep) -> None:
        was_sent = SENT_BY[step] in self.parts.journal.races[race.key].sent
        if self.book.is_due(race.key, step, was_sent=was_sent):
            await self.take(race, step)

    async def _may_be_seen(self, race: Race, step: RaceStep) -> bool:
        """Return True if a step reveals nothing too early: a result is shown only after its commitment is final.

        A node that suppressed the commitment could claim that reveals are open, and pass the result to a rival.
        """
        if step not in (RaceStep.ATTEST, RaceStep.REVEAL) or race.key in self._seen_final:
            return True
        status = await self.parts.chain.final_unit(race.unit_id)
        racer = None if status is None else racer_of(status.unit, self.parts.identity.stash)
        if status is None or racer is None or racer.commitment != self._commitment(race):
            self.parts.telemetry.tell(
                "not_final", unit=race.unit_id, problem="the final chain does not have the commit"
            )
            return False
        is_closed = status.unit.round is not None and status.unit.round.closed_at > 0
        # If finality is delayed, a reveal that comes too late costs more than an early one.
        if is_closed or step is RaceStep.REVEAL:
            self._seen_final.add(race.key)
        return race.key in self._seen_final

    # ------------------------------------------------------------------------------------------------------ execution

    async def _execute(self, race: Race) -> None:
        """Work from assignment to commitment.

        An unusable input is declined here, and an unavailable one in `step`. A fault of this machine is retried at each
        block instead. If it lasts past the deadline, this provider pays for it, not the customer.
        """
        unit, attempt, tell = race.unit_id, race.unit.attempt, self.parts.telemetry.tell
        if race.key not in self.parts.journal.races:
            self.parts.journal.races.put(race.key, RaceEntry(race.racer.device))
            tell("assigned", unit=unit, attempt=attempt, device=race.racer.device, height=self.book.height)
        try:
            form = await self.parts.form_of(race.unit)
            self._without_input.add(race.key)
            asked = await self.parts.inputs.open(unit, race.unit, InputUse.ANSWERED)
            self._without_input.discard(race.key)
            basis = basis_of(race.unit, form)
            result = await execute(self.parts, race, form, basis, asked, lambda: self.book.height)
            self._keep(race, basis, result, asked)
            self.hindered.discard(race.key)
            self.parts.workers.times.look()
            if await self._is_as_final(race):
                await self._take_if_due(race, RaceStep.COMMIT)
        except (UnusableInputError, BadRequestError) as error:
            self._without_input.discard(race.key)
            tell("bad_input", unit=unit, **failure(error))
            await self._take_if_due(race, RaceStep.DECLINE)
        except (BlobError, ExecutionError, ChainError) as error:
            tell("hindered", unit=unit, **failure(error))
            if race.key not in self._without_input:
                self.hindered.add(race.key)
            self.parts.workers.times.look()

    async def _is_as_final(self, race: Race) -> bool:
        """Return True if the final chain has the computed terms. A unit is drawn once its posting is final."""
        status = await self.parts.chain.final_unit(race.unit_id)
        is_same = status is not None and status.unit.terms == race.unit.terms
        if not is_same:
            problem = "the node's input differs from the final chain's, so the result is void"
            self.parts.telemetry.tell("not_final", unit=race.unit_id, problem=problem)
        return is_same

    def _keep(self, race: Race, basis: Basis, result: UnitResult, asked: UnitInput) -> None:
        """Write a result to the journal before any other party learns of it."""
        assert self.parts.journal.races[race.key].basis != basis  # nothing is executed twice
        self.parts.journal.races.change(race.key, basis=basis, result=result, input_salt=asked.salt)
        forget(self.parts.batches, race.unit_id)
        cost, ms = result.usage.work_units, result.usage.wall_ms
        self.parts.workers.times.note_tokens(race.racer.device, result.totals.tokens_out)
        self.parts.telemetry.tell("executed", unit=race.unit_id, device=race.racer.device, cost=cost, ms=ms)

    # ---------------------------------------------------------------------------------------------------------- steps

    async def take(self, race: Race, step: RaceStep) -> None:
        """Take a publicly visible step. The journal notes each kind of step once."""
        entry, unit, attempt = self.parts.journal.races[race.key], race.unit_id, race.unit.attempt
        details: dict[str, Detail] = {"unit": unit, "attempt": attempt}
        content: Call | SignedAttestation
        match step:
            case RaceStep.COMMIT:
                commitment, event = self._commitment(race), "committed"
                content = InferenceMarket.commit_result(unit=unit, attempt=attempt, commitment=commitment)
            case RaceStep.DECLINE:
                content, event = InferenceMarket.decline(unit=unit, attempt=attempt), "declined"
            case RaceStep.ATTEST | RaceStep.REVEAL:
                assert entry.result is not None, "`next_step` requests no earlier step that needs it"
                signed, event = await attestation(self.parts, race, entry.result), "attested"
                content = signed if step is RaceStep.ATTEST else Attestations.reveal(attestation=signed)
                details["way"] = step.name.lower()
            case _:
                raise AssertionError(f"{step.name} is not a step with a transaction")
        intent = partial(self.parts.journal.races.add, race.key, sent=SENT_BY[step])
        await self.book.send(StepMessage(content, event, details, intent))

    def _commitment(self, race: Race) -> bytes:
        identity, result = self.parts.identity, self.result(race)
        return result_commitment(
            identity.genesis, race.unit_id, race.unit.attempt, identity.stash, result.output_root, result.salt
        )

    def result(self, race: Race) -> UnitResult:
        """Return the journal's result of an executed race."""
        result = self.parts.journal.races[race.key].result
        assert result is not None  # `next_step` returns no step that needs a result earlier
        return result


async def attestation(parts: Parts[RacePort], race: Race, result: UnitResult) -> SignedAttestation:
    """Return the signed statement about a race's result. Raise ChainError if its service cannot be read.

    Heights are those at which this provider saw the work begin and end. If a reverted block drew a race and a later one
    drew it again, the later block is its start.
    """
    terms = (await parts.chain.service(race.unit.service)).terms
    drawn_at = race.unit.round.drawn_at if race.unit.round else 0
    started_at = max(result.started_at, drawn_at)
    statement = Attestation(
        version=VERSION,
        unit=race.unit_id,
        attempt=race.unit.attempt,
        replica=race.place,
        provider_key=parts.identity.key.public_key,
        device=race.racer.device,
        workload=terms.workload,
        model=terms.model,
        input_root=race.unit.terms.input_root,
        output_root=result.output_root,
        output_blob=result.output_blob,
        totals=result.totals,
        salt=result.salt,
        proof_kind=ProofKind.EXACT_HASH,
        proof_hash=result.output_root,
        proof_inline=b"",
        usage=result.usage,
        started_at=started_at,
        finished_at=max(result.finished_at, started_at),
    )
    return SignedAttestation(statement, parts.identity.key.sign(signing_payload(parts.identity.genesis, statement)))
