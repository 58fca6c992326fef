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


def problem(market: InferenceStorage, signed: SignedAttestation) -> str:
    """Return the reason why this attestation may not be attached now, or "" if it may."""
    statement = signed.statement
    unit = _raced(market, statement)
    if unit is None:
        return _NO_RACE
    racer = unit.racers[statement.replica]
    owner = market.devices.stake.stash_of(statement.provider_key)
    # Two comparisons first: hashing the commitment and verifying the signature cost far more.
    if (owner, statement.device) != (racer.owner, racer.device):
        return NOT_RACER
    try:
        race.ensure_may_reveal(market, unit, racer)
    except DispatchError as error:
        return f"not now: {type(error).__name__}"
    return (
        _contents_problem(market, statement, unit)
        or _opening_problem(market, statement, racer)
        or _signature_problem(market, signed)
    )


def lasting_problem(market: InferenceStorage, signed: SignedAttestation) -> str:
    """Return the reason why this branch will never take this attestation, or "" if it may."""
    statement = signed.statement
    owner = market.devices.stake.stash_of(statement.provider_key)
    if owner is None:
        return "no provider's key"
    unit = _raced(market, statement)
    if unit is None:
        return _NO_RACE
    if unit.racers[statement.replica].owner != owner:
        return "not the racer's key"
    return _signature_problem(market, signed)


def weight(market: InferenceStorage, signed: SignedAttestation) -> Weight:
    """Return the weight of attaching an admissible attestation. The last one of a race settles it."""
    racers = _known(market, signed).racers
    if sum(racer.commitment is not None and racer.reveal is None for racer in racers) > 1:
        return ATTACH_WEIGHT
    settled = WEIGHTS["Attestations.attach settled"] + times(len(racers), WEIGHTS["Attestations.attach racer"])
    return ATTACH_WEIGHT + settled


def attach(market: InferenceStorage, signed: SignedAttestation) -> None:
    """Reveal the result of an admissible attestation."""
    statement = signed.statement
    unit = OpenUnit(statement.unit, _known(market, signed))
    racer = unit.record.racers[statement.replica]
    opened = Reveal(
        output_root=statement.output_root,
        output_blob=statement.output_blob,
        output_tokens=statement.totals.tokens_out,
        revealed_at=market.height,
        input_tokens=statement.totals.tokens_in,
    )
    market.emit(
        Attested(statement.unit, racer.owner, statement.device, statement.output_root, attestation_hash(signed))
    )
    race.reveal(market, unit, racer, opened, statement.salt)


def _raced(market: InferenceStorage, statement: Attestation) -> Unit | None:
    """Return the unit if the statement is about its current race, else None."""
    unit = market.units[statement.unit]
    if unit is None or unit.attempt != statement.attempt or statement.replica >= len(unit.racers):
        return None
    return unit


def _known(market: InferenceStorage, signed: SignedAttestation) -> Unit:
    unit = market.units[signed.statement.unit]
    assert unit is not None, "an admissible attestation has a unit"
    return unit


def _contents_problem(market: InferenceStorage, statement: Attestation, unit: Unit) -> str:
    service = market.service(unit.service).terms
    if (statement.workload, statement.model) != (service.workload, service.model):
        return "workload or model differs from the service's"
    if statement.version != VERSION or statement.input_root != unit.terms.input_root:
        return "version or input differs from the unit's"
    if statement.proof_kind is not ProofKind.EXACT_HASH or statement.proof_inline:
        return "kind of proof not permitted"
    if statement.proof_hash != statement.output_root:
        return "proof of an exact workload differs from the output root"
    drawn_at = unit.round.drawn_at if unit.round else 0
    height = market.height
    return _totals_problem(statement, unit) or usage_problem(statement, drawn_at=drawn_at, height=height)


def _opening_problem(market: InferenceStorage, statement: Attestation, racer: Racer) -> str:
    opened = result_commitment(
        market.system.block_hash[0],
        statement.unit,
        statement.attempt,
        racer.owner,
        statement.output_root,
        statement.salt,
    )
    return "" if opened == racer.commitment else "wrong opening of the commitment"


def _signature_problem(market: InferenceStorage, signed: SignedAttestation) -> str:
    payload = signing_payload(market.system.block_hash[0], signed.statement)
    return "" if verify_ed25519(signed.statement.provider_key, payload, signed.signature) else BAD_SIGNATURE


def _totals_problem(statement: Attestation, unit: Unit) -> str:
    """Return the reason why these cannot be the totals of the unit's result, or "" if they can."""
    totals, terms = statement.totals, unit.terms
    if totals.requests != terms.requests:
        return "number of requests differs from the unit's"
    if totals.tokens_in > terms.tokens_in or totals.tokens_out > terms.tokens_max:
        return "tokens above the unit's limits"
    # The payment goes by these totals, so the root must commit to them.
    return "" if batch_root(totals) == statement.output_root else "root does not commit to these totals"
