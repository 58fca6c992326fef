"""The signed statement that opens a commitment: which work, on which device, with which result."""

from __future__ import annotations

from gpu_tasks.market.attestations.statement import (
    VERSION,
    Attestation,
    ProofKind,
    SignedAttestation,
    signing_payload,
)
from gpu_tasks.provider.chain.port import Identity, RacePort
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.duties.races import Race
from gpu_tasks.provider.journal.records import UnitResult


async def attestation(parts: Parts[RacePort], race: Race, result: UnitResult) -> SignedAttestation:
    """The statement about a race's result; ChainError if its service cannot be asked for.

    Heights are those at which this provider saw the work begin and end; a race that a reverted block drew and a
    later one drew again began with the later one.
    """
    terms = (await parts.chain.service(race.unit.service)).terms
    drawn_at = race.unit.round.drawn_at if race.unit.round else 0
    started_at = max(result.started_at, drawn_at)
    statement = Attestation(
        version=VERSION,
        unit=race.unit_id,
        attempt=race.unit.attempt,
        replica=race.place,
        provider_key=parts.identity.key.public_key,
        device=race.racer.device,
        workload=terms.workload,
        model=terms.model,
        input_root=race.unit.terms.input_root,
        output_root=result.output_root,
        output_blob=result.output_blob,
        totals=result.totals,
        salt=result.salt,
        proof_kind=ProofKind.EXACT_HASH,
        proof_hash=result.output_root,
        proof_inline=b"",
        usage=result.usage,
        started_at=started_at,
        finished_at=max(result.finished_at, started_at),
    )
    return signed(parts.identity, statement)


def signed(identity: Identity, statement: Attestation) -> SignedAttestation:
    """A statement under the provider key."""
    return SignedAttestation(statement, identity.key.sign(signing_payload(identity.genesis, statement)))
