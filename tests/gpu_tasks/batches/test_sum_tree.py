"""One root for the leaves of a batch, their number, order and sums, and a path for each leaf at its place only."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.batches.leaves import Leaf
from gpu_tasks.batches.requests import REQUESTS_MAX
from gpu_tasks.batches.sum_tree import (
    LEAF_PATH,
    PATH_MAX,
    SUBTREE_LEAVES,
    LeafPath,
    Totals,
    TreeNode,
    batch_root,
    before,
    combined,
    holds,
    leaf_claim,
    leaf_path,
    leaf_paths,
    leaves_below,
    node_claim,
    nodes_below,
    opens,
    path_claim,
    subtree_count,
    subtrees_of,
    totals_of,
)
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.codec import DecodeError

DOMAIN = b"batch\0\0\0"
U32_MAX, U64_MAX = 2**32 - 1, 2**64 - 1
hashes = st.binary(min_size=32, max_size=32)
tokens = st.one_of(st.integers(0, 3), st.integers(0, U32_MAX))
leaf = st.builds(Leaf, tokens_in=tokens, tokens_out=tokens, digest=hashes)
batches = st.lists(leaf, min_size=1, max_size=40)


def u64(*values: int) -> bytes:
    return b"".join(value.to_bytes(8, "little") for value in values)


def leaf_hash(index: int, item: Leaf) -> bytes:
    tokens = u64(item.tokens_in, item.tokens_out)
    return blake2_256(DOMAIN + b"\0" + index.to_bytes(4, "little") + tokens + item.digest)


def inner_hash(left: bytes, left_sums: tuple[int, int], right: bytes, right_sums: tuple[int, int]) -> bytes:
    return blake2_256(DOMAIN + b"\1" + left + u64(*left_sums) + right + u64(*right_sums))


A, B, C = Leaf(1, 2, bytes([1]) * 32), Leaf(10, 20, bytes([2]) * 32), Leaf(100, 200, bytes([3]) * 32)


def test_a_tree_of_three_by_hand() -> None:
    a, b, c = leaf_hash(0, A), leaf_hash(1, B), leaf_hash(2, C)
    ab = inner_hash(a, (1, 2), b, (10, 20))
    top = inner_hash(ab, (11, 22), c, (100, 200))
    totals = totals_of([A, B, C])
    assert totals == Totals(3, 111, 222, top)
    assert batch_root(totals) == blake2_256(DOMAIN + b"\2" + (3).to_bytes(4, "little") + u64(111, 222) + top)
    assert leaf_path([A, B, C], 0) == LeafPath(0, 1, 2, a, (TreeNode(b, 10, 20), TreeNode(c, 100, 200)))
    assert leaf_path([A, B, C], 2) == LeafPath(2, 100, 200, c, (TreeNode(ab, 11, 22),))


def test_a_tree_of_one_by_hand() -> None:
    assert totals_of([A]) == Totals(1, 1, 2, leaf_hash(0, A))
    assert leaf_path([A], 0) == LeafPath(0, 1, 2, leaf_hash(0, A), ())
    assert holds(totals_of([A]), leaf_path([A], 0))


@given(leaves=batches)
def test_the_totals_are_the_sums(leaves: list[Leaf]) -> None:
    totals = totals_of(leaves)
    assert totals.requests == len(leaves)
    assert totals.tokens_in == sum(leaf.tokens_in for leaf in leaves)
    assert totals.tokens_out == sum(leaf.tokens_out for leaf in leaves)


@given(first=batches, second=batches)
def test_other_leaves_have_another_root(first: list[Leaf], second: list[Leaf]) -> None:
    assert (batch_root(totals_of(first)) == batch_root(totals_of(second))) == (first == second)


@given(leaves=batches, data=st.data())
def test_a_root_binds_number_and_order(leaves: list[Leaf], data: st.DataObject) -> None:
    root = batch_root(totals_of(leaves))
    other = data.draw(st.permutations(leaves))
    assert (batch_root(totals_of(other)) == root) == (other == leaves)
    assert batch_root(totals_of([*leaves, leaves[-1]])) != root
    assert batch_root(totals_of([*leaves, Leaf(0, 0, bytes(32))])) != root


@given(leaves=batches, data=st.data())
def test_leaves_are_found_at_their_place_alone(leaves: list[Leaf], data: st.DataObject) -> None:
    totals = totals_of(leaves)
    index = data.draw(st.integers(0, len(leaves) - 1))
    path = leaf_path(leaves, index)
    assert holds(totals, path)
    assert opens(path, leaves[index].digest)
    assert [at for at in range(len(leaves)) if holds(totals, replace(path, index=at))] == [index]
    assert not any(opens(replace(path, index=at), leaves[index].digest) for at in range(len(leaves)) if at != index)
    assert before(totals, path) == (
        sum(leaf.tokens_in for leaf in leaves[:index]),
        sum(leaf.tokens_out for leaf in leaves[:index]),
    )


def flipped(data: bytes, bit: int) -> bytes:
    return data[: bit // 8] + bytes([data[bit // 8] ^ 1 << bit % 8]) + data[bit // 8 + 1 :]


@given(leaves=batches)
def test_every_bit_of_the_totals_is_bound(leaves: list[Leaf]) -> None:
    totals = totals_of(leaves)
    root, path = batch_root(totals), leaf_path(leaves, len(leaves) // 2)
    for changed in changed_totals(totals):
        assert batch_root(changed) != root
        if changed.requests == totals.requests:
            assert not holds(changed, path)


def changed_totals(totals: Totals) -> list[Totals]:
    """Yield all totals that differ in one bit."""
    return (
        [replace(totals, requests=totals.requests ^ 1 << bit) for bit in range(32)]
        + [replace(totals, tokens_in=totals.tokens_in ^ 1 << bit) for bit in range(64)]
        + [replace(totals, tokens_out=totals.tokens_out ^ 1 << bit) for bit in range(64)]
        + [replace(totals, top=flipped(totals.top, bit)) for bit in range(256)]
    )


@given(leaves=batches, data=st.data())
def test_no_bit_of_a_path_may_change(leaves: list[Leaf], data: st.DataObject) -> None:
    """A changed path does not hold, or its leaf does not open: index and tokens are in the leaf's hash."""
    totals = totals_of(leaves)
    index = data.draw(st.integers(0, len(leaves) - 1))
    path = leaf_path(leaves, index)
    encoded = LEAF_PATH.encode(path)
    for bit in range(8 * len(encoded)):
        try:
            changed = LEAF_PATH.decode(flipped(encoded, bit))
        except DecodeError:
            continue
        assert not (holds(totals, changed) and opens(changed, leaves[index].digest))
        if changed.index == path.index:
            assert not holds(totals, changed)


@given(leaves=batches, data=st.data())
def test_no_bit_of_a_digest_may_change(leaves: list[Leaf], data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(leaves) - 1))
    path = leaf_path(leaves, index)
    assert not any(opens(path, flipped(leaves[index].digest, bit)) for bit in range(256))


@given(leaves=batches, data=st.data())
def test_neighbours_are_neither_left_out_nor_added(leaves: list[Leaf], data: st.DataObject) -> None:
    totals = totals_of(leaves)
    path = leaf_path(leaves, data.draw(st.integers(0, len(leaves) - 1)))
    longer = (*path.siblings, TreeNode(bytes(32), 0, 0))
    assert not holds(totals, replace(path, siblings=longer))
    for place in range(len(path.siblings)):
        assert not holds(totals, replace(path, siblings=path.siblings[:place] + path.siblings[place + 1 :]))


@given(leaves=batches, data=st.data())
def test_many_paths_are_the_single_ones(leaves: list[Leaf], data: st.DataObject) -> None:
    indices = data.draw(st.lists(st.integers(0, len(leaves) - 1), max_size=5))
    assert leaf_paths(leaves, indices) == [leaf_path(leaves, index) for index in indices]


def test_a_path_says_nothing_of_a_digest() -> None:
    leaves = [A, B, C]
    shown = LEAF_PATH.encode(leaf_path(leaves, 1))
    assert not any(leaf.digest in shown for leaf in leaves)


def test_inner_sums_that_are_not_those_of_the_leaves_open_no_leaf_below() -> None:
    """A liar claims 1,000 tokens over two leaves that have 22. Root and totals follow its claim, but no path holds."""
    a, b, c = leaf_hash(0, A), leaf_hash(1, B), leaf_hash(2, C)
    ab = inner_hash(a, (1, 2), b, (10, 20))
    lied = Totals(3, 111, 1_200, inner_hash(ab, (11, 1_000), c, (100, 200)))
    over_c = TreeNode(c, 100, 200)
    for path in (
        LeafPath(0, 1, 2, a, (TreeNode(b, 10, 20), over_c)),
        LeafPath(1, 10, 20, b, (TreeNode(a, 1, 2), over_c)),
        LeafPath(0, 1, 980, a, (TreeNode(b, 10, 20), over_c)),
        LeafPath(0, 1, 2, a, (TreeNode(b, 10, 998), over_c)),
    ):
        assert not holds(lied, path)
    honest_side = LeafPath(2, 100, 200, c, (TreeNode(ab, 11, 1_000),))
    assert holds(lied, honest_side)


@pytest.mark.parametrize("sibling", [TreeNode(bytes(32), U64_MAX, 0), TreeNode(bytes(32), 0, U64_MAX)])
def test_sums_beyond_64_bits_are_refused(sibling: TreeNode) -> None:
    """A sum of 2^64 would wrap to 0. Here the totals equal a wrapped sum."""
    node = leaf_hash(0, Leaf(1, 1, bytes(32)))
    top = inner_hash(node, (1, 1), sibling.hash, (sibling.tokens_in, sibling.tokens_out))
    for totals in (
        Totals(2, 1 + sibling.tokens_in, 1 + sibling.tokens_out, top),
        Totals(2, (1 + sibling.tokens_in) % 2**64, (1 + sibling.tokens_out) % 2**64, top),
    ):
        assert not holds(totals, LeafPath(0, 1, 1, node, (sibling,)))


def test_a_sum_beyond_64_bits_half_way_up_is_no_error() -> None:
    huge = TreeNode(bytes(32), U64_MAX, U64_MAX)
    path = LeafPath(0, 1, 1, bytes(32), (huge,) * PATH_MAX)
    assert not holds(Totals(REQUESTS_MAX, 1, 1, bytes(32)), path)


@pytest.mark.parametrize(
    ("requests", "index"),
    [(0, 0), (1, 1), (3, 3), (3, -1), (REQUESTS_MAX + 1, 0), (U32_MAX, 0), (U32_MAX, U32_MAX - 1)],
)
def test_places_that_there_are_not(requests: int, index: int) -> None:
    for length in range(40):
        path = LeafPath(index, 0, 0, bytes(32), (TreeNode(bytes(32), 0, 0),) * length)
        assert not holds(Totals(requests, 0, 0, bytes(32)), path)


def test_a_tree_of_more_leaves_than_a_batch_may_have() -> None:
    """The last leaf of 4,097 is alone on its side: its path is short, and right."""
    node, left = leaf_hash(REQUESTS_MAX, A), TreeNode(bytes(32), 5, 6)
    top = inner_hash(left.hash, (5, 6), node, (1, 2))
    assert not holds(Totals(REQUESTS_MAX + 1, 6, 8, top), LeafPath(REQUESTS_MAX, 1, 2, node, (left,)))


def test_the_largest_batch() -> None:
    leaves = [Leaf(U32_MAX, U32_MAX, index.to_bytes(32, "little")) for index in range(REQUESTS_MAX)]
    totals = totals_of(leaves)
    assert totals.tokens_out == REQUESTS_MAX * U32_MAX
    for path in leaf_paths(leaves, [0, 1, 2_048, REQUESTS_MAX - 1]):
        assert len(path.siblings) == PATH_MAX
        assert holds(totals, path)
        assert LEAF_PATH.decode(LEAF_PATH.encode(path)) == path


def test_a_path_of_more_neighbours_than_there_can_be_is_not_read() -> None:
    path = LeafPath(0, 0, 0, bytes(32), (TreeNode(bytes(32), 0, 0),) * PATH_MAX)
    encoded = LEAF_PATH.encode(path)
    longer = encoded.replace(bytes([PATH_MAX << 2]), bytes([PATH_MAX + 1 << 2]), 1) + bytes(48)
    with pytest.raises(DecodeError, match="12 items"):
        LEAF_PATH.decode(longer)


def test_nothing_has_no_totals_and_no_path() -> None:
    with pytest.raises(ValueError, match=r"not 0$"):
        totals_of([])
    with pytest.raises(ValueError, match=r"not 4097$"):
        totals_of([A] * (REQUESTS_MAX + 1))
    with pytest.raises(ValueError, match="leaf 2 "):
        leaf_path([A, B], 2)
    with pytest.raises(ValueError, match="leaf -1 "):
        leaf_path([A, B], -1)


def test_a_claim_by_hand() -> None:
    node = leaf_hash(1, B)
    claim = blake2_256(DOMAIN + b"\3" + node + u64(10, 20))
    assert leaf_claim(1, B) == path_claim(leaf_path([A, B, C], 1)) == node_claim(TreeNode(node, 10, 20)) == claim
    assert path_claim(replace(leaf_path([A, B, C], 1), tokens_out=21)) != claim, "the node is the same, its tokens not"


@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 128, 129, 1_000, 4_095, REQUESTS_MAX])
def test_two_steps_lead_from_a_root_to_every_leaf(count: int) -> None:
    leaves = [Leaf(1, index % 7, index.to_bytes(32, "little")) for index in range(count)]
    totals, subtrees = totals_of(leaves), subtrees_of(leaves)
    top = TreeNode(totals.top, totals.tokens_in, totals.tokens_out)
    assert len(subtrees) == subtree_count(count) <= SUBTREE_LEAVES
    assert combined(subtrees) == top
    below = [nodes_below(leaves, subtree) for subtree in range(len(subtrees))]
    assert [combined(nodes) for nodes in below] == list(subtrees)
    assert [len(nodes) for nodes in below] == [leaves_below(count, subtree) for subtree in range(len(subtrees))]
    nodes = [node for nodes in below for node in nodes]
    assert [node_claim(node) for node in nodes] == [leaf_claim(index, leaf) for index, leaf in enumerate(leaves)]


def test_sums_that_do_not_fit_combine_to_nothing() -> None:
    most = TreeNode(bytes(32), 0, U64_MAX)
    assert combined([most]) == most
    for nodes in ([most, TreeNode(bytes(32), 0, 1)], [TreeNode(bytes(32), U64_MAX, 0), TreeNode(bytes(32), 1, 0)], []):
        assert combined(nodes) is None
