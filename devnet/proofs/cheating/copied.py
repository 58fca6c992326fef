"""Copied result: computes nothing, commits what a rival committed, and opens it with what the rival revealed."""

from __future__ import annotations

from devnet.proofs.cheating.attempts import Attempts
from gpu_tasks.batches.sum_tree import Totals
from gpu_tasks.market.api import DutyStatus
from gpu_tasks.market.attestations.statement import SignedAttestation
from gpu_tasks.market.attestations.usage import Usage
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import Reveal, UnitState
from gpu_tasks.provider.chain.port import View
from gpu_tasks.provider.daemon import Daemon
from gpu_tasks.provider.duties.attesting import attestation
from gpu_tasks.provider.duties.keyed_tasks import KeyedTasks
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.duties.races import Race, race_of
from gpu_tasks.provider.duties.racing import RaceDuty
from gpu_tasks.provider.journal.records import UnitResult


class CopyingRacing(RaceDuty):
    """Waits for rivals."""

    def __init__(self, parts: Parts) -> None:
        """As `RaceDuty`."""
        super().__init__(parts)
        self._attempts = Attempts(parts, "copied-result")
        self._copies = KeyedTasks()
        self._tried: set[tuple[bytes, str]] = set()

    async def step(self, duty: DutyStatus, view: View) -> None:
        """Copy the commitment when there is one, the reveal when there is one; each once."""
        self.book.height = view.height
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
        """The rival's result under this provider's name. The salt is anything: none opens the commitment."""
        usage = Usage(reveal.output_tokens, 1, 0, 1, 1, 1)
        height = self.book.height
        totals = Totals(race.unit.terms.requests, reveal.input_tokens, reveal.output_tokens, bytes(32))
        copied = UnitResult(b"", reveal.output_root, reveal.output_blob, totals, bytes(32), usage, height, height)
        return await attestation(self.parts, race, copied)


class CopiedResult(Daemon):
    """See `CopyingRacing`."""

    racing_kind = CopyingRacing
