"""Attestations of units: their conditions, and their effect, which is the reveal of the race.

Invariants: `problem` decides for authors, importers and the signed fallback alike. It never checks the result itself.
Cheap checks come before the signature.
"""

from gpu_tasks.batches.sum_tree import batch_root
from gpu_tasks.market.attestations.attestations import ATTACH_WEIGHT, Attested
from gpu_tasks.market.attestations.kinds import BAD_SIGNATURE, attestation_hash
from gpu_tasks.market.attestations.statement import (
    VERSION,
    Attestation,
    ProofKind,
    SignedAttestation,
    signing_payload,
    usage_problem,
)
from gpu_tasks.market.inference import race
from gpu_tasks.market.inference.storage import InferenceStorage
from gpu_tasks.market.inference.units import OpenUnit, Racer, Reveal, Unit, result_commitment
from gpu_tasks.market.weights import WEIGHTS
from runtime.cryptography.signatures import verify_ed25519
from runtime.encoding.types import Weight
from runtime.frame.errors import DispatchError
from runtime.frame.measured import times

_NO_RACE = "no such race"
NOT_RACER = "not the racer's key or device"
"""The problem of a statement by another key or device than the racer's."""


def problem(market: InferenceStorage, attestation: SignedAttestation) -> str:
    """Return the reason why this attestation may not be attached now, or "" if it may."""
    statement = attestation.statement
    record = _raced(market, statement)
    if record is None:
        return _NO_RACE
    racer = record.racers[statement.replica]
    owner = market.devices.stake.stash_of(statement.provider_key)
    # Two comparisons first: hashing the commitment and verifying the signature cost far more.
    if (owner, statement.device) != (racer.owner, racer.device):
        return NOT_RACER
    try:
        race.ensure_may_reveal(market, record, racer)
    except DispatchError as refusal:
        return f"not now: {type(refusal).__name__}"
    return (
        _contents_problem(market, statement, record)
        or _opening_problem(market, statement, racer)
        or _signature_problem(market, attestation)
    )


def lasting_problem(market: InferenceStorage, attestation: SignedAttestation) -> str:
    """Return the reason why this branch will never take this attestation, or "" if it may."""
    statement = attestation.statement
    owner = market.devices.stake.stash_of(statement.provider_key)
    if owner is None:
        return "no provider's key"
    record = _raced(market, statement)
    if record is None:
        return _NO_RACE
    # Before the signature: a statement by another provider's key must not take the right one's place in the pool.
    if record.racers[statement.replica].owner != owner:
        return "not the racer's key"
    return _signature_problem(market, attestation)


def weight(market: InferenceStorage, attestation: SignedAttestation) -> Weight:
    """Return the weight of attaching an admissible attestation. The last one ends its race."""
    racers = _known(market, attestation).racers
    if sum(racer.commitment is not None and racer.reveal is None for racer in racers) > 1:
        return ATTACH_WEIGHT
    settling_weight = WEIGHTS["Attestations.attach settled"] + times(len(racers), WEIGHTS["Attestations.attach racer"])
    return ATTACH_WEIGHT + settling_weight


def attach(market: InferenceStorage, attestation: SignedAttestation) -> None:
    """Reveal the result of an admissible attestation."""
    statement = attestation.statement
    unit = OpenUnit(statement.unit, _known(market, attestation))
    racer = unit.record.racers[statement.replica]
    opened = Reveal(
        output_root=statement.output_root,
        output_blob=statement.output_blob,
        output_tokens=statement.totals.tokens_out,
        revealed_at=market.height,
        input_tokens=statement.totals.tokens_in,
    )
    market.emit(
        Attested(statement.unit, racer.owner, statement.device, statement.output_root, attestation_hash(attestation))
    )
    race.reveal(market, unit, racer, opened, statement.salt)


def _raced(market: InferenceStorage, statement: Attestation) -> Unit | None:
    """Return the unit if the statement is about its current race, else None."""
    record = market.units[statement.unit]
    if record is None or record.attempt != statement.attempt or statement.replica >= len(record.racers):
        return None
    return record


def _known(market: InferenceStorage, attestation: SignedAttestation) -> Unit:
    record = market.units[attestation.statement.unit]
    assert record is not None, "an admissible attestation has a unit"
    return record


def _contents_problem(market: InferenceStorage, statement: Attestation, record: Unit) -> str:
    terms = market.service(record.service).terms
    if (statement.workload, statement.model) != (terms.workload, terms.model):
        return "workload or model differs from the service's"
    if statement.version != VERSION or statement.input_root != record.terms.input_root:
        return "version or input differs from the unit's"
    # Workloads have exact results, so the output's hash is the whole proof.
    if statement.proof_kind is not ProofKind.EXACT_HASH or statement.proof_inline:
        return "kind of proof not permitted"
    if statement.proof_hash != statement.output_root:
        return "proof of an exact workload differs from the output root"
    drawn_at = record.round.drawn_at if record.round else 0
    current_height = market.height
    return _totals_problem(statement, record) or usage_problem(statement, drawn_at=drawn_at, height=current_height)


def _opening_problem(market: InferenceStorage, statement: Attestation, racer: Racer) -> str:
    # It binds unit, attempt and owner, so a copied commitment cannot be opened.
    opened_commitment = result_commitment(
        market.system.block_hash[0],
        statement.unit,
        statement.attempt,
        racer.owner,
        statement.output_root,
        statement.salt,
    )
    return "" if opened_commitment == racer.commitment else "wrong opening of the commitment"


def _signature_problem(market: InferenceStorage, attestation: SignedAttestation) -> str:
    payload = signing_payload(market.system.block_hash[0], attestation.statement)
    return "" if verify_ed25519(attestation.statement.provider_key, payload, attestation.signature) else BAD_SIGNATURE


def _totals_problem(statement: Attestation, record: Unit) -> str:
    """Return the reason why these cannot be the totals of the unit's result, or "" if they can."""
    totals, terms = statement.totals, record.terms
    if totals.requests != terms.requests:
        return "number of requests differs from the unit's"
    if totals.tokens_in > terms.tokens_in or totals.tokens_out > terms.tokens_max:
        return "tokens above the unit's limits"
    # The payment goes by these totals, so the root must commit to them.
    return "" if batch_root(totals) == statement.output_root else "root does not commit to these totals"
