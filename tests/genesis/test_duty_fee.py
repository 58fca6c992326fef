"""The prepaid duty fee of a post, against the runtime's charges for its duty calls."""

import pytest

from genesis.chain import genesis_state, runtime_of
from genesis.presets import load_spec
from genesis.relations import RACER_BYTES
from gpu_tasks.batches.sum_tree import Totals
from gpu_tasks.market.attestations.attestations import Attestations
from gpu_tasks.market.attestations.statement import Attestation, ProofKind, SignedAttestation
from gpu_tasks.market.attestations.usage import Usage
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.courts.opinions import Answered, Statement
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.money import COMMITTEE, duty_calls
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
COMMIT_OPINION = Courts.commit_opinion(case_id=H, commitment=H)
OPEN_OPINION = Courts.open_opinion(case_id=H, statement=Statement(Answered(H), H), salt=H)
SPEC = load_spec("dev")
BOUND = runtime_of(SPEC).at(Memory(genesis_state(SPEC)))


def length(call: Call) -> int:
    extra = Extra(era=Era(64, 63), nonce=2**30 - 1)
    return len(encode_signed(BOUND.runtime, call, extra, H, MultiSignature(Scheme.ED25519, bytes(64))))


def fee(call: Call) -> int:
    """Return the fee as the runtime withdraws it in a block that is at most half full."""
    return BOUND[TransactionPayment].total_fee(length(call), call.weight)


@pytest.mark.parametrize("racers", range(1, RACERS_MAX + 1))
def test_a_post_prepays_what_its_duty_calls_cost(racers: int) -> None:
    """A failure after new weight tables means that the fee is too low.

    Raise DUTY_FEE in gpu_tasks/market/inference/numbers.py by a tenth more than is lacking, and write
    docs/parameters.md (`python -m scripts.parameter_table --write`).
    """
    racer, judge = max(fee(COMMIT) + fee(REVEAL), fee(DECLINE)), fee(COMMIT_OPINION) + fee(OPEN_OPINION)
    prepaid = BOUND[InferenceMarket].duty_fee * duty_calls(racers)
    assert prepaid >= racers * racer + COMMITTEE * judge


def test_the_relation_knows_how_long_the_duty_calls_are() -> None:
    assert length(COMMIT) + length(REVEAL) == RACER_BYTES
