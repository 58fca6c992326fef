"""Sending what should be refused, and telling the chain's answer as the event `cheat`."""

from __future__ import annotations

from typing import cast

from gpu_tasks.market.attestations.attestations import Attestations
from gpu_tasks.market.attestations.kinds import AnyAttestation
from gpu_tasks.market.attestations.statement import SignedAttestation
from gpu_tasks.provider.chain.live import LiveChain
from gpu_tasks.provider.chain.port import ChainError
from gpu_tasks.provider.duties.parts import Parts
from runtime.frame.call import Call
from wallet.client import NotIncludedError
from wallet.rpc import RpcError

ACCEPTED = "accepted"


class Attempts:
    """The attempts of one cheat."""

    def __init__(self, parts: Parts, mode: str) -> None:
        """Signs with the keys of the daemon whose parts these are."""
        self._parts = parts
        self._mode = mode

    async def call(self, unit: bytes, call: Call) -> None:
        """A call; it may fail in the pool or in its block."""
        chain = cast("LiveChain", self._parts.chain)
        try:
            async with chain.turn:  # two at once would sign with one nonce
                outcome = await chain.client.submit(call, chain.key, until="inBlock")
            answer = outcome.error or ACCEPTED
        except (NotIncludedError, RpcError) as error:
            answer = str(error)
        self._tell(unit, call.name, answer)

    async def attest(self, unit: bytes, signed: SignedAttestation) -> None:
        """An attestation: to the node, and as a transaction."""
        await self.state(unit, signed)
        await self.call(unit, Attestations.reveal(attestation=signed))

    async def state(self, unit: bytes, signed: AnyAttestation) -> None:
        """An attestation, to the node alone."""
        try:
            await self._parts.chain.attest(signed)
            answer = "the pool has it, or another one of this place"
        except ChainError as error:
            answer = str(error)
        self._tell(unit, "attestation", answer)

    def _tell(self, unit: bytes, what: str, answer: str) -> None:
        self._parts.telemetry.tell("cheat", mode=self._mode, unit=unit, what=what, answer=answer)
