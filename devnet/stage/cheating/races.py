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

ACCEPTED = "accepted"


class Attempts:
    """The attempts of one cheat."""

    def __init__(self, parts: Parts[SendPort], mode: str) -> None:
        """Sign with the keys of the daemon that owns `parts`."""
        self._parts = parts
        self._mode = mode

    async def call(self, unit: bytes, call: Call) -> None:
        """Send a call. It may fail in the pool or in its block."""
        chain = cast("LiveChain", self._parts.chain)
        try:
            async with chain.turn:  # Two concurrent calls would sign with one nonce.
                outcome = await chain.client.submit(call, chain.key, until="inBlock")
            answer = outcome.error or ACCEPTED
        except (NotIncludedError, RpcError) as error:
            answer = str(error)
        self._tell(unit, call.name, answer)

    async def attest(self, unit: bytes, signed: SignedAttestation) -> None:
        """Send an attestation, first to the node, then as a transaction."""
        await self.state(unit, signed)
        await self.call(unit, Attestations.reveal(attestation=signed))

    async def state(self, unit: bytes, signed: AnyAttestation) -> None:
        """Send an attestation to the node alone."""
        try:
            await self._parts.chain.attest(signed)
            answer = "the pool has it, or another one of this place"
        except ChainError as error:
            answer = str(error)
        self._tell(unit, "attestation", answer)

    def _tell(self, unit: bytes, what: str, answer: str) -> None:
        self._parts.telemetry.tell("cheat", mode=self._mode, unit=unit, what=what, answer=answer)


class CopyingRacing(RaceDuty):
    """A race duty that computes nothing and copies a rival."""

    def __init__(self, parts: Parts[ChainPort]) -> None:
        """Begin without copies."""
        super().__init__(parts)
        self._attempts = Attempts(parts, "copied-result")
        self._copies = KeyedTasks()
        self._tried: set[tuple[bytes, str]] = set()

    async def step_race(self, duty: DutyStatus, view: View) -> None:
        """Copy a rival's commitment once it exists, and its reveal once it exists. Try each once."""
        race = race_of(duty, self.parts.identity.stash)
        if race is None or race.unit.state is not UnitState.RACING:
            return
        rivals = [rival for rival in race.unit.racers if rival.owner != race.racer.owner and rival.commitment]
        if not rivals:
            return
        if race.racer.commitment is None and self._is_new(race, "commit"):
            call = InferenceMarket.commit_result(
                unit=race.unit_id, attempt=race.unit.attempt, commitment=rivals[0].commitment or bytes(32)
            )
            self._copies.start((race.unit_id, "commit"), self._attempts.call(race.unit_id, call))
        elif rivals[0].reveal is not None and self._is_new(race, "reveal"):
            signed = await self._as_mine(race, rivals[0].reveal)
            self._copies.start((race.unit_id, "reveal"), self._attempts.attest(race.unit_id, signed))

    def _is_new(self, race: Race, what: str) -> bool:
        is_new = (race.unit_id, what) not in self._tried
        self._tried.add((race.unit_id, what))
        return is_new

    async def _as_mine(self, race: Race, reveal: Reveal) -> SignedAttestation:
        """Return the rival's result under this provider's name. The salt is arbitrary: no salt opens the commitment."""
        usage = Usage(reveal.output_tokens, 1, 0, 1, 1, 1)
        height = self.book.height
        totals = Totals(race.unit.terms.requests, reveal.input_tokens, reveal.output_tokens, bytes(32))
        copied = UnitResult(b"", reveal.output_root, reveal.output_blob, totals, bytes(32), usage, height, height)
        return await attestation(self.parts, race, copied)


class ReplayingRacing(RaceDuty):
    """A race duty that replays its earlier attestation in each race."""

    def __init__(self, parts: Parts[ChainPort]) -> None:
        """Begin without an old attestation."""
        super().__init__(parts)
        self._old: SignedAttestation | None = None
        self._replays = KeyedTasks()
        self._attempts = Attempts(parts, "replayed-attestation")

    async def take(self, race: Race, step: RaceStep) -> None:
        """Send the old attestation before the new one is due."""
        if step is RaceStep.ATTEST:
            old, self._old = self._old, await attestation(self.parts, race, self.result(race))
            if old is not None and old.statement.unit != race.unit_id:
                self._replays.start(race.unit_id, self._replay(race, old))
        await super().take(race, step)

    async def _replay(self, race: Race, old: SignedAttestation) -> None:
        await self._attempts.attest(race.unit_id, old)
        # The old signature does not cover the changed statement.
        renamed = replace(old, statement=replace(old.statement, unit=race.unit_id))
        await self._attempts.attest(race.unit_id, renamed)


class LateRacing(RaceDuty):
    """A race duty that sends its attestations too late.

    By then the race has ended and the view lists no duty for it.
    """

    def __init__(self, parts: Parts[ChainPort]) -> None:
        """Begin without a held attestation."""
        super().__init__(parts)
        self._held: dict[bytes, tuple[SignedAttestation, int]] = {}
        """Attestations by unit, each with the last block that would count it."""
        self._late = KeyedTasks()

    async def step(self, view: View) -> None:
        """Take an honest step, then send the attestations that have become late."""
        await super().step(view)
        for unit, (signed, until) in list(self._held.items()):
            if view.height > until:
                del self._held[unit]
                self._late.start(unit, Attempts(self.parts, "late-reveal").attest(unit, signed))

    async def take(self, race: Race, step: RaceStep) -> None:
        """Hold back each attestation and reveal."""
        if step not in (RaceStep.ATTEST, RaceStep.REVEAL):
            await super().take(race, step)
            return
        if race.unit_id not in self._held:
            signed = await attestation(self.parts, race, self.result(race))
            self._held[race.unit_id] = (signed, race.reveals_until)


UNITS_LOOKED_AT = 200


class Intrusion(Duty):
    """A duty that reads all units of the market, and attacks each race of other providers once."""

    def __init__(self, parts: Parts[ChainPort]) -> None:
        """Begin without attempts."""
        self.parts = parts
        self._tried: set[bytes] = set()
        self._intrusions = KeyedTasks()

    async def step(self, view: View) -> None:
        """Attack each race that is new."""
        chain = cast("LiveChain", self.parts.chain)
        prefix = chain.client.runtime.item(InferenceMarket.units).prefix
        keys = await chain.client.rpc.call("state_getKeysPaged", "0x" + prefix.hex(), UNITS_LOOKED_AT, None, None)
        for unit_id in (bytes.fromhex(key[-64:]) for key in keys):
            if unit_id in self._tried:
                continue
            status = await chain.unit(unit_id)
            if status is None or status.unit.state is not UnitState.RACING:
                continue
            self._tried.add(unit_id)
            if racer_of(status.unit, self.parts.identity.stash) is None:
                self._intrusions.start(unit_id, self._intrude(unit_id, status.unit, view.height))

    async def _intrude(self, unit_id: bytes, unit: Unit, height: int) -> None:
        identity, salt = self.parts.identity, bytes(32)
        totals = Totals(unit.terms.requests, 0, 1, b"\x01" * 32)
        root = batch_root(totals)
        attempts = Attempts(self.parts, "not-assigned")
        commitment = result_commitment(identity.genesis, unit_id, unit.attempt, identity.stash, root, salt)
        call = InferenceMarket.commit_result(unit=unit_id, attempt=unit.attempt, commitment=commitment)
        await attempts.call(unit_id, call)
        race = Race(unit_id, unit, 0, 0, 0, 0, 0)
        result = UnitResult(b"", root, bytes(32), totals, salt, Usage(0, 0, 0, 0, 0, 0), height, height)
        await attempts.attest(unit_id, await attestation(self.parts, race, result))
