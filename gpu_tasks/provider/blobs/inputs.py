"""From a unit or a task on the chain to what it asks for: fetch the sealed input, open it, check it.

Always: racers and judges refuse the same inputs, so that a wrong one costs its customer and nobody else.
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


class _NotHereError(Exception):
    """A blob is not in the own store."""


class UnusableInputError(Exception):
    """The input cannot be used by anybody whom it should be sealed to: the customer's fault."""


@dataclass(frozen=True, slots=True)
class SealedInput:
    """An input as the chain names it, and who may have kept a copy."""

    address: bytes
    commitment: bytes
    sealed_at: int
    keepers: tuple[bytes, ...] = ()
    content_max: int = CONTENT_BYTES_MAX
    """So many bytes its content may have; more than a blob holds is in pieces."""
    unit: bytes | None = None
    """Whose it is, if it is a unit's: it is kept until that is over."""
    use: InputUse = InputUse.ANSWERED


class Inputs:
    """Opens the inputs of units and tasks; keeps a copy of each in the own store, so that judges find it too."""

    def __init__(
        self, identity: Identity, chain: NetworkPort, blobs: BlobClient, store: BlobStore, telemetry: Telemetry
    ) -> None:
        """Looks into `store` first, then asks the others; tells which inputs it could not keep."""
        self._identity = identity
        self._chain = chain
        self._blobs = blobs
        self._store = store
        self._telemetry = telemetry
        self.kept = KeptInputs(store)

    async def open(self, unit_id: bytes, unit: Unit, use: InputUse) -> UnitInput:
        """The request; UnusableInputError for an unusable one, BlobError and ChainError if it cannot be had now."""
        return await self.open_sealed(_sealed(unit_id, unit, use))

    async def is_shown_unusable(self, unit_id: bytes, unit: Unit) -> bool:
        """Whether the own copy of an input shows that it is unusable: whoever has it sees the same. ChainError.

        What is not here is not fetched: that it cannot be had shows nothing to anybody else. Nor does a box that does
        not open where this machine has another key than the chain knows of.
        """
        known = (await self._chain.providers()).get(self._identity.stash)
        has_key = known is not None and known.seal_key == self._identity.seal_key.public
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
        """The request of whatever a customer sealed; errors as `open`."""
        opened = await self._opened(sealed)
        asked = _asked(opened)
        await self._check_boxes(sealed, opened)
        return asked

    async def _opened(self, sealed: SealedInput) -> Opened:
        """The content that the customer committed to; errors as `open`."""
        unkept: list[str] = []
        try:
            named = await self._fetch(sealed.address, sealed, unkept)
            blob = await gathered(named, partial(self._fetch, sealed=sealed, unkept=unkept), sealed.content_max)
            opened = self._identity.seal_key.opened(blob)
        except (SealError, PiecesError) as error:
            raise UnusableInputError(str(error)) from error
        if unkept:  # it is worked on all the same, and others have it
            self._telemetry.tell("input_not_kept", unit=sealed.unit, problem=unkept[0])
        if commitment_of(opened.content) != sealed.commitment:
            raise UnusableInputError("the input is another than the customer committed to")
        return opened

    async def _check_boxes(self, sealed: SealedInput, opened: Opened) -> None:
        """Everybody who may judge must be able to read it: a customer who left some out could win by their silence."""
        judges = keys_at(await self._chain.judging_readers(), sealed.sealed_at)
        left_out = opened.left_out(judges)
        if left_out:
            raise UnusableInputError(f"the input is not sealed to {len(left_out)} of {len(judges)} who may judge it")

    async def _fetch_own(self, address: bytes) -> bytes:
        return self._own(address)

    def _own(self, address: bytes) -> bytes:
        blob = self._store.get(address)
        if blob is None:
            raise _NotHereError
        return blob

    async def _fetch(self, address: bytes, sealed: SealedInput, unkept: list[str]) -> bytes:
        """From the own store, from those that the customer chose among, or from others at work, who keep copies.

        The blob that an input is named by, or a piece of it: what is in the own store already is not fetched again.
        Why it cannot be kept is added to `unkept`.
        """
        blob = self._store.get(address)
        if blob is None:
            known = await self._chain.providers()
            near = endpoints_of({keeper: known[keeper] for keeper in sealed.keepers if keeper in known})
            ranked = stores_for(address, endpoints_of(known))
            # Where the customer put it, then the others at work, who keep what they fetched; then whoever else may.
            blob = await self._blobs.get(address, [*ranked[:COPIES], *near, *ranked[COPIES:]])
        self.kept.name(sealed.address, sealed.use, sealed.unit)
        try:
            self.kept.keep(sealed.address, blob)
        except (StoreFullError, OSError) as error:
            unkept.append(str(error))
        return blob


def _sealed(unit_id: bytes, unit: Unit, use: InputUse) -> SealedInput:
    """What the customer of a unit sealed."""
    terms, racers = unit.terms, tuple(racer.owner for racer in unit.racers)
    most = content_max(terms.requests)
    return SealedInput(terms.input_root, terms.input_commitment, terms.sealed_at, racers, most, unit_id, use)


def _asked(opened: Opened) -> UnitInput:
    """What is in an input; UnusableInputError for one that says nothing, or not to whom the answer goes."""
    try:
        asked = decode_input(opened.content)
    except DecodeError as error:
        raise UnusableInputError(str(error)) from error
    if not is_usable(asked.reply_key):
        raise UnusableInputError("the reply key is no X25519 key")
    return asked
