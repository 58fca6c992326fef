"""The inputs of units and tasks: fetch the sealed input, open it and check it.

Invariant: racers and judges refuse the same inputs, so that a wrong input costs only its customer.
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
    """The opened inputs of units and tasks. A copy of each stays in the provider's store, where judges find it."""

    def __init__(
        self, identity: Identity, chain: NetworkPort, blobs: BlobClient, store: BlobStore, telemetry: Telemetry
    ) -> None:
        """It searches `store` first, then other stores, and reports inputs that could not be kept."""
        self._identity = identity
        self._chain = chain
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

    async def is_shown_unusable(self, unit_id: bytes, unit: Unit) -> bool:
        """Return True if this provider's copy of an input proves that it is unusable. May raise ChainError.

        Every holder of the copy comes to the same result. A missing copy is not fetched, because its absence proves
        nothing to others. Nor does a box prove anything if this machine has another key than the chain.
        """
        known = (await self._chain.providers()).get(self._identity.stash)
        has_key = known is not None and known.seal_key == self._identity.seal_key.public
        # A box that does not open proves nothing if this machine's key is not the chain's.
        if not has_key:
            return False
        try:
            await gathered(self._own(unit.terms.input_root), self._fetch_own, content_max(unit.terms.requests))
            await self.open(unit_id, unit, InputUse.ANSWERED)
        except _NotHereError:
            return False
        except (UnusableInputError, PiecesError):
            return True
        return False

    async def open_sealed(self, sealed: SealedInput) -> UnitInput:
        """Return the request of any sealed input. It raises the errors of `open`."""
        opened = await self._opened(sealed)
        asked = _asked(opened)
        await self._check_boxes(sealed, opened)
        return asked

    async def _opened(self, sealed: SealedInput) -> Opened:
        """Return the content that the customer committed to. It raises the errors of `open`."""
        unkept: list[str] = []
        try:
            named = await self._fetch(sealed.address, sealed, unkept)
            blob = await gathered(named, partial(self._fetch, sealed=sealed, unkept=unkept), sealed.content_max)
            opened = self._identity.seal_key.opened(blob)
        except (SealError, PiecesError) as error:
            raise UnusableInputError(str(error), code="invalid_input") from error
        if unkept:  # the work goes on, and others have the input
            self._telemetry.tell("input_not_kept", unit=sealed.unit, problem=unkept[0])
        if commitment_of(opened.content) != sealed.commitment:
            raise UnusableInputError("the input differs from the customer's commitment", code="other_commitment")
        return opened

    async def _check_boxes(self, sealed: SealedInput, opened: Opened) -> None:
        """Check that the input is sealed to every possible judge.

        A customer that left some out could win a case through their missing answers.
        """
        judges = keys_at(await self._chain.judging_readers(), sealed.sealed_at)
        left_out = opened.left_out(judges)
        if left_out:
            raise UnusableInputError(
                f"the input is not sealed to {len(left_out)} of the {len(judges)} possible judges",
                code="not_sealed_to_judges",
            )

    async def _fetch_own(self, address: bytes) -> bytes:
        return self._own(address)

    def _own(self, address: bytes) -> bytes:
        blob = self._store.get(address)
        if blob is None:
            raise _NotHereError
        return blob

    async def _fetch(self, address: bytes, sealed: SealedInput, unkept: list[str]) -> bytes:
        """Fetch a blob: from its own store, from the stores that the customer could choose, or from other providers.

        The blob is an input's named blob or one of its pieces. A reason for not keeping it is added to `unkept`.
        """
        blob = self._store.get(address)
        if blob is None:
            known = await self._chain.providers()
            # The other racers fetched the input for their own work, so they may have it when the customer's stores do
            # not.
            near = endpoints_of({keeper: known[keeper] for keeper in sealed.keepers if keeper in known})
            ranked = stores_for(address, endpoints_of(known))
            # First the customer's choice of stores, then the other racers, which keep what they fetch, then all others.
            blob = await self._blobs.get(address, [*ranked[:COPIES], *near, *ranked[COPIES:]])
        self.kept.name(sealed.address, sealed.use, sealed.unit)
        try:
            self.kept.keep(sealed.address, blob)
        except (StoreFullError, OSError) as error:
            unkept.append(str(error))
        return blob


def _sealed(unit_id: bytes, unit: Unit, use: InputUse) -> SealedInput:
    """Return a unit's sealed input."""
    terms, racers = unit.terms, tuple(racer.owner for racer in unit.racers)
    most = content_max(terms.requests)
    return SealedInput(terms.input_root, terms.input_commitment, terms.sealed_at, racers, most, unit_id, use)


def _asked(opened: Opened) -> UnitInput:
    """Return the content of an input. Raise UnusableInputError if it does not decode or has no usable reply key."""
    try:
        asked = decode_input(opened.content)
    except DecodeError as error:
        raise UnusableInputError(str(error), code="invalid_input") from error
    if not is_usable(asked.reply_key):
        raise UnusableInputError("the reply key is not an X25519 key", code="invalid_reply_key")
    return asked
