"""Replayed attestation: races honestly, and sends the attestation of an earlier race again, as it was and renamed."""

from __future__ import annotations

from dataclasses import replace

from devnet.proofs.cheating.attempts import Attempts
from gpu_tasks.market.attestations.statement import SignedAttestation
from gpu_tasks.provider.daemon import Daemon
from gpu_tasks.provider.duties.attesting import attestation
from gpu_tasks.provider.duties.keyed_tasks import KeyedTasks
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.duties.races import Race, RaceStep
from gpu_tasks.provider.duties.racing import RaceDuty


class ReplayingRacing(RaceDuty):
    """Remembers its first attestation."""

    def __init__(self, parts: Parts) -> None:
        """As `RaceDuty`."""
        super().__init__(parts)
        self._old: SignedAttestation | None = None
        self._replays = KeyedTasks()
        self._attempts = Attempts(parts, "replayed-attestation")

    async def take(self, race: Race, step: RaceStep) -> None:
        """Send the old one first where a new one is due."""
        if step is RaceStep.ATTEST:
            old, self._old = self._old, await attestation(self.parts, race, self.result(race))
            if old is not None and old.statement.unit != race.unit_id:
                self._replays.start(race.unit_id, self._replay(race, old))
        await super().take(race, step)

    async def _replay(self, race: Race, old: SignedAttestation) -> None:
        await self._attempts.attest(race.unit_id, old)
        renamed = replace(old, statement=replace(old.statement, unit=race.unit_id))
        await self._attempts.attest(race.unit_id, renamed)


class ReplayedAttestation(Daemon):
    """See `ReplayingRacing`."""

    racing_kind = ReplayingRacing
