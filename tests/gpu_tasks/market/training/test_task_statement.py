"""The form of a task attestation: its bytes, its signed part, its order."""

from dataclasses import replace
from itertools import pairwise

import pytest

from gpu_tasks.market.attestations.usage import Usage
from gpu_tasks.market.training.task_statement import (
    SignedTaskAttestation,
    Stated,
    StatedMilestone,
    StatedResult,
    TaskAttestation,
    step_of,
    task_signing_payload,
)
from gpu_tasks.market.training.tasks import Milestone, TaskResult
from runtime.cryptography.signing import domain
from runtime.encoding.codec import codec
from runtime.encoding.scale import DecodeError

GENESIS = b"g" * 32
STATED = StatedMilestone(Milestone(3, b"r" * 32, 997, b"c" * 32))
STATEMENT = TaskAttestation(
    version=1,
    task=b"t" * 32,
    auction=2,
    place=1,
    provider_key=b"k" * 32,
    device=b"d" * 32,
    stated=STATED,
    usage=Usage(1, 2, 3, 4, 5, 6),
    started_at=10,
    finished_at=0x01020304,
)
BODY = "".join(
    (
        "01",
        "74" * 32,  # task
        "02",
        "01",
        "6b" * 32,  # provider key
        "64" * 32,  # device
        "00" + "03" + "72" * 32 + "e503000000000000" + "63" * 32,  # a milestone: number, root, metric, blob
        "".join(f"{number:02x}" + "00" * 7 for number in range(1, 7)),  # usage
        "0a000000",
        "04030201",
    )
)
RESULT_BODY = BODY.replace(
    "00" + "03" + "72" * 32 + "e503000000000000" + "63" * 32, "01" + "72" * 32 + "62" * 32 + "0700000000000000"
)
RESULT = StatedResult(TaskResult(b"r" * 32, b"b" * 32, 7))


@pytest.mark.parametrize(("stated", "body"), [(STATED, BODY), (RESULT, RESULT_BODY)])
def test_a_statement_has_these_bytes(stated: Stated, body: str) -> None:
    """Other bytes change the signed message, so they need another version."""
    statement = replace(STATEMENT, stated=stated)
    assert codec(TaskAttestation).encode(statement).hex() == body
    assert codec(TaskAttestation).decode(bytes.fromhex(body)) == statement


def test_what_is_signed_names_its_purpose_and_its_chain() -> None:
    assert task_signing_payload(GENESIS, STATEMENT) == b"ogpu/1/t-attest" + GENESIS + bytes.fromhex(BODY)
    assert task_signing_payload(GENESIS, STATEMENT) != task_signing_payload(b"h" * 32, STATEMENT)
    assert task_signing_payload(GENESIS, STATEMENT) != domain(b"attest", GENESIS, bytes.fromhex(BODY))


def test_a_signed_one_is_its_statement_and_its_signature() -> None:
    signed = SignedTaskAttestation(STATEMENT, b"s" * 64)
    assert codec(SignedTaskAttestation).encode(signed).hex() == BODY + "73" * 64


def test_bytes_left_over_and_other_kinds_of_statement_are_refused() -> None:
    raw = bytes.fromhex(BODY)
    at = BODY.index("00" + "03" + "72" * 32) // 2
    for bad in (raw + b"\0", raw[:-1], raw[:at] + b"\2" + raw[at + 1 :]):
        with pytest.raises(DecodeError):
            codec(TaskAttestation).decode(bad)


def test_the_result_stands_behind_every_milestone_and_a_step_before_a_place() -> None:
    def at(step: int, place: int) -> SignedTaskAttestation:
        stated = RESULT if step == 256 else StatedMilestone(replace(STATED.milestone, number=step))
        statement = replace(STATEMENT, place=place, stated=stated)
        assert step_of(statement.stated) == step
        return SignedTaskAttestation(statement, b"s" * 64)

    ordered = [at(step, place) for step in (0, 1, 2, 255, 256) for place in (0, 1, 31)]
    assert all(low.step < high.step for low, high in pairwise(ordered))
