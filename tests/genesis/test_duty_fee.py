"""The prepaid duty fee of a post, against the runtime's charges for its duty calls."""

import pytest

from genesis.chain import genesis_state, runtime_of
from genesis.presets import load_spec
from genesis.relations import RACER_BYTES
from gpu_tasks.batches.sum_tree import Totals
from gpu_tasks.market.attestations.attestations import Attestations
from gpu_tasks.market.attestations.statement import Attestation, ProofKind, SignedAttestation
from gpu_tasks.market.attestations.usage import Usage
from gpu_tasks.market.claims.findings import POINTS_DRAWN_MAX, Finding, ItemSample, Verdict
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.money import duty_calls
from gpu_tasks.market.inference.units import RACERS_MAX
from runtime.blocks.era import Era
from runtime.blocks.extrinsic import Extra, MultiSignature, encode_signed
from runtime.cryptography.signatures import Scheme
from runtime.frame.call import Call
from runtime.pallets.transaction_payment import TransactionPayment
from runtime.state.overlay import Memory

H, LATE = b"h" * 32, 2**32 - 1
STATEMENT = Attestation(
    version=2, unit=H, attempt=LATE, replica=RACERS_MAX - 1, provider_key=H, device=H, workload=H, model=H,
    input_root=H, output_root=H, output_blob=H, totals=Totals(LATE, 2**64 - 1, 2**64 - 1, H), salt=H,
    proof_kind=ProofKind.EXACT_HASH, proof_hash=H, proof_inline=b"", usage=Usage(1, 2, 3, 4, 5, 6),
    started_at=LATE, finished_at=LATE,
)  # fmt: skip
COMMIT = InferenceMarket.commit_result(unit=H, attempt=LATE, commitment=H)
DECLINE = InferenceMarket.decline(unit=H, attempt=LATE)
REVEAL = Attestations.reveal(attestation=SignedAttestation(STATEMENT, bytes(64)))
PASS = InferenceMarket.pass_unit(unit=H, attempt=LATE)
POINTS = (1, 4, POINTS_DRAWN_MAX)
"""The points of a check: of one request, of a batch as a rule, and at most."""
SPEC = load_spec("dev")
BOUND = runtime_of(SPEC).at(Memory(genesis_state(SPEC)))


def length(call: Call) -> int:
    extra = Extra(era=Era(64, 63), nonce=2**30 - 1)
    return len(encode_signed(BOUND.runtime, call, extra, H, MultiSignature(Scheme.ED25519, bytes(64))))


def fee(call: Call) -> int:
    """Return the fee as the runtime withdraws it in a block that is at most half full."""
    return BOUND[TransactionPayment].total_fee(length(call), call.weight)


def check_calls(points: int) -> tuple[Call, ...]:
    """Return the calls of a check that passes."""
    samples = (ItemSample(LATE, 2**64 - 1, bytes(16)),) * points
    return (
        ResultClaims.commit_finding(claim=H, commitment=H),
        ResultClaims.show_samples(claim=H, samples=samples),
        ResultClaims.open_finding(claim=H, finding=Finding(Verdict.RIGHT, 0, samples), salt=H),
    )


@pytest.mark.parametrize("racers", range(1, RACERS_MAX + 1))
def test_a_post_prepays_what_its_duty_calls_cost(racers: int) -> None:
    """A failure after new weight tables means that the fee is too low.

    Raise DUTY_FEE in gpu_tasks/market/inference/numbers.py by a tenth more than is lacking, and write
    docs/parameters.md (`python -m scripts.parameter_table --write`).
    """
    racer = max(fee(COMMIT) + fee(REVEAL), fee(DECLINE), fee(PASS))
    checker = max(sum(map(fee, check_calls(points))) for points in POINTS)
    prepaid = BOUND[InferenceMarket].duty_fee * duty_calls(racers)
    assert prepaid >= racers * racer + checker


def test_the_relation_knows_how_long_the_duty_calls_are() -> None:
    assert length(COMMIT) + length(REVEAL) == RACER_BYTES
