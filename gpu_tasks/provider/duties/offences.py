"""Reports of offences that no author attached. A node keeps the evidence but has no key to pay for a call.

Nodes forward evidence, and any author can attach it for free. If none did, for example because the offenders are many
or produce the blocks, the provider beside a node reports it and earns the author's reward. Only the first report
counts: an already tombstoned offender is not reported again, and a second report costs its fee.
"""

from __future__ import annotations

from gpu_tasks.provider.chain.port import ChainError, OffencePort, SeenOffence, View
from gpu_tasks.provider.duties.duty import ENDINGS_EVERY_BLOCKS, Duty
from gpu_tasks.provider.telemetry import Telemetry
from runtime.blocks.evidence import EVIDENCE
from runtime.cryptography.hashing import blake2_256
from runtime.pallets.staking.trust_lock import TrustLock

REPORTS_MAX = 1_024
"""The most remembered reports. An honest network has none."""


class Reporter(Duty):
    """The duty to report the offences that the node saw, each evidence once.

    Without that memory a reporter could repeat old evidence after Root lifts a tombstone.
    """

    def __init__(self, stash: bytes, offence_port: OffencePort, telemetry: Telemetry) -> None:
        """`stash` is the provider's own, which is never accused."""
        self._stash = stash
        self._chain = offence_port
        self._telemetry = telemetry
        self._reported: set[bytes] = set()
        self._waiting: set[bytes] = set()

    async def step(self, view: View) -> None:
        """Report, in a due block, the offences that were already unpunished at the previous report.

        Raise ChainError if the node is unreachable. The evidence remains for later.
        """
        if view.height % ENDINGS_EVERY_BLOCKS:
            return
        earlier, self._waiting = self._waiting, set()
        for offence in await self._chain.offences():
            proof_hash = blake2_256(EVIDENCE.encode(offence.evidence))
            # A provider that reports itself would only pay for it.
            if offence.offender == self._stash or proof_hash in self._reported:
                continue
            if await self._chain.is_tombstoned(offence.offender):
                continue
            self._waiting.add(proof_hash)
            # One interval of delay lets authors attach the evidence for free.
            if proof_hash not in earlier:
                continue
            if len(self._reported) < REPORTS_MAX:
                self._reported.add(proof_hash)
            await self._report(offence, proof_hash)

    async def _report(self, offence: SeenOffence, proof_hash: bytes) -> None:
        try:
            await self._chain.submit(TrustLock.report_offence(evidence=offence.evidence))
        except ChainError:
            # The node refused the call, so it is tried again at the next interval.
            self._reported.discard(proof_hash)
            raise
        self._telemetry.tell("reported", offender=offence.offender)
