"""A racer's output for its judges: sealed again to a drawn judge's own key.

Invariants:

* Only a judge of the unit's present case on the chain receives an output. It proves itself by a signature of its
  provider key.
* The output is sealed to the judge's key on the chain, so a copied question returns a blob that only the judge can
  open.
"""

from __future__ import annotations

from gpu_tasks.data.sealing import seal
from gpu_tasks.market.courts.cases import judges_of
from gpu_tasks.provider.chain.port import ChainError, Identity, RacePort
from gpu_tasks.provider.journal.journal import Journal
from runtime.cryptography.signatures import Scheme, verify
from runtime.cryptography.signing import domain
from runtime.encoding.codec import Annotated, DecodeError, Fixed, codec, struct
from runtime.encoding.types import Hash

RESEAL_BYTES_MAX = 256


@struct
class _Question:
    unit: Hash
    provider_key: Hash


@struct
class _Signed:
    question: _Question
    signature: Annotated[bytes, Fixed(64)]


_QUESTION = codec(_Question)
_SIGNED = codec(_Signed)


class RefusedResealError(Exception):
    """The caller may not have this output, or it is not here."""


class NoJudgeError(RefusedResealError):
    """The caller has not proved that it judges anything here: a stranger, or a judge whose case is over."""


def question(identity: Identity, unit_id: bytes) -> bytes:
    """Return a judge's body for `POST /reseal`."""
    signed_question = _Question(unit_id, identity.key.public_key)
    return _SIGNED.encode(_Signed(signed_question, identity.key.sign(_payload(identity.genesis, signed_question))))


class Resealer:
    """The answers to judges' questions about outputs."""

    def __init__(self, genesis_hash: bytes, journal: Journal, chain: RacePort) -> None:
        """It reads outputs from the journal and cases from the chain."""
        self._genesis = genesis_hash
        self._journal = journal
        self._race_port = chain

    async def answer(self, data: bytes) -> bytes:
        """Return the output as a sealed blob. Raise RefusedResealError if the caller may not have it."""
        try:
            signed_question = _SIGNED.decode(data)
        except DecodeError as error:
            raise NoJudgeError(f"not a question: {error}") from None
        judge_question = signed_question.question
        signed_payload = _payload(self._genesis, judge_question)
        if not verify(Scheme.ED25519, judge_question.provider_key, signed_payload, signed_question.signature):
            raise NoJudgeError("bad signature")
        try:
            return await self._sealed(judge_question)
        except ChainError as error:
            raise RefusedResealError(f"the chain cannot be read at present: {error}") from None

    async def _sealed(self, judge_question: _Question) -> bytes:
        unit_status = await self._race_port.unit(judge_question.unit)
        if unit_status is None or unit_status.case is None:
            raise NoJudgeError("no case about this unit")
        stash = await self._race_port.stash_of(judge_question.provider_key)
        if stash is None or stash not in judges_of(unit_status.case):
            raise NoJudgeError("the key belongs to no judge of the case")
        # An earlier attempt may have another result. Judges of the present case ask about this attempt only.
        entry = self._journal.races.get((judge_question.unit, unit_status.unit.attempt))
        reading_provider = await self._race_port.provider(stash)
        if entry is None or entry.result is None or reading_provider is None:
            raise RefusedResealError("no output of this unit here")
        return seal(entry.result.outcomes, [reading_provider.seal_key])


def _payload(genesis_hash: bytes, judge_question: _Question) -> bytes:
    return domain(b"reseal", genesis_hash, _QUESTION.encode(judge_question))
