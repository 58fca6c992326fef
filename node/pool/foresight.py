"""Blocks that will be executed soon: what can be found out about their extrinsics before their turn comes.

What always holds: execution gets the verdicts and values that it would come to itself; what is not known yet, or was
guessed wrongly (an extrinsic is born in a block that is not known here, say), it finds out as if nobody had looked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from node.ledger.foreseen import Foreseen
from node.pool.verifier import Claim, Verdicts, Verifier
from runtime.blocks.extrinsic import Authorization, Envelope, Extrinsic, decode_extrinsic, open_envelope
from runtime.cryptography.signatures import Scheme, VerifySignature
from runtime.encoding.codec import DecodeError
from runtime.frame.errors import InvalidTransaction
from runtime.frame.runtime import Runtime


def foresee(raws: Iterable[bytes], payload: Callable[[Authorization], bytes], verifier: Verifier) -> Foreseen:
    """Open the extrinsics of a block, and have the workers check their signatures."""
    envelopes: dict[bytes, Envelope] = {}
    claims: list[Claim] = []
    for raw in raws:
        try:
            envelope = open_envelope(raw)
            who = envelope.authorization
            message = payload(who)
        except (DecodeError, InvalidTransaction):  # an inherent, junk, or of an unknown birth: execution judges it
            continue
        envelopes[raw] = envelope
        claims.append(Claim(who.signature.scheme, who.signer, message, who.signature.signature))
    verdicts = verifier.foresee(claims)
    known = _Signatures(claims, verdicts, verifier.verify)
    return Foreseen(known.verify, _Opened(envelopes).decode, verdicts)


class _Opened:
    """Extrinsics whose outside is decoded."""

    def __init__(self, envelopes: dict[bytes, Envelope]) -> None:
        self._envelopes = envelopes

    def decode(self, runtime: Runtime, raw: bytes) -> Extrinsic:
        envelope = self._envelopes.get(raw)
        return decode_extrinsic(runtime, raw) if envelope is None else envelope.decode(runtime)


class _Signatures:
    """Signatures on their way through the workers."""

    def __init__(self, claims: list[Claim], verdicts: Verdicts, verify: VerifySignature) -> None:
        self._positions = {claim.signature: position for position, claim in enumerate(claims)}
        self._claims = claims
        self._verdicts = verdicts
        self._verify = verify

    def verify(self, scheme: Scheme, signer: bytes, payload: bytes, signature: bytes) -> bool:
        position = self._positions.get(signature)
        if position is None or not self._verdicts.valid[position]:
            return self._verify(scheme, signer, payload, signature)
        # One signature may stand under several messages: the verdict is that of the claim, whole.
        claim = scheme, signer, payload, signature
        return claim == self._claims[position] or self._verify(*claim)
