"""Not assigned: commits to, and attests, units that others were drawn for; its own races it runs honestly."""

from __future__ import annotations

from typing import Any, cast

from devnet.proofs.cheating.attempts import Attempts
from gpu_tasks.batches.sum_tree import Totals, batch_root
from gpu_tasks.market.attestations.usage import Usage
from gpu_tasks.market.inference.commitments import result_commitment
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import Unit, UnitState, racer_of
from gpu_tasks.provider.chain.live import LiveChain
from gpu_tasks.provider.chain.port import View
from gpu_tasks.provider.daemon import Daemon
from gpu_tasks.provider.duties.attesting import attestation
from gpu_tasks.provider.duties.keyed_tasks import KeyedTasks
from gpu_tasks.provider.duties.races import Race
from gpu_tasks.provider.journal.records import UnitResult

UNITS_LOOKED_AT = 200


class Intruder(Daemon):
    """Looks at all units of the market."""

    def __init__(self, *parts: Any) -> None:
        """As `Daemon`."""
        super().__init__(*parts)
        self._tried: set[bytes] = set()
        self._intrusions = KeyedTasks()

    async def step(self, view: View) -> None:
        """An honest step, and each race of others once."""
        await super().step(view)
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
