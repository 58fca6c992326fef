"""The chain of products: both backends give the same bits, limits hold, and requests have one encoding."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.workloads.matmul_hash import service
from gpu_tasks.workloads.matmul_hash.request import (
    OUTPUT,
    REQUEST,
    ROUNDS_MAX,
    SEED_MAX,
    SIZE_MAX,
    ChainRequest,
    decode_request,
)
from gpu_tasks.workloads.matmul_hash.service import BACKENDS, MatmulHash, open_published
from gpu_tasks.workloads.model_forms import open_workload
from gpu_tasks.workloads.workload import NonConformingBackendError, OutputCheck
from runtime.encoding.codec import DecodeError

small_requests = st.builds(
    ChainRequest, st.integers(0, SEED_MAX), st.integers(1, 9), st.one_of(st.integers(1, 6), st.just(ROUNDS_MAX))
)


@given(asked=small_requests)
def test_backends_give_the_same_bits(asked: ChainRequest) -> None:
    outputs = {MatmulHash(chain).run(REQUEST.encode(asked)) for chain in BACKENDS.values()}
    assert len(outputs) == 1
    assert OUTPUT.decode(outputs.pop()).products == asked.rounds


@pytest.mark.parametrize("backend", list(BACKENDS))
def test_the_vectors_hold(backend: str) -> None:
    assert open_workload("matmul-hash", backend).conformance().hex() == service.CONFORMANCE


def test_a_chain_by_hand() -> None:
    """Size 1, two rounds: x -> x * x + d, modulo 2**32."""
    start, added = 0xFFFF_FFFE, 7
    drawn = start.to_bytes(4, "little") + added.to_bytes(4, "little")
    expected = ((4 + 7) ** 2 + 7).to_bytes(4, "little")
    assert {chain(drawn, 1, 2) for chain in BACKENDS.values()} == {expected}


@given(asked=small_requests, place=st.integers(0, 35))
def test_only_what_was_computed_is_valid(asked: ChainRequest, place: int) -> None:
    workload = MatmulHash(BACKENDS["numpy"])
    request = REQUEST.encode(asked)
    output = workload.run(request)
    assert workload.verify(request, output) == OutputCheck(True, asked.rounds, None)
    changed = output[:place] + bytes([output[place] ^ 1]) + output[place + 1 :]
    assert not workload.verify(request, changed).valid
    assert not workload.verify(request, output + b"\0").valid


def test_every_part_of_a_request_changes_the_output() -> None:
    workload, asked = MatmulHash(BACKENDS["numpy"]), ChainRequest(1, 4, 5)
    others = (replace(asked, seed=2), replace(asked, size=5), replace(asked, rounds=6))
    digests = {OUTPUT.decode(workload.run(REQUEST.encode(request))).digest for request in (asked, *others)}
    assert len(digests) == 4


def test_a_long_chain_does_not_run_out_of_bits() -> None:
    """Products alone lose rank modulo 2, and all seeds would end in the same zeros."""
    workload = MatmulHash(BACKENDS["numpy"])
    outputs = {workload.run(REQUEST.encode(ChainRequest(seed, 2, ROUNDS_MAX))) for seed in range(50)}
    assert len(outputs) == 50


@given(data=st.binary(max_size=16))
def test_a_request_has_one_encoding(data: bytes) -> None:
    try:
        asked = decode_request(data)
    except DecodeError:
        return
    assert REQUEST.encode(asked) == data


@pytest.mark.parametrize(
    "data",
    [
        b"",
        REQUEST.encode(ChainRequest(1, 0, 1)),
        REQUEST.encode(ChainRequest(1, SIZE_MAX + 1, 1)),
        REQUEST.encode(ChainRequest(1, 1, 0)),
        REQUEST.encode(ChainRequest(1, 1, ROUNDS_MAX + 1)),
        REQUEST.encode(ChainRequest(1, 1, 1)) + b"\0",
    ],
)
def test_bad_requests_are_refused(data: bytes) -> None:
    workload = MatmulHash(BACKENDS["numpy"])
    with pytest.raises(DecodeError):
        workload.run(data)
    with pytest.raises(DecodeError):
        workload.verify(data, bytes(36))


def test_the_biggest_request_is_answered() -> None:
    request = REQUEST.encode(ChainRequest(SEED_MAX, SIZE_MAX, ROUNDS_MAX))
    assert len(MatmulHash(BACKENDS["numpy"]).run(request)) == 36


def test_a_backend_that_saturates_is_refused() -> None:
    def saturating(drawn: bytes, size: int, rounds: int) -> bytes:
        return b"\xff" * (len(drawn) // 2)

    with pytest.raises(NonConformingBackendError, match="matmul-hash"):
        MatmulHash(saturating).conformance()


def test_unknown_backends_are_named() -> None:
    with pytest.raises(LookupError, match=r"'torch-cpu'; .*numpy, reference"):
        open_published("torch-cpu")
