"""Attestations: what the author of a block puts into it about executed work, as an inherent.

An attestation opens its provider's commitment, so attaching it is the reveal. Always: a block whose
attestations break a rule of form is invalid; whether the work is right is never judged here; one
`admissible` decides for authors, for importers and for the signed fallback.
"""

from itertools import pairwise

from gpu_tasks.market.attestations.statement import (
    ATTESTATION_BYTES_PER_BLOCK_MAX,
    ATTESTATIONS_PER_BLOCK_MAX,
    VERSION,
    Attestation,
    AttestationList,
    ProofKind,
    SignedAttestation,
    attestation_hash,
    order_key,
    signing_payload,
    size,
    usage_problem,
)
from gpu_tasks.market.ids import UnitId
from gpu_tasks.market.inference.agenda import ATTESTATIONS_MAX
from gpu_tasks.market.inference.commitments import result_commitment
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import OpenUnit, Racer, Reveal, Unit
from gpu_tasks.market.weights import WEIGHTS
from runtime.cryptography.signatures import verify_ed25519
from runtime.encoding.codec import U32
from runtime.encoding.types import AccountId, Hash, Weight
from runtime.frame.errors import InvalidBlock
from runtime.frame.measured import times
from runtime.frame.pallet import (
    DispatchError,
    Pallet,
    PostDispatch,
    Signed,
    StorageValue,
    Unsigned,
    call,
    ensure,
    event,
)
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.pallets.system import System


def _attach_weight(attestations: tuple[SignedAttestation, ...]) -> Weight:
    """Without what they settle, which only the state knows."""
    return WEIGHTS["Attestations.attach"] + times(len(attestations), WEIGHTS["Attestations.attach attestation"])


@event
class Attested:
    """A provider's attestation is part of the chain."""

    unit: UnitId
    provider: AccountId
    device: Hash
    output_root: Hash
    attestation_hash: Hash


class NotAdmissible(DispatchError):
    """The attestation breaks a rule of form: assignment, window, opening, usage or signature."""


class Attestations(Pallet, index=11):
    """The inherent, and the signed fallback for a provider that authors leave out."""

    system: System
    stake: TrustStake
    market: InferenceMarket

    attested: StorageValue[U32] = StorageValue(default=0, doc="Attestations in the chain so far.")

    events = (Attested,)
    errors = (NotAdmissible,)

    @call(index=0, weight=_attach_weight)
    def attach(self, origin: Unsigned, attestations: AttestationList) -> PostDispatch:
        """Put the attestations that the author has into the block. InvalidBlock if one is not admissible."""
        if not 0 < len(attestations) <= ATTESTATIONS_PER_BLOCK_MAX:
            raise InvalidBlock("no attestations, or too many")
        if sum(size(signed) for signed in attestations) > ATTESTATION_BYTES_PER_BLOCK_MAX:
            raise InvalidBlock("attestations take too many bytes")
        keys = [order_key(signed) for signed in attestations]
        if any(low >= high for low, high in pairwise(keys)):
            raise InvalidBlock("attestations are out of order, or one is there twice")
        spent, room = WEIGHTS["Attestations.attach"], self.room()
        for signed in attestations:
            problem = self.problem(signed)  # only now: the one before may have settled this unit
            if problem:
                raise InvalidBlock(f"attestation of {signed.statement.unit.hex()}: {problem}")
            spent += self.weight_of(signed)
            if not spent.fits(room):
                raise InvalidBlock("attestations weigh more than the block has room for")
            self._reveal(signed)
        return PostDispatch(actual_weight=spent)

    @call(index=1, weight=WEIGHTS["Attestations.reveal"])
    def reveal(self, origin: Signed, attestation: SignedAttestation) -> PostDispatch:
        """Attach one attestation by transaction, where authors leave it out. Free when it succeeds."""
        ensure(not self.problem(attestation), NotAdmissible)
        weight = self.weight_of(attestation)
        self._reveal(attestation)
        return PostDispatch(pays_fee=False, actual_weight=weight)

    def room(self) -> Weight:
        """What the attestations of the block under construction may weigh."""
        return Weight(min(ATTESTATIONS_MAX.ref_time, max(0, self.context.mandatory_left)), 0)

    def weight_of(self, signed: SignedAttestation) -> Weight:
        """What attaching one that is admissible weighs: the last of a race settles it."""
        unit = self.market.open_unit(signed.statement.unit)
        racers = unit.record.racers
        each = WEIGHTS["Attestations.attach attestation"]
        if sum(racer.commitment is not None and racer.reveal is None for racer in racers) > 1:
            return each
        return each + WEIGHTS["Attestations.attach settled"] + times(len(racers), WEIGHTS["Attestations.attach racer"])

    def problem(self, signed: SignedAttestation) -> str:
        """Why this attestation may not be attached now; empty if it may. Cheap checks come before the signature."""
        statement, genesis = signed.statement, self.system.block_hash[0]
        unit = self.market.units[statement.unit]
        if unit is None or unit.attempt != statement.attempt or statement.replica >= len(unit.racers):
            return "no such race"
        racer = unit.racers[statement.replica]
        if self.stake.stash_of(statement.provider_key) != racer.owner or statement.device != racer.device:
            return "not the racer's key or device"
        try:
            self.market.racing.ensure_may_reveal(unit, racer)
        except DispatchError as error:
            return f"not now: {type(error).__name__}"
        return (
            self._contents_problem(statement, unit)
            or _opening_problem(genesis, statement, racer)
            or _signature_problem(genesis, signed)
        )

    def _contents_problem(self, statement: Attestation, unit: Unit) -> str:
        service = self.market.catalogue.service(unit.service).terms
        if (statement.workload, statement.model) != (service.workload, service.model):
            return "another workload or model than the service's"
        if statement.version != VERSION or statement.input_root != unit.terms.input_root:
            return "another version or input"
        if statement.proof_kind is not ProofKind.EXACT_HASH or statement.proof_inline:
            return "this kind of proof is not permitted here"
        if statement.proof_hash != statement.output_root:
            return "the proof of an exact workload is its output root"
        drawn_at = unit.round.drawn_at if unit.round else 0
        height = self.system.number.get()
        return usage_problem(statement, tokens_max=unit.terms.tokens_max, drawn_at=drawn_at, height=height)

    def _reveal(self, signed: SignedAttestation) -> None:
        statement = signed.statement
        record = self.market.units[statement.unit]
        assert record is not None, "an admissible attestation is of a unit"
        unit, racer = OpenUnit(statement.unit, record), record.racers[statement.replica]
        opened = Reveal(statement.output_root, statement.output_blob, statement.output_tokens, self.system.number.get())
        self.attested.set(self.attested.get() + 1)
        self.emit(
            Attested(statement.unit, racer.owner, statement.device, statement.output_root, attestation_hash(signed))
        )
        self.market.racing.reveal(unit, racer, opened, statement.salt)


def _opening_problem(genesis: bytes, statement: Attestation, racer: Racer) -> str:
    opened = result_commitment(
        genesis, statement.unit, statement.attempt, racer.owner, statement.output_root, statement.salt
    )
    return "" if opened == racer.commitment else "does not open the commitment"


def _signature_problem(genesis: bytes, signed: SignedAttestation) -> str:
    payload = signing_payload(genesis, signed.statement)
    return "" if verify_ed25519(signed.statement.provider_key, payload, signed.signature) else "bad signature"
