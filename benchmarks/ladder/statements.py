"""Providers' signed statements, and the stateless check that every node makes: decoding, and the signature."""

from gpu_tasks.batches.sum_tree import Totals, batch_root
from gpu_tasks.market.attestations.kinds import AttestationWire, encode_attestation
from gpu_tasks.market.attestations.statement import (
    VERSION,
    Attestation,
    ProofKind,
    SignedAttestation,
    signing_payload,
)
from gpu_tasks.market.attestations.usage import Usage
from gpu_tasks.market.training.task_statement import (
    TASK_VERSION,
    SignedTaskAttestation,
    StatedMilestone,
    TaskAttestation,
    task_signing_payload,
)
from gpu_tasks.market.training.tasks import Milestone
from gpu_tasks.workloads.form import WorkloadForm
from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.signatures import Scheme, keypair_from_seed, sign, verify_ed25519
from runtime.encoding.codec import Codecs

_GENESIS = blake2_256(b"a chain")
_PUBLIC, _SECRET = keypair_from_seed(Scheme.ED25519, blake2_256(b"a provider"))
_DECODE = Codecs(variants=(SignedAttestation, SignedTaskAttestation)).of(AttestationWire).decode
_USAGE = Usage(1_000, 500, 0, 500, 600, 1 << 28)


def signed_reveal(form: WorkloadForm, output: bytes) -> bytes:
    """Return the encoded attestation of a unit's output."""
    totals = Totals(1, 0, form.cost(output), blake2_256(output))
    statement = Attestation(
        version=VERSION,
        unit=blake2_256(b"a unit"),
        attempt=0,
        replica=0,
        provider_key=_PUBLIC,
        device=blake2_256(b"a device"),
        workload=form.workload_id,
        model=form.model_id,
        input_root=blake2_256(b"an input"),
        output_root=batch_root(totals),
        output_blob=blake2_256(b"a blob"),
        totals=totals,
        salt=blake2_256(b"a salt"),
        proof_kind=ProofKind.EXACT_HASH,
        proof_hash=bytes(32),
        proof_inline=b"",
        usage=_USAGE,
        started_at=100,
        finished_at=101,
    )
    return encode_attestation(SignedAttestation(statement, _signature(signing_payload(_GENESIS, statement))))


def signed_milestone(number: int, root: bytes, metric: int) -> bytes:
    """Return the encoded attestation of a task's milestone."""
    statement = TaskAttestation(
        version=TASK_VERSION,
        task=blake2_256(b"a task"),
        auction=1,
        place=0,
        provider_key=_PUBLIC,
        device=blake2_256(b"a device"),
        stated=StatedMilestone(Milestone(number, root, metric, blake2_256(b"a blob"))),
        usage=_USAGE,
        started_at=100,
        finished_at=101,
    )
    return encode_attestation(SignedTaskAttestation(statement, _signature(task_signing_payload(_GENESIS, statement))))


def checked(data: bytes) -> None:
    """Decode an attestation and check its signature. Raise RuntimeError if the signature is wrong."""
    signed = _DECODE(data)
    statement = signed.statement
    if isinstance(statement, TaskAttestation):
        payload = task_signing_payload(_GENESIS, statement)
    else:
        payload = signing_payload(_GENESIS, statement)
    if not verify_ed25519(statement.provider_key, payload, signed.signature):
        raise RuntimeError("a signature that is none")


def _signature(payload: bytes) -> bytes:
    return sign(Scheme.ED25519, _PUBLIC, _SECRET, payload)
