"""A state read from a proof equals the state itself, or is refused: values, keys, walks that end early."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.encoding.codec import DecodeError
from runtime.state.overlay import Memory, RecordedReads, TooManyReads
from runtime.state.trie import Trie
from runtime.state.trie_proof import InvalidProof, ProvedState

READS_MAX = 100

keys = st.one_of(st.lists(st.sampled_from([0x00, 0x01, 0x10, 0xFF]), max_size=4).map(bytes), st.binary(max_size=4))
values = st.one_of(st.binary(max_size=3), st.integers(30, 40).map(lambda n: b"v" * n))
contents = st.dictionaries(keys, values, max_size=25)
walks = st.tuples(keys, keys, st.integers(0, 30))


@given(contents, st.lists(walks, max_size=4), st.lists(keys, max_size=4))
@settings(max_examples=2 * settings().max_examples)
def test_what_was_read_once_can_be_read_again_from_its_proof(
    pairs: dict[bytes, bytes], asked: list[tuple[bytes, bytes, int]], single: list[bytes]
) -> None:
    trie, recorded = Trie(pairs), RecordedReads(Memory(pairs), READS_MAX * READS_MAX)
    walked = [list(itertools.islice(recorded.keys(prefix, start), count)) for prefix, start, count in asked]
    found = [recorded.get(key) for key in single]
    proved = ProvedState(trie.root, trie.prove(recorded.noted))
    assert [list(itertools.islice(proved.keys(prefix, start), count)) for prefix, start, count in asked] == walked
    assert [proved.get(key) for key in single] == found


@given(contents, keys, st.data())
def test_a_walk_over_a_proof_with_a_node_taken_out_leaves_no_key_out(
    pairs: dict[bytes, bytes], prefix: bytes, data: st.DataObject
) -> None:
    trie = Trie(pairs)
    proof = trie.prove([prefix, *(key for key in pairs if key.startswith(prefix))])
    del proof[data.draw(st.integers(0, len(proof) - 1))]
    expected = sorted(key for key in pairs if key.startswith(prefix) and key)
    try:
        found = list(ProvedState(trie.root, proof).keys(prefix))
    except InvalidProof:
        return
    assert found == expected  # the removed part was a value, which a walk does not need


def test_a_refusal_is_nothing_that_a_runtime_takes_for_an_answer() -> None:
    assert not issubclass(InvalidProof, DecodeError | ValueError | LookupError)


def test_reads_are_limited() -> None:
    memory = Memory({bytes([number]): b"" for number in range(9)})
    recorded = RecordedReads(memory, 3)
    assert list(itertools.islice(recorded.keys(b"", b"\x05"), 2)) == [b"\x06", b"\x07"]
    with pytest.raises(TooManyReads, match="than 3 keys"):
        recorded.get(b"\x08")
    with pytest.raises(TooManyReads, match="than 3 keys"):
        list(RecordedReads(memory, 3).keys(b""))
