"""The chain with independent rows: every backend gives the same bits, and a wrong row is found."""

from hashlib import blake2b

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.workloads.fingerprints import FINGERPRINT_BYTES
from gpu_tasks.workloads.matmul_chain import prover
from gpu_tasks.workloads.matmul_chain.arithmetic import NumpyChain, ReferenceChain
from gpu_tasks.workloads.matmul_chain.challenge import (
    SIZE_MAX,
    ChainChallenge,
    ChainShape,
    row_fingerprint,
    row_hash,
)
from gpu_tasks.workloads.matmul_chain.prover import chain_arithmetic, row_hashes, rows_root
from gpu_tasks.workloads.workload import NonConformingBackendError
from runtime.cryptography.merkle import is_member, merkle_path

small = st.builds(
    ChainChallenge,
    st.binary(min_size=32, max_size=32),
    st.builds(ChainShape, st.integers(1, 20), st.integers(1, 9), st.integers(1, 5)),
)


@given(asked=small)
def test_backends_give_the_same_bits(asked: ChainChallenge) -> None:
    rows = range(asked.shape.rows)
    assert NumpyChain().ends(asked, rows) == ReferenceChain().ends(asked, rows)


@given(asked=small)
def test_torch_gives_the_same_bits(asked: ChainChallenge) -> None:
    pytest.importorskip("torch")
    rows = range(asked.shape.rows)
    assert chain_arithmetic("torch-cpu").ends(asked, rows) == ReferenceChain().ends(asked, rows)


@pytest.mark.parametrize("backend", ["numpy", "reference"])
def test_the_vectors_hold(backend: str) -> None:
    assert prover.conformance(chain_arithmetic(backend)) == prover.CONFORMANCE


def test_the_greatest_sum_is_exact() -> None:
    assert 128 * 63 * SIZE_MAX < 2**24


def test_another_hash_is_no_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prover, "CONFORMANCE", "0")
    with pytest.raises(NonConformingBackendError):
        chain_arithmetic("numpy")


@given(asked=small, data=st.data())
def test_rows_alone_are_those_of_the_whole(asked: ChainChallenge, data: st.DataObject) -> None:
    digests = row_hashes(NumpyChain(), asked)
    row = data.draw(st.integers(0, asked.shape.rows - 1))
    path = merkle_path(prover.ROW_DOMAIN, digests, row)
    assert is_member(prover.ROW_DOMAIN, rows_root(digests), asked.shape.rows, row, digests[row], path)
    assert row_hash(NumpyChain().ends(asked, [row])) == digests[row]


def test_blocks_of_rows_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ChainChallenge(b"s" * 32, ChainShape(8, 50, 3))
    whole = row_hashes(NumpyChain(), asked)
    monkeypatch.setattr(prover, "BYTES_AT_ONCE", 56)
    assert row_hashes(NumpyChain(), asked) == whole


def test_seeds_and_rows_differ() -> None:
    shape = ChainShape(16, 64, 2)
    first, second = (row_hashes(NumpyChain(), ChainChallenge(seed * 32, shape)) for seed in (b"a", b"b"))
    assert len({*first, *second}) == 128


def test_a_fingerprint_is_of_the_row_and_of_the_seed() -> None:
    prints = {row_fingerprint(seed, end) for seed in (b"a" * 32, b"b" * 32) for end in (b"1" * 8, b"2" * 8)}
    assert len(prints) == 4
    assert {len(each) for each in prints} == {FINGERPRINT_BYTES}
    whole = blake2b(b"ogpu/row-fingerprint" + b"a" * 32 + b"1" * 8, digest_size=FINGERPRINT_BYTES).digest()
    assert row_fingerprint(b"a" * 32, b"1" * 8) == whole, "of the values: a delivery has their hash"
