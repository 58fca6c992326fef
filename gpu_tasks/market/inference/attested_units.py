"""Attestations of units: the conditions for one, and what attaching it does, which is the reveal of its race.

Always: `problem` decides for authors, importers and the signed fallback alike; whether the work is right is never
judged here; cheap checks come before the signature.
"""

from dataclasses import dataclass

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
from gpu_tasks.market.inference.race import Racing
from gpu_tasks.market.inference.state import MarketState
from gpu_tasks.market.inference.units import OpenUnit, Racer, Reveal, Unit, result_commitment
from gpu_tasks.market.weights import WEIGHTS
from runtime.cryptography.signatures import verify_ed25519
from runtime.encoding.types import Weight
from runtime.frame.errors import DispatchError
from runtime.frame.measured import times

_NO_RACE = "no such race"


@dataclass(frozen=True, slots=True)
class AttestedUnits:
    """Takes attestations of units."""

    state: MarketState
    racing: Racing

    def problem(self, signed: SignedAttestation) -> str:
        """Why this attestation may not be attached now; empty if it may."""
        statement = signed.statement
        unit = self._raced(statement)
        if unit is None:
            return _NO_RACE
        racer = unit.racers[statement.replica]
        owner = self.state.devices.stake.stash_of(statement.provider_key)
        if (owner, statement.device) != (racer.owner, racer.device):
            return "not the racer's key or device"
        try:
            self.racing.ensure_may_reveal(unit, racer)
        except DispatchError as error:
            return f"not now: {type(error).__name__}"
        return (
            self._contents_problem(statement, unit)
            or self._opening_problem(statement, racer)
            or self._signature_problem(signed)
        )

    def lasting_problem(self, signed: SignedAttestation) -> str:
        """Why this branch will never take this attestation; empty if it may."""
        statement = signed.statement
        owner = self.state.devices.stake.stash_of(statement.provider_key)
        if owner is None:
            return "the key is no provider's"
        unit = self._raced(statement)
        if unit is None:
            return _NO_RACE
        if unit.racers[statement.replica].owner != owner:
            return "not the racer's key"
        return self._signature_problem(signed)

    def weight(self, signed: SignedAttestation) -> Weight:
        """The weight of attaching one that is admissible: the last of a race settles it."""
        racers = self._known(signed).racers
        if sum(racer.commitment is not None and racer.reveal is None for racer in racers) > 1:
            return ATTACH_WEIGHT
        settled = WEIGHTS["Attestations.attach settled"] + times(len(racers), WEIGHTS["Attestations.attach racer"])
        return ATTACH_WEIGHT + settled

    def attach(self, signed: SignedAttestation) -> None:
        """Reveal what an admissible one opens."""
        statement = signed.statement
        unit = OpenUnit(statement.unit, self._known(signed))
        racer = unit.record.racers[statement.replica]
        opened = Reveal(
            output_root=statement.output_root,
            output_blob=statement.output_blob,
            output_tokens=statement.totals.tokens_out,
            revealed_at=self.state.system.number.get(),
            input_tokens=statement.totals.tokens_in,
        )
        self.state.emit(
            Attested(statement.unit, racer.owner, statement.device, statement.output_root, attestation_hash(signed))
        )
        self.racing.reveal(unit, racer, opened, statement.salt)

    def _raced(self, statement: Attestation) -> Unit | None:
        """The unit, if the statement is of its present race; None for any other."""
        unit = self.state.units[statement.unit]
        if unit is None or unit.attempt != statement.attempt or statement.replica >= len(unit.racers):
            return None
        return unit

    def _known(self, signed: SignedAttestation) -> Unit:
        unit = self.state.units[signed.statement.unit]
        assert unit is not None, "an admissible attestation is of a unit"
        return unit

    def _contents_problem(self, statement: Attestation, unit: Unit) -> str:
        service = self.state.catalogue.service(unit.service).terms
        if (statement.workload, statement.model) != (service.workload, service.model):
            return "another workload or model than the service's"
        if statement.version != VERSION or statement.input_root != unit.terms.input_root:
            return "another version or input"
        if statement.proof_kind is not ProofKind.EXACT_HASH or statement.proof_inline:
            return "this kind of proof is not permitted here"
        if statement.proof_hash != statement.output_root:
            return "the proof of an exact workload is its output root"
        drawn_at = unit.round.drawn_at if unit.round else 0
        height = self.state.system.number.get()
        return _totals_problem(statement, unit) or usage_problem(statement, drawn_at=drawn_at, height=height)

    def _opening_problem(self, statement: Attestation, racer: Racer) -> str:
        opened = result_commitment(
            self._genesis, statement.unit, statement.attempt, racer.owner, statement.output_root, statement.salt
        )
        return "" if opened == racer.commitment else "does not open the commitment"

    def _signature_problem(self, signed: SignedAttestation) -> str:
        payload = signing_payload(self._genesis, signed.statement)
        return "" if verify_ed25519(signed.statement.provider_key, payload, signed.signature) else BAD_SIGNATURE

    @property
    def _genesis(self) -> bytes:
        return self.state.system.block_hash[0]


def _totals_problem(statement: Attestation, unit: Unit) -> str:
    """Why these cannot be the totals of the unit's result; empty if they can."""
    totals, terms = statement.totals, unit.terms
    if totals.requests != terms.requests:
        return "another number of requests than the unit has"
    if totals.tokens_in > terms.tokens_in or totals.tokens_out > terms.tokens_max:
        return "more tokens than the unit allows"
    return "" if batch_root(totals) == statement.output_root else "the root does not commit to these totals"
