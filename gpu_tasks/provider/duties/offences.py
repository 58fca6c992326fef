"""Reporting offences that no author attached: the node keeps the evidence but holds no key that can pay for a call.

Nodes pass evidence on, and any author attaches it for nothing. Where none did, since offenders are many or make the
blocks, the provider beside a node reports, and earns what the author would have. Only the first report counts, so an
offender that is already tombstoned is not reported again; a report that comes second costs its fee.
"""

from __future__ import annotations

from gpu_tasks.provider.chain.port import ChainError, OffencePort, SeenOffence, View
from gpu_tasks.provider.duties.duty import ENDINGS_EVERY_BLOCKS, Duty
from gpu_tasks.provider.telemetry import Telemetry
from runtime.blocks.evidence import EVIDENCE
from runtime.cryptography.hashing import blake2_256
from runtime.pallets.staking.trust_lock import TrustLock

REPORTS_MAX = 1_024
"""What is remembered as reported; an honest network has none."""


class Reporter(Duty):
    """Reports what the node saw, each evidence once: Root may lift a tombstone, and who had it offend again."""

    def __init__(self, stash: bytes, chain: OffencePort, telemetry: Telemetry) -> None:
        """`stash` is the provider's own, which it does not accuse."""
        self._stash = stash
        self._chain = chain
        self._telemetry = telemetry
        self._reported: set[bytes] = set()
        self._waiting: set[bytes] = set()

    async def step(self, view: View) -> None:
        """Report, every few blocks, who offended and was not punished since the report before.

        ChainError if the node is away: the evidence is still there later.
        """
        if view.height % ENDINGS_EVERY_BLOCKS:
            return
        before, self._waiting = self._waiting, set()
        for seen in await self._chain.offences():
            proof = blake2_256(EVIDENCE.encode(seen.evidence))
            if seen.offender == self._stash or proof in self._reported:
                continue
            if await self._chain.is_tombstoned(seen.offender):
                continue
            self._waiting.add(proof)
            if proof not in before:
                continue
            if len(self._reported) < REPORTS_MAX:
                self._reported.add(proof)
            await self._report(seen, proof)

    async def _report(self, seen: SeenOffence, proof: bytes) -> None:
        try:
            await self._chain.submit(TrustLock.report_offence(evidence=seen.evidence))
        except ChainError:
            self._reported.discard(proof)
            raise
        self._telemetry.tell("reported", offender=seen.offender)
