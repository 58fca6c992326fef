"""From a unit or a task on the chain to what it asks for: fetch the sealed input, open it, check it.

Always: racers and judges refuse the same inputs, so that a wrong one costs its customer and nobody else.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from gpu_tasks.data.blob_client import BlobClient
from gpu_tasks.data.market_reads import endpoints_of, keys_at
from gpu_tasks.data.placement import COPIES, stores_for
from gpu_tasks.data.sealing import Opened, SealError, is_usable
from gpu_tasks.data.unit_input import UnitInput, commitment_of, decode_input
from gpu_tasks.market.inference.units import Unit
from gpu_tasks.provider.blobs.store import BlobStore
from gpu_tasks.provider.chain.port import ChainPort, Identity
from runtime.encoding.codec import DecodeError


class UnusableInputError(Exception):
    """The input cannot be used by anybody whom it should be sealed to: the customer's fault."""


@dataclass(frozen=True, slots=True)
class SealedInput:
    """An input as the chain names it, and who may have kept a copy."""

    address: bytes
    commitment: bytes
    sealed_at: int
    keepers: tuple[bytes, ...] = ()


class Inputs:
    """Opens the inputs of units and tasks; keeps a copy of each in the own store, so that judges find it too."""

    def __init__(self, identity: Identity, chain: ChainPort, blobs: BlobClient, store: BlobStore) -> None:
        """Looks into `store` first, then asks the others."""
        self._identity = identity
        self._chain = chain
        self._blobs = blobs
        self._store = store

    async def open(self, unit: Unit) -> UnitInput:
        """The request; UnusableInputError for an unusable one, BlobError and ChainError if it cannot be had now."""
        terms = unit.terms
        racers = tuple(racer.owner for racer in unit.racers)
        sealed = SealedInput(terms.input_root, terms.input_commitment, terms.sealed_at, racers)
        return await self.open_sealed(sealed)

    async def is_shown_unusable(self, unit: Unit) -> bool:
        """Whether the own copy of an input shows that it is unusable: whoever has it sees the same. ChainError.

        What is not here is not fetched: that it cannot be had shows nothing to anybody else. Nor does a box that does
        not open where this machine has another key than the chain knows of.
        """
        known = (await self._chain.providers()).get(self._identity.stash)
        has_key = known is not None and known.seal_key == self._identity.seal_key.public
        if not has_key or self._store.get(unit.terms.input_root) is None:
            return False
        try:
            await self.open(unit)
        except UnusableInputError:
            return True
        return False

    async def open_sealed(self, sealed: SealedInput) -> UnitInput:
        """The request of whatever a customer sealed; errors as `open`."""
        blob = await self._fetch(sealed)
        try:
            opened = self._identity.seal_key.opened(blob)
            if commitment_of(opened.content) != sealed.commitment:
                raise UnusableInputError("the input is another than the customer committed to")
            asked = decode_input(opened.content)
        except (SealError, DecodeError) as error:
            raise UnusableInputError(str(error)) from error
        if not is_usable(asked.reply_key):
            raise UnusableInputError("the reply key is no X25519 key")
        await self._check_boxes(sealed, opened)
        return asked

    async def _check_boxes(self, sealed: SealedInput, opened: Opened) -> None:
        """Everybody who may judge must be able to read it: a customer who left some out could win by their silence."""
        judges = keys_at(await self._chain.judging_readers(), sealed.sealed_at)
        left_out = opened.left_out(judges)
        if left_out:
            raise UnusableInputError(f"the input is not sealed to {len(left_out)} of {len(judges)} who may judge it")

    async def _fetch(self, sealed: SealedInput) -> bytes:
        """From the own store, from those that the customer chose among, or from others at work, who keep copies."""
        address = sealed.address
        blob = self._store.get(address)
        if blob is None:
            known = await self._chain.providers()
            near = endpoints_of({keeper: known[keeper] for keeper in sealed.keepers if keeper in known})
            ranked = stores_for(address, endpoints_of(known))
            # Where the customer put it, then the others at work, who keep what they fetched; then whoever else may.
            blob = await self._blobs.get(address, [*ranked[:COPIES], *near, *ranked[COPIES:]])
            with contextlib.suppress(OSError):  # others have it
                self._store.put(blob, is_own=True)  # own work: strangers' blobs cannot take its room
        return blob
