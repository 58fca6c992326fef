"""Attestations of units: their conditions, and their effect, which is the reveal of the race.

Invariants: `problem` decides for authors, importers and the signed fallback alike. It never judges the result itself.
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
    unit_record = _raced(market, statement)
    if unit_record is None:
        return _NO_RACE
    unit_racer = unit_record.racers[statement.replica]
    owner_stash = market.devices.stake.stash_of(statement.provider_key)
    # Two comparisons first: hashing the commitment and verifying the signature cost far more.
    if (owner_stash, statement.device) != (unit_racer.owner, unit_racer.device):
        return NOT_RACER
    try:
        race.ensure_may_reveal(market, unit_record, unit_racer)
    except DispatchError as refusal:
        return f"not now: {type(refusal).__name__}"
    return (
        _contents_problem(market, statement, unit_record)
        or _opening_problem(market, statement, unit_racer)
        or _signature_problem(market, attestation)
    )


def lasting_problem(market: InferenceStorage, attestation: SignedAttestation) -> str:
    """Return the reason why this branch will never take this attestation, or "" if it may."""
    statement = attestation.statement
    owner_stash = market.devices.stake.stash_of(statement.provider_key)
    if owner_stash is None:
        return "no provider's key"
    unit_record = _raced(market, statement)
    if unit_record is None:
        return _NO_RACE
    # Before the signature: a statement by another provider's key must not take the right one's place in the pool.
    if unit_record.racers[statement.replica].owner != owner_stash:
        return "not the racer's key"
    return _signature_problem(market, attestation)


def weight(market: InferenceStorage, attestation: SignedAttestation) -> Weight:
    """Return the weight of attaching an admissible attestation. The last one of a race settles it."""
    unit_racers = _known(market, attestation).racers
    if sum(unit_racer.commitment is not None and unit_racer.reveal is None for unit_racer in unit_racers) > 1:
        return ATTACH_WEIGHT
    settling_weight = WEIGHTS["Attestations.attach settled"] + times(
        len(unit_racers), WEIGHTS["Attestations.attach racer"]
    )
    return ATTACH_WEIGHT + settling_weight


def attach(market: InferenceStorage, attestation: SignedAttestation) -> None:
    """Reveal the result of an admissible attestation."""
    statement = attestation.statement
    open_unit = OpenUnit(statement.unit, _known(market, attestation))
    unit_racer = open_unit.record.racers[statement.replica]
    opened_result = Reveal(
        output_root=statement.output_root,
        output_blob=statement.output_blob,
        output_tokens=statement.totals.tokens_out,
        revealed_at=market.height,
        input_tokens=statement.totals.tokens_in,
    )
    market.emit(
        Attested(
            statement.unit, unit_racer.owner, statement.device, statement.output_root, attestation_hash(attestation)
        )
    )
    race.reveal(market, open_unit, unit_racer, opened_result, statement.salt)


def _raced(market: InferenceStorage, statement: Attestation) -> Unit | None:
    """Return the unit if the statement is about its current race, else None."""
    unit_record = market.units[statement.unit]
    if unit_record is None or unit_record.attempt != statement.attempt or statement.replica >= len(unit_record.racers):
        return None
    return unit_record


def _known(market: InferenceStorage, attestation: SignedAttestation) -> Unit:
    unit_record = market.units[attestation.statement.unit]
    assert unit_record is not None, "an admissible attestation has a unit"
    return unit_record


def _contents_problem(market: InferenceStorage, statement: Attestation, unit_record: Unit) -> str:
    service_terms = market.service(unit_record.service).terms
    if (statement.workload, statement.model) != (service_terms.workload, service_terms.model):
        return "workload or model differs from the service's"
    if statement.version != VERSION or statement.input_root != unit_record.terms.input_root:
        return "version or input differs from the unit's"
    # Workloads have exact results, so the output's hash is the whole proof.
    if statement.proof_kind is not ProofKind.EXACT_HASH or statement.proof_inline:
        return "kind of proof not permitted"
    if statement.proof_hash != statement.output_root:
        return "proof of an exact workload differs from the output root"
    drawn_at = unit_record.round.drawn_at if unit_record.round else 0
    current_height = market.height
    return _totals_problem(statement, unit_record) or usage_problem(statement, drawn_at=drawn_at, height=current_height)


def _opening_problem(market: InferenceStorage, statement: Attestation, unit_racer: Racer) -> str:
    # It binds unit, attempt and owner, so a copied commitment cannot be opened.
    opened_commitment = result_commitment(
        market.system.block_hash[0],
        statement.unit,
        statement.attempt,
        unit_racer.owner,
        statement.output_root,
        statement.salt,
    )
    return "" if opened_commitment == unit_racer.commitment else "wrong opening of the commitment"


def _signature_problem(market: InferenceStorage, attestation: SignedAttestation) -> str:
    payload = signing_payload(market.system.block_hash[0], attestation.statement)
    return "" if verify_ed25519(attestation.statement.provider_key, payload, attestation.signature) else BAD_SIGNATURE


def _totals_problem(statement: Attestation, unit_record: Unit) -> str:
    """Return the reason why these cannot be the totals of the unit's result, or "" if they can."""
    stated_totals, unit_terms = statement.totals, unit_record.terms
    if stated_totals.requests != unit_terms.requests:
        return "number of requests differs from the unit's"
    if stated_totals.tokens_in > unit_terms.tokens_in or stated_totals.tokens_out > unit_terms.tokens_max:
        return "tokens above the unit's limits"
    # The payment goes by these totals, so the root must commit to them.
    return "" if batch_root(stated_totals) == statement.output_root else "root does not commit to these totals"
