"""Daemons that cheat about races: a copied result, a replayed attestation, a late one, one of another's race.

Each daemon sends messages that the chain should refuse, and reports the chain's answer as the event `cheat`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from gpu_tasks.batches.sum_tree import Totals, batch_root
from gpu_tasks.market.attestations.attestations import Attestations
from gpu_tasks.market.attestations.kinds import AnyAttestation
from gpu_tasks.market.attestations.statement import SignedAttestation
from gpu_tasks.market.attestations.usage import Usage
from gpu_tasks.market.inference.gpu_tasks_api import DutyStatus
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import Reveal, Unit, UnitState, racer_of, result_commitment
from gpu_tasks.provider.chain.live import LiveChain
from gpu_tasks.provider.chain.port import ChainError, ChainPort, SendPort, View
from gpu_tasks.provider.duties.duty import Duty
from gpu_tasks.provider.duties.keyed_tasks import KeyedTasks
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.duties.race import RaceDuty, attestation
from gpu_tasks.provider.duties.race_steps import Race, RaceStep, race_of
from gpu_tasks.provider.journal.records import UnitResult
from runtime.frame.call import Call
from wallet.client import NotIncludedError
from wallet.rpc import RpcError

ACCEPTED_ANSWER = "accepted"


class Attempts:
    """The attempts of one cheat."""

    def __init__(self, parts: Parts[SendPort], mode: str) -> None:
        """Sign with the keys of the daemon that owns `parts`."""
        self._daemon_parts = parts
        self._cheat_mode = mode

    async def call(self, unit_id: bytes, call: Call) -> None:
        """Send a call. It may fail in the pool or in its block."""
        live_chain = cast("LiveChain", self._daemon_parts.chain)
        try:
            async with live_chain.turn:  # Two concurrent calls would sign with one nonce.
                outcome = await live_chain.client.submit(call, live_chain.key, until="inBlock")
            answer = outcome.error or ACCEPTED_ANSWER
        except (NotIncludedError, RpcError) as error:
            answer = str(error)
        self._report_attempt(unit_id, call.name, answer)

    async def attest(self, unit_id: bytes, attestation: SignedAttestation) -> None:
        """Send an attestation, first to the node, then as a transaction."""
        # The pool may refuse what a block would accept, so both ways are tried.
        await self.state(unit_id, attestation)
        await self.call(unit_id, Attestations.reveal(attestation=attestation))

    async def state(self, unit_id: bytes, attestation: AnyAttestation) -> None:
        """Send an attestation to the node alone."""
        try:
            await self._daemon_parts.chain.attest(attestation)
            answer = "the pool has it, or another one of this place"
        except ChainError as error:
            answer = str(error)
        self._report_attempt(unit_id, "attestation", answer)

    def _report_attempt(self, unit_id: bytes, attempt_kind: str, answer: str) -> None:
        self._daemon_parts.telemetry.tell(
            "cheat", mode=self._cheat_mode, unit=unit_id, what=attempt_kind, answer=answer
        )


class CopyingRacing(RaceDuty):
    """A race duty that computes nothing and copies a rival."""

    def __init__(self, parts: Parts[ChainPort]) -> None:
        """Begin without copies."""
        super().__init__(parts)
        self._attempts = Attempts(parts, "copied-result")
        self._copy_tasks = KeyedTasks()
        self._tried_attempts: set[tuple[bytes, str]] = set()

    async def step_race(self, duty: DutyStatus, view: View) -> None:
        """Copy a rival's commitment once it exists, and its reveal once it exists. Try each once."""
        race = race_of(duty, self.parts.identity.stash)
        if race is None or race.unit.state is not UnitState.RACING:
            return
        committed_rivals = [racer for racer in race.unit.racers if racer.owner != race.racer.owner and racer.commitment]
        if not committed_rivals:
            return
        if race.racer.commitment is None and self._is_first_try(race, "commit"):
            call = InferenceMarket.commit_result(
                unit=race.unit_id, attempt=race.unit.attempt, commitment=committed_rivals[0].commitment or bytes(32)
            )
            self._copy_tasks.start((race.unit_id, "commit"), self._attempts.call(race.unit_id, call))
        elif committed_rivals[0].reveal is not None and self._is_first_try(race, "reveal"):
            attestation = await self._under_own_name(race, committed_rivals[0].reveal)
            self._copy_tasks.start((race.unit_id, "reveal"), self._attempts.attest(race.unit_id, attestation))

    def _is_first_try(self, race: Race, attempt_kind: str) -> bool:
        is_first_try = (race.unit_id, attempt_kind) not in self._tried_attempts
        self._tried_attempts.add((race.unit_id, attempt_kind))
        return is_first_try

    async def _under_own_name(self, race: Race, rival_reveal: Reveal) -> SignedAttestation:
        """Return the rival's result under this provider's name. The salt is arbitrary: no salt opens the commitment."""
        copied_usage = Usage(rival_reveal.output_tokens, 1, 0, 1, 1, 1)
        height = self.book.height
        copied_totals = Totals(
            race.unit.terms.requests, rival_reveal.input_tokens, rival_reveal.output_tokens, bytes(32)
        )
        copied_result = UnitResult(
            b"",
            rival_reveal.output_root,
            rival_reveal.output_blob,
            copied_totals,
            bytes(32),
            copied_usage,
            height,
            height,
        )
        return await attestation(self.parts, race, copied_result)


class ReplayingRacing(RaceDuty):
    """A race duty that replays its earlier attestation in each race."""

    def __init__(self, parts: Parts[ChainPort]) -> None:
        """Begin without an old attestation."""
        super().__init__(parts)
        self._old_attestation: SignedAttestation | None = None
        self._replay_tasks = KeyedTasks()
        self._attempts = Attempts(parts, "replayed-attestation")

    async def take(self, race: Race, step: RaceStep) -> None:
        """Send the old attestation before the new one is due."""
        if step is RaceStep.ATTEST:
            old_attestation, self._old_attestation = (
                self._old_attestation,
                await attestation(self.parts, race, self.result(race)),
            )
            if old_attestation is not None and old_attestation.statement.unit != race.unit_id:
                self._replay_tasks.start(race.unit_id, self._replay_attestation(race, old_attestation))
        await super().take(race, step)

    async def _replay_attestation(self, race: Race, old_attestation: SignedAttestation) -> None:
        await self._attempts.attest(race.unit_id, old_attestation)
        # The old signature does not cover the changed statement.
        renamed_attestation = replace(old_attestation, statement=replace(old_attestation.statement, unit=race.unit_id))
        await self._attempts.attest(race.unit_id, renamed_attestation)


class LateRacing(RaceDuty):
    """A race duty that sends its attestations too late.

    By then the race has ended and the view lists no duty for it.
    """

    def __init__(self, parts: Parts[ChainPort]) -> None:
        """Begin without a held attestation."""
        super().__init__(parts)
        self._held_attestations: dict[bytes, tuple[SignedAttestation, int]] = {}
        """Attestations by unit, each with the last block that would count it."""
        self._late_tasks = KeyedTasks()

    async def step(self, view: View) -> None:
        """Take an honest step, then send the attestations that have become late."""
        await super().step(view)
        for unit_id, (held, last_block) in list(self._held_attestations.items()):
            if view.height > last_block:
                del self._held_attestations[unit_id]
                self._late_tasks.start(unit_id, Attempts(self.parts, "late-reveal").attest(unit_id, held))

    async def take(self, race: Race, step: RaceStep) -> None:
        """Hold back each attestation and reveal."""
        if step not in (RaceStep.ATTEST, RaceStep.REVEAL):
            await super().take(race, step)
            return
        if race.unit_id not in self._held_attestations:
            signed_attestation = await attestation(self.parts, race, self.result(race))
            self._held_attestations[race.unit_id] = (signed_attestation, race.reveals_until)


UNITS_READ_MAX = 200


class Intrusion(Duty):
    """A duty that reads all units of the market, and attacks each race of other providers once."""

    def __init__(self, parts: Parts[ChainPort]) -> None:
        """Begin without attempts."""
        self.parts = parts
        self._tried_units: set[bytes] = set()
        self._intrusions = KeyedTasks()

    async def step(self, view: View) -> None:
        """Attack each race that is new."""
        live_chain = cast("LiveChain", self.parts.chain)
        # The view lists only the duties of this provider, so other races are read from the storage.
        units_prefix = live_chain.client.runtime.item(InferenceMarket.units).prefix
        unit_keys = await live_chain.client.rpc.call(
            "state_getKeysPaged", "0x" + units_prefix.hex(), UNITS_READ_MAX, None, None
        )
        for unit_id in (bytes.fromhex(unit_key[-64:]) for unit_key in unit_keys):
            if unit_id in self._tried_units:
                continue
            status = await live_chain.unit(unit_id)
            if status is None or status.unit.state is not UnitState.RACING:
                continue
            self._tried_units.add(unit_id)
            if racer_of(status.unit, self.parts.identity.stash) is None:
                self._intrusions.start(unit_id, self._attack_race(unit_id, status.unit, view.height))

    async def _attack_race(self, unit_id: bytes, race_unit: Unit, height: int) -> None:
        identity, commitment_salt = self.parts.identity, bytes(32)
        made_up_totals = Totals(race_unit.terms.requests, 0, 1, b"\x01" * 32)
        made_up_root = batch_root(made_up_totals)
        cheat_attempts = Attempts(self.parts, "not-assigned")
        commitment = result_commitment(
            identity.genesis, unit_id, race_unit.attempt, identity.stash, made_up_root, commitment_salt
        )
        call = InferenceMarket.commit_result(unit=unit_id, attempt=race_unit.attempt, commitment=commitment)
        await cheat_attempts.call(unit_id, call)
        race = Race(unit_id, race_unit, 0, 0, 0, 0, 0)
        made_up_result = UnitResult(
            b"", made_up_root, bytes(32), made_up_totals, commitment_salt, Usage(0, 0, 0, 0, 0, 0), height, height
        )
        await cheat_attempts.attest(unit_id, await attestation(self.parts, race, made_up_result))
