"""Late reveal: commits honestly, and holds the attestation back until the window has passed."""

from __future__ import annotations

from typing import Any

from devnet.proofs.cheating.attempts import Attempts
from gpu_tasks.market.attestations.statement import SignedAttestation
from gpu_tasks.provider.chain.port import View
from gpu_tasks.provider.daemon import Daemon
from gpu_tasks.provider.duties.attesting import attestation
from gpu_tasks.provider.duties.keyed_tasks import KeyedTasks
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.duties.races import Race, RaceStep
from gpu_tasks.provider.duties.racing import RaceDuty


class HoldingRacing(RaceDuty):
    """Keeps attestations instead of sending them, each with the last block in which it would count."""

    def __init__(self, parts: Parts) -> None:
        """As `RaceDuty`."""
        super().__init__(parts)
        self.held: dict[bytes, tuple[SignedAttestation, int]] = {}

    async def take(self, race: Race, step: RaceStep) -> None:
        """Hold back what should be revealed."""
        if step not in (RaceStep.ATTEST, RaceStep.REVEAL):
            await super().take(race, step)
            return
        if race.unit_id not in self.held:
            signed = await attestation(self.parts, race, self.result(race))
            self.held[race.unit_id] = (signed, race.reveals_until)


class LateReveal(Daemon):
    """Sends what was held back, too late. By then the race is over and no duty is left to remind of it."""

    racing_kind = HoldingRacing

    def __init__(self, *parts: Any) -> None:
        """As `Daemon`."""
        super().__init__(*parts)
        self._late = KeyedTasks()

    async def step(self, view: View) -> None:
        """An honest step, and what has become too late."""
        await super().step(view)
        assert isinstance(self.racing, HoldingRacing)
        for unit, (signed, until) in list(self.racing.held.items()):
            if view.height > until:
                del self.racing.held[unit]
                self._late.start(unit, Attempts(self.parts, "late-reveal").attest(unit, signed))
