"""Both kinds of attestations in one form: their bytes, and their order in a block."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.batches.sum_tree import Totals
from gpu_tasks.market.attestations.kinds import (
    ATTESTATION_BYTES_PER_BLOCK_MAX,
    ATTESTATIONS_PER_BLOCK_MAX,
    AnyAttestation,
    AttestationList,
    AttestationWire,
    attestation_hash,
    encode_attestation,
    order_key,
    size,
)
from gpu_tasks.market.attestations.statement import Attestation, ProofKind, SignedAttestation
from gpu_tasks.market.attestations.usage import Usage
from gpu_tasks.market.training.task_statement import (
    SignedTaskAttestation,
    StatedMilestone,
    StatedResult,
    TaskAttestation,
)
from gpu_tasks.market.training.tasks import Milestone, TaskResult
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.codec import Codecs, codec
from runtime.encoding.scale import DecodeError

CODECS = Codecs(variants=(SignedTaskAttestation, SignedAttestation))
DECODE = CODECS.of(AttestationWire).decode
USAGE = Usage(1, 2, 3, 4, 5, 6)
OF_UNIT = SignedAttestation(
    Attestation(
        version=2, unit=b"u" * 32, attempt=1, replica=0, provider_key=b"k" * 32, device=b"d" * 32, workload=b"w" * 32,
        model=b"m" * 32, input_root=b"i" * 32, output_root=b"o" * 32, output_blob=b"b" * 32,
        totals=Totals(1, 3, 7, b"t" * 32),
        salt=b"s" * 32, proof_kind=ProofKind.EXACT_HASH, proof_hash=b"o" * 32, proof_inline=b"", usage=USAGE,
        started_at=1, finished_at=2,
    ),
    b"x" * 64,
)  # fmt: skip
OF_TASK = SignedTaskAttestation(
    TaskAttestation(
        version=1, task=b"t" * 32, auction=1, place=0, provider_key=b"k" * 32, device=b"d" * 32,
        stated=StatedMilestone(Milestone(1, b"r" * 32, 9, b"c" * 32)), usage=USAGE, started_at=1, finished_at=2,
    ),
    b"x" * 64,
)  # fmt: skip
AT_END = replace(
    OF_TASK, statement=replace(OF_TASK.statement, stated=StatedResult(TaskResult(b"r" * 32, b"b" * 32, 7)))
)


@pytest.mark.parametrize(("signed", "tag"), [(OF_UNIT, b"\0"), (OF_TASK, b"\1"), (AT_END, b"\1")])
def test_a_byte_says_of_which_kind_the_rest_is(signed: AnyAttestation, tag: bytes) -> None:
    raw = encode_attestation(signed)
    assert raw == tag + codec(type(signed)).encode(signed)
    assert DECODE(raw) == signed
    assert size(signed) == len(raw)
    assert attestation_hash(signed) == blake2_256(raw)


def test_how_long_they_are_at_most() -> None:
    assert size(OF_TASK) == 294
    assert size(AT_END) == 293
    longest = replace(OF_UNIT, statement=replace(OF_UNIT.statement, proof_inline=bytes(512)))
    assert size(longest) == size(OF_UNIT) + 512 + 1 == 1014
    assert ATTESTATIONS_PER_BLOCK_MAX * size(OF_TASK) < ATTESTATION_BYTES_PER_BLOCK_MAX


def test_other_kinds_and_other_lengths_are_refused() -> None:
    of_unit, of_task = encode_attestation(OF_UNIT), encode_attestation(OF_TASK)
    bad = (b"", b"\2" + of_task[1:], b"\0" + of_task[1:], b"\1" + of_unit[1:], of_task + b"\0", of_task[:-1])
    for raw in bad:
        with pytest.raises(DecodeError):
            DECODE(raw)


@given(st.binary(max_size=1_100))
def test_any_bytes_are_an_attestation_or_refused(raw: bytes) -> None:
    try:
        signed = DECODE(raw)
    except DecodeError:
        return
    assert encode_attestation(signed) == raw


def test_a_runtime_reads_the_kinds_that_its_pallets_list_and_no_others() -> None:
    units_alone = Codecs(variants=(SignedAttestation,)).of(AttestationWire)
    assert units_alone.decode(encode_attestation(OF_UNIT)) == OF_UNIT
    with pytest.raises(DecodeError):
        units_alone.decode(encode_attestation(OF_TASK))
    with pytest.raises(TypeError, match="AnyAttestation"):
        codec(AttestationWire)


def test_a_list_of_one_too_many_is_refused() -> None:
    listed = CODECS.of(AttestationList)
    most = (OF_TASK,) * ATTESTATIONS_PER_BLOCK_MAX
    raw = listed.encode(most)
    assert listed.decode(raw) == most
    with pytest.raises(DecodeError):
        listed.decode(
            (4 * (ATTESTATIONS_PER_BLOCK_MAX + 1) + 1).to_bytes(2, "little") + raw[2:] + encode_attestation(OF_TASK)
        )


def test_units_come_before_tasks_whatever_they_are_called() -> None:
    late_unit = replace(OF_UNIT, statement=replace(OF_UNIT.statement, unit=b"\xff" * 32, attempt=9, replica=7))
    early_task = replace(OF_TASK, statement=replace(OF_TASK.statement, task=bytes(32)))
    ordered: list[AnyAttestation] = [OF_UNIT, late_unit, early_task, OF_TASK, AT_END]
    assert all(order_key(low) < order_key(high) for low, high in pairwise(ordered))
    assert [signed.subject for signed in ordered] == [b"u" * 32, b"\xff" * 32, bytes(32), b"t" * 32, b"t" * 32]
