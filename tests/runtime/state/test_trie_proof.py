"""Proofs: those of a public chain, those of our tries, and forged ones, which prove nothing."""

import json
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from runtime.cryptography.hashing import blake2_256
from runtime.state.trie import Trie
from runtime.state.trie_node import TrieNode, encode
from runtime.state.trie_proof import MAX_PROOF_NODES, InvalidProof, verify_proof

CORETIME = json.loads((Path(__file__).parent / "vectors" / "coretime_genesis.json").read_text())
CORETIME_ROOT = bytes.fromhex(CORETIME["state_root"])
CORETIME_PROOF = [bytes.fromhex(node) for node in CORETIME["proof"]]
CORETIME_PAIRS = {bytes.fromhex(key): bytes.fromhex(value) for key, value in CORETIME["contents"].items()}

keys = st.one_of(st.lists(st.sampled_from([0x00, 0x01, 0x10, 0xFF]), max_size=5).map(bytes), st.binary(max_size=6))
values = st.one_of(st.binary(max_size=3), st.integers(30, 40).map(lambda n: b"v" * n))
contents = st.dictionaries(keys, values, max_size=25)


def test_state_root_is_the_one_in_block_zero_of_the_public_chain() -> None:
    """The header of block 0: no parent, number 0, the state root, no extrinsics, no digest."""
    header = bytes(32) + b"\0" + CORETIME_ROOT + Trie().root + b"\0"
    assert blake2_256(header).hex() == CORETIME["genesis_hash"]


def test_every_value_of_the_public_chain_is_proved() -> None:
    assert len(CORETIME_PAIRS) == 61
    assert any(len(value) > 32 for value in CORETIME_PAIRS.values())
    for key, value in CORETIME_PAIRS.items():
        assert verify_proof(CORETIME_ROOT, CORETIME_PROOF, key) == value


def test_absence_in_the_public_chain_is_proved() -> None:
    for key in CORETIME_PAIRS:
        assert verify_proof(CORETIME_ROOT, CORETIME_PROOF, key + b"\0") is None


@given(contents, st.lists(keys, max_size=6))
def test_what_is_proved_is_what_the_trie_holds(pairs: dict[bytes, bytes], wanted: list[bytes]) -> None:
    trie = Trie(pairs)
    asked = wanted + list(pairs)[:4]
    proof = trie.prove(asked)
    assert proof == sorted(set(proof))
    for key in asked:
        assert verify_proof(trie.root, proof, key) == pairs.get(key)
        assert verify_proof(trie.root, reversed(proof), key) == pairs.get(key)


@given(contents, keys)
def test_a_proof_of_one_key_has_no_node_to_spare(pairs: dict[bytes, bytes], key: bytes) -> None:
    trie = Trie(pairs)
    proof = trie.prove([key])
    for i in range(len(proof)):
        with pytest.raises(InvalidProof, match="incomplete proof"):
            verify_proof(trie.root, proof[:i] + proof[i + 1 :], key)


@given(contents, keys, st.data())
@settings(max_examples=2 * settings().max_examples)
def test_a_changed_node_proves_nothing_false(pairs: dict[bytes, bytes], key: bytes, data: st.DataObject) -> None:
    """For any change of the nodes, the answer is the true one or a refusal."""
    trie = Trie(pairs)
    proof = trie.prove([key])
    index = data.draw(st.integers(0, len(proof) - 1))
    proof[index] = data.draw(
        st.one_of(st.binary(max_size=80), st.just(proof[index] + b"\0"), st.just(proof[index][:-1]))
    )
    try:
        answer = verify_proof(trie.root, proof, key)
    except InvalidProof:
        return
    assert answer == pairs.get(key)


@given(contents, contents, keys)
def test_a_proof_for_another_root_proves_nothing(
    pairs: dict[bytes, bytes], others: dict[bytes, bytes], key: bytes
) -> None:
    trie, other = Trie(pairs), Trie(others)
    assume(trie.root != other.root)
    with pytest.raises(InvalidProof):
        verify_proof(other.root, [node for node in trie.prove([key]) if blake2_256(node) != other.root], key)


@given(st.binary(max_size=120), keys)
def test_any_bytes_as_the_root_node_are_decoded_or_refused(data: bytes, key: bytes) -> None:
    try:
        value = verify_proof(blake2_256(data), [data], key)
    except InvalidProof:
        return
    assert value is None or isinstance(value, bytes)


@pytest.mark.parametrize(
    ("name", "node"),
    [
        ("escape header", "01"),
        ("empty bytes", ""),
        ("trailing byte", "42aa04bb00"),
        ("truncated value", "42aa08bb"),
        ("padding not zero", "43131404ff"),
        ("value of 33 bytes inline", "42aa84" + "00" * 33),
        ("two-byte compact length", "42aa0500bb"),
        ("branch without children", "800000"),
        ("branch with one child", "80020010411304ff"),
        ("branch with value and no child", "c0000004aa"),
        ("child longer than a hash", "80030084" + "00" * 33 + "84" + "00" * 33),
        ("partial key too long", "7f" + "ff" * 3),
        ("partial key cut", "7f00"),
    ],
)
def test_nodes_that_no_trie_has_are_refused(name: str, node: str) -> None:
    data = bytes.fromhex(node)
    for key in (b"", b"\xaa", b"\x13\x14"):
        with pytest.raises(InvalidProof):
            verify_proof(blake2_256(data), [data], key)


def test_short_nodes_and_values_by_hash_are_refused() -> None:
    """A second form of the same trie, with inline nodes given by hash."""
    leaf = bytes.fromhex("43031404ff")
    branch = bytes.fromhex("801200") + (b"\x80" + blake2_256(leaf)) * 2
    with pytest.raises(InvalidProof, match="outside its parent"):
        verify_proof(blake2_256(branch), [branch, leaf], b"\x13\x14")
    hashed = bytes.fromhex("22aa") + blake2_256(b"short")
    with pytest.raises(InvalidProof, match="outside its node"):
        verify_proof(blake2_256(hashed), [hashed, b"short"], b"\xaa")


def test_limits() -> None:
    root = Trie().root
    with pytest.raises(InvalidProof, match=r"above \d+ nodes"):
        verify_proof(root, [b"\0"] * (MAX_PROOF_NODES + 1), b"")
    with pytest.raises(InvalidProof, match=r"above \d+ nodes"):
        verify_proof(root, [bytes(2**20)] * 17, b"")
    with pytest.raises(InvalidProof, match="of the state"):
        verify_proof(root, [b"\0"], bytes(257))
    assert verify_proof(root, [b"\0"], b"any") is None


def test_no_node_is_encoded_twice_for_one_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[bytes] = []

    def counted(node: TrieNode) -> bytes:
        encoded.append(node.reference)
        return encode(node)

    trie = Trie({number.to_bytes(4, "big"): bytes(40) for number in range(5_000)})
    monkeypatch.setattr("runtime.state.trie.encode", counted)
    proof = trie.prove(number.to_bytes(4, "big") for number in range(0, 5_000, 5))
    assert len(encoded) == len(set(encoded)) <= len(proof)
