"""The inputs of units and tasks: fetch the sealed input, open it and check it.

Invariant: providers, checkers and voters refuse the same inputs, so that a wrong input costs only its customer.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from gpu_tasks.data.blob_client import COPIES, BlobClient, stores_for
from gpu_tasks.data.market_reads import endpoints_of, keys_at
from gpu_tasks.data.pieces import PiecesError, gathered
from gpu_tasks.data.sealing import CONTENT_BYTES_MAX, Opened, SealError, is_usable
from gpu_tasks.data.unit_input import UnitInput, commitment_of, content_max, decode_input
from gpu_tasks.market.inference.units import Unit
from gpu_tasks.provider.blobs.kept_inputs import InputUse, KeptInputs
from gpu_tasks.provider.blobs.store import BlobStore, StoreFullError
from gpu_tasks.provider.chain.port import Identity, NetworkPort
from gpu_tasks.provider.telemetry import Telemetry
from runtime.encoding.codec import DecodeError
from wallet.errors import CodedError


class _NotHereError(Exception):
    """A blob is not in this provider's store."""


class UnusableInputError(CodedError):
    """The input is unusable for every intended reader. The fault is the customer's."""


@dataclass(frozen=True, slots=True)
class SealedInput:
    """An input as named on the chain, and the providers that may have a copy."""

    address: bytes
    commitment: bytes
    sealed_at: int
    keepers: tuple[bytes, ...] = ()
    content_max: int = CONTENT_BYTES_MAX
    """The most bytes of its content. Content longer than a blob is in pieces."""
    unit: bytes | None = None
    """The unit of the input, if any. The input is kept until the unit is over."""
    use: InputUse = InputUse.ANSWERED


class Inputs:
    """The opened inputs of units and tasks. A copy of each stays in the provider's store, where others find it."""

    def __init__(
        self, identity: Identity, chain: NetworkPort, blobs: BlobClient, store: BlobStore, telemetry: Telemetry
    ) -> None:
        """It searches `store` first, then other stores, and reports inputs that could not be kept."""
        self._identity = identity
        self._network_port = chain
        self._blobs = blobs
        self._store = store
        self._telemetry = telemetry
        self.kept = KeptInputs(store)

    async def open(self, unit_id: bytes, unit: Unit, use: InputUse) -> UnitInput:
        """Return a unit's request.

        Raise UnusableInputError if the input is unusable, or BlobError or ChainError if it is unavailable at the
        moment.
        """
        return await self.open_sealed(_sealed(unit_id, unit, use))

    async def content(self, unit_id: bytes, unit: Unit) -> bytes:
        """Return the content of a unit's input that this provider used. It raises the errors of `open`.

        The customer's readers do not matter any more: a validator elected since then may be missing among them.
        """
        return (await self._opened(_sealed(unit_id, unit, InputUse.ANSWERED))).content

    async def is_shown_unusable(self, unit_id: bytes, unit: Unit) -> bool:
        """Return True if this provider's copy of an input proves that it is unusable. May raise ChainError.

        Every holder of the copy comes to the same result. A missing copy is not fetched, because its absence proves
        nothing to others. Nor does a box prove anything if this machine has another key than the chain.
        """
        if not await self.has_chain_key():
            return False
        try:
            await gathered(self._own_copy(unit.terms.input_root), self._fetch_own, content_max(unit.terms.requests))
            await self.open(unit_id, unit, InputUse.ANSWERED)
        except _NotHereError:
            return False
        except (UnusableInputError, PiecesError):
            return True
        return False

    async def has_chain_key(self) -> bool:
        """Return True if this machine has the key that the chain names. May raise ChainError.

        A box that does not open proves nothing otherwise.
        """
        own_record = (await self._network_port.providers()).get(self._identity.stash)
        return own_record is not None and own_record.seal_key == self._identity.seal_key.public

    async def open_sealed(self, sealed_input: SealedInput) -> UnitInput:
        """Return the request of any sealed input. It raises the errors of `open`."""
        opened = await self._opened(sealed_input)
        asked_input = _asked(opened)
        await self._check_boxes(sealed_input, opened)
        return asked_input

    async def _opened(self, sealed_input: SealedInput) -> Opened:
        """Return the content that the customer committed to. It raises the errors of `open`."""
        unkept_reasons: list[str] = []
        try:
            named_blob = await self._fetch(sealed_input.address, sealed_input, unkept_reasons)
            sealed_blob = await gathered(
                named_blob,
                partial(self._fetch, sealed_input=sealed_input, unkept_reasons=unkept_reasons),
                sealed_input.content_max,
            )
            opened = self._identity.seal_key.opened(sealed_blob)
        except (SealError, PiecesError) as error:
            raise UnusableInputError(str(error), code="invalid_input") from error
        if unkept_reasons:  # the work goes on, and others have the input
            self._telemetry.tell("input_not_kept", unit=sealed_input.unit, problem=unkept_reasons[0])
        if commitment_of(opened.content) != sealed_input.commitment:
            raise UnusableInputError("the input differs from the customer's commitment", code="other_commitment")
        return opened

    async def _check_boxes(self, sealed_input: SealedInput, opened: Opened) -> None:
        """Check that the input is sealed to every possible checker.

        A customer that left some out could have a right result found wrong through their missing answers.
        """
        checker_keys = keys_at(await self._network_port.checking_readers(), sealed_input.sealed_at)
        left_out = opened.left_out(checker_keys)
        if left_out:
            raise UnusableInputError(
                f"the input is not sealed to {len(left_out)} of the {len(checker_keys)} possible checkers",
                code="not_sealed_to_checkers",
            )

    async def _fetch_own(self, address: bytes) -> bytes:
        return self._own_copy(address)

    def _own_copy(self, address: bytes) -> bytes:
        sealed_blob = self._store.get(address)
        if sealed_blob is None:
            raise _NotHereError
        return sealed_blob

    async def _fetch(self, address: bytes, sealed_input: SealedInput, unkept_reasons: list[str]) -> bytes:
        """Fetch a blob: from its own store, from the stores that the customer could choose, or from other providers.

        The blob is an input's named blob or one of its pieces. A reason for not keeping it joins `unkept_reasons`.
        """
        sealed_blob = self._store.get(address)
        if sealed_blob is None:
            providers = await self._network_port.providers()
            # The other racers fetched the input for their own work, so they may have it when the customer's stores do
            # not.
            keeper_stores = endpoints_of(
                {keeper: providers[keeper] for keeper in sealed_input.keepers if keeper in providers}
            )
            ranked_stores = stores_for(address, endpoints_of(providers))
            # First the customer's choice of stores, then the other racers, which keep what they fetch, then all others.
            sealed_blob = await self._blobs.get(
                address, [*ranked_stores[:COPIES], *keeper_stores, *ranked_stores[COPIES:]]
            )
        self.kept.name(sealed_input.address, sealed_input.use, sealed_input.unit)
        try:
            self.kept.keep(sealed_input.address, sealed_blob)
        except (StoreFullError, OSError) as error:
            unkept_reasons.append(str(error))
        return sealed_blob


def _sealed(unit_id: bytes, unit: Unit, use: InputUse) -> SealedInput:
    """Return a unit's sealed input."""
    terms, racer_stashes = unit.terms, tuple(open_racer.owner for open_racer in unit.racers)
    content_bytes_max = content_max(terms.requests)
    return SealedInput(
        terms.input_root, terms.input_commitment, terms.sealed_at, racer_stashes, content_bytes_max, unit_id, use
    )


def _asked(opened: Opened) -> UnitInput:
    """Return the content of an input. Raise UnusableInputError if it does not decode or has no usable reply key."""
    try:
        asked_input = decode_input(opened.content)
    except DecodeError as error:
        raise UnusableInputError(str(error), code="invalid_input") from error
    if not is_usable(asked_input.reply_key):
        raise UnusableInputError("the reply key is not an X25519 key", code="invalid_reply_key")
    return asked_input
