"""The trie against public vectors, against its definition, and against itself over random histories."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.cryptography.hashing import blake2_256
from runtime.state.trie import Trie
from runtime.state.trie_node import MAX_KEY_BYTES, encode

# The root of a state trie (layout V1) written straight from the specification, without nodes or updates: an oracle.


def root(contents: dict[bytes, bytes]) -> bytes:
    if not contents:
        return blake2_256(b"\0")
    return blake2_256(node([(key.hex(), value) for key, value in sorted(contents.items())]))


def node(pairs: list[tuple[str, bytes]]) -> bytes:
    """Return the encoding of the node above these pairs of nibbles and values."""
    first, last = pairs[0][0], pairs[-1][0]
    shared = 0
    while shared < min(len(first), len(last)) and first[shared] == last[shared]:
        shared += 1
    below = [(key[shared:], value) for key, value in pairs]
    value = below[0][1] if below[0][0] == "" else None
    groups = [[(key[1:], held) for key, held in below if key[:1] == digit] for digit in "0123456789abcdef"]
    children = [node(group) for group in groups if group]
    bitmap = sum(1 << nibble for nibble, group in enumerate(groups) if group)
    out = header(shared, value, bool(children)) + bytes.fromhex("0" * (shared % 2) + first[:shared])
    if children:
        out += bitmap.to_bytes(2, "little")
    if value is not None:
        out += blake2_256(value) if len(value) > 32 else bytes([len(value) * 4]) + value
    for child in children:
        out += b"\x80" + blake2_256(child) if len(child) >= 32 else bytes([len(child) * 4]) + child
    return out


def header(length: int, value: bytes | None, is_branch: bool) -> bytes:
    hashed = value is not None and len(value) > 32
    prefix, bits = {
        (False, False): (0x40, 6),
        (False, True): (0x20, 5),
        (True, False): (0x80 if value is None else 0xC0, 6),
        (True, True): (0x10, 4),
    }[is_branch, hashed]
    room = 2**bits - 1
    if length < room:
        return bytes([prefix + length])
    rest = [prefix + room]
    length -= room
    while length >= 255:
        rest.append(255)
        length -= 255
    return bytes([*rest, length])


ABC_LONG = b"ABC" * 24

# Few distinct nibbles make deep tries with long shared keys, and keys that are prefixes of others.
short_keys = st.lists(st.sampled_from([0x00, 0x01, 0x10, 0x11, 0xFF]), max_size=6).map(bytes)
long_keys = st.tuples(st.integers(0, 3), st.integers(0, MAX_KEY_BYTES)).map(lambda t: bytes([t[0]]) * t[1])
keys = st.one_of(short_keys, long_keys, st.binary(max_size=40))
values = st.one_of(st.binary(max_size=3), st.integers(30, 40).map(lambda n: b"v" * n), st.just(b""))
contents = st.dictionaries(keys, values, max_size=30)


@pytest.mark.parametrize(
    ("pairs", "root"),
    [
        ({}, "03170a2e7597b7b7e3d84c05391d139a62b157e78786d8c082f29dcf4c111314"),
        ({b"abcd": b"hello world"}, "7ab18659d3b2789ef2400d107104c7d4fb93d06d9ab6a8b641a5de7c3fecc851"),
        ({b"\xaa": b"\xbb"}, blake2_256(bytes.fromhex("42aa04bb")).hex()),
        (
            {b"\x48\x19": b"\xfe", b"\x13\x14": b"\xff"},
            blake2_256(bytes.fromhex("8012001443031404ff1443081904fe")).hex(),
        ),
    ],
    ids=["empty", "one node", "single tuple", "two disjoint keys"],
)
def test_public_roots(pairs: dict[bytes, bytes], root: str) -> None:
    """From the tests of smoldot (trie/calculate_root.rs) and of sp-trie (codec_trie_*)."""
    assert Trie(pairs).root.hex() == root


@pytest.mark.parametrize(
    "pairs",
    [
        {b"\xaa": b"\x10", b"\xba": b"\x11"},
        {b"\xaa": b"\x10", b"\xab": b"\x11"},
        {b"\xaa": b"\xa0", b"\xaa\xaa": b"\xaa", b"\xaa\xbb": b"\xab"},
        {b"\xaa": ABC_LONG, b"\xba": b"\x11"},
        {b"\xaa": ABC_LONG, b"\xba": ABC_LONG},
        {b"": b"at the root", b"\x00": b"below"},
        {b"k": b""},
        {b"k": b"x" * 32, b"l": b"x" * 33},
    ],
)
def test_shapes_named_by_sp_trie(pairs: dict[bytes, bytes]) -> None:
    assert Trie(pairs).root == root(pairs)


@given(contents)
def test_root_is_the_one_of_the_definition(pairs: dict[bytes, bytes]) -> None:
    trie = Trie(pairs)
    assert trie.root == root(pairs)
    assert all(trie.get(key) == value for key, value in pairs.items())


@given(contents, st.lists(st.dictionaries(keys, st.none() | values, max_size=12), max_size=8))
def test_any_history_ends_in_the_root_of_its_contents(
    start: dict[bytes, bytes], batches: list[dict[bytes, bytes | None]]
) -> None:
    model, trie = dict(start), Trie(start)
    for batch in batches:
        before, before_root = trie, trie.root
        trie = trie.updated(batch)
        model = {key: value for key, value in {**model, **batch}.items() if value is not None}
        assert trie.root == root(model)
        assert before.root == before_root
        for key in batch:
            assert trie.get(key) == model.get(key)
    assert trie.updated(dict.fromkeys(model)).root == Trie().root


def test_older_versions_stay_whole_and_share_nodes() -> None:
    rng = random.Random(7)
    pairs = {rng.randbytes(8): rng.randbytes(40) for _ in range(500)}
    old = Trie(pairs)
    changed = rng.sample(sorted(pairs), 20)
    new = old.updated(dict.fromkeys(changed, b"new"))
    assert all(old.get(key) == value for key, value in pairs.items())
    assert all(new.get(key) == b"new" for key in changed)
    assert old.updated({}).root == old.root
    assert len(new.prove(pairs)) > 0


def test_long_random_history() -> None:
    """5,000 changes in batches. After each, the root is compared with a rebuilt trie."""
    rng = random.Random(1)
    space = [rng.randbytes(rng.choice([1, 2, 3, 16, 64])) for _ in range(400)]
    trie, model = Trie(), dict[bytes, bytes]()
    for _ in range(100):
        batch = {rng.choice(space): rng.choice([None, rng.randbytes(rng.choice([0, 8, 80]))]) for _ in range(50)}
        trie = trie.updated(batch)
        model = {key: value for key, value in {**model, **batch}.items() if value is not None}
        assert trie.root == Trie(model).root


def test_deepest_trie_needs_no_more_stack_than_its_key_limit() -> None:
    """Every prefix of the longest key, twice per byte: a branch at each nibble."""
    key = bytes(MAX_KEY_BYTES)
    pairs = {key[:n]: b"v" for n in range(MAX_KEY_BYTES + 1)} | {key[:n] + b"\x01": b"w" for n in range(MAX_KEY_BYTES)}
    trie = Trie(pairs)
    assert all(trie.get(key) == value for key, value in pairs.items())
    assert trie.updated({key: b"x"}).updated({key: b"v"}).root == trie.root
    assert trie.updated(dict.fromkeys(pairs)).root == Trie().root


def test_keys_beyond_the_limit_are_refused() -> None:
    with pytest.raises(ValueError, match="256"):
        Trie({bytes(MAX_KEY_BYTES + 1): b""})


def test_encoding_of_a_node_can_be_read_off() -> None:
    trie = Trie({b"\x12": b"a", b"\x13": b"b" * 33})
    assert trie._top is not None
    leaf = "40" + "04" + b"a".hex()  # no nibbles left, one byte of value
    long_leaf = "20" + blake2_256(b"b" * 33).hex()
    assert encode(trie._top).hex() == "8101" + "0c00" + "0c" + leaf + "80" + blake2_256(bytes.fromhex(long_leaf)).hex()
