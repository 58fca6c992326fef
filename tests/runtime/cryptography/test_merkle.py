"""One root for a list, and a path for each member that fits no other place."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.merkle import COUNT_MAX, is_member, merkle_path, merkle_root, path_length

DOMAIN = b"test"
PADDED = b"test\0\0\0\0"
lists = st.lists(st.binary(max_size=40), min_size=1, max_size=40)


def number(value: int) -> bytes:
    return value.to_bytes(4, "little")


def leaf(index: int, item: bytes) -> bytes:
    return blake2_256(PADDED + b"\0" + number(index) + item)


def inner(left: bytes, right: bytes) -> bytes:
    return blake2_256(PADDED + b"\1" + left + right)


def test_a_tree_of_three_by_hand() -> None:
    a, b, c = leaf(0, b"a"), leaf(1, b"b"), leaf(2, b"c")
    expected = blake2_256(PADDED + b"\2" + number(3) + inner(inner(a, b), c))
    assert merkle_root(DOMAIN, [b"a", b"b", b"c"]) == expected
    assert merkle_path(DOMAIN, [b"a", b"b", b"c"], 0) == (b, c)
    assert merkle_path(DOMAIN, [b"a", b"b", b"c"], 2) == (inner(a, b),)


def test_a_tree_of_one_by_hand() -> None:
    assert merkle_root(DOMAIN, [b"a"]) == blake2_256(PADDED + b"\2" + number(1) + leaf(0, b"a"))
    assert merkle_path(DOMAIN, [b"a"], 0) == ()


@given(items=lists, data=st.data())
def test_members_are_found_at_their_place_alone(items: list[bytes], data: st.DataObject) -> None:
    root, count = merkle_root(DOMAIN, items), len(items)
    index = data.draw(st.integers(0, count - 1))
    path = merkle_path(DOMAIN, items, index)
    assert len(path) == path_length(count, index)
    assert is_member(DOMAIN, root, count, index, items[index], path)
    assert [at for at in range(count) if is_member(DOMAIN, root, count, at, items[index], path)] == [index]
    assert not is_member(DOMAIN, root, count, index, items[index] + b"\0", path)
    assert not is_member(b"other", root, count, index, items[index], path)


@given(items=lists, data=st.data())
def test_nothing_of_a_path_may_change(items: list[bytes], data: st.DataObject) -> None:
    root, count = merkle_root(DOMAIN, items), len(items)
    index = data.draw(st.integers(0, count - 1))
    path = merkle_path(DOMAIN, items, index)
    assert not is_member(DOMAIN, root, count, index, items[index], (*path, bytes(32)))
    for place, neighbour in enumerate(path):
        changed = bytes([neighbour[0] ^ 1]) + neighbour[1:]
        assert not is_member(DOMAIN, root, count, index, items[index], (*path[:place], changed, *path[place + 1 :]))
        assert not is_member(DOMAIN, root, count, index, items[index], path[:place] + path[place + 1 :])


@given(items=lists, other=st.integers(1, 80))
def test_a_list_cannot_be_read_as_one_of_another_length(items: list[bytes], other: int) -> None:
    root = merkle_root(DOMAIN, items)
    path = merkle_path(DOMAIN, items, 0)
    assert is_member(DOMAIN, root, other, 0, items[0], path) == (other == len(items))


@given(first=lists, second=lists)
def test_other_lists_have_other_roots(first: list[bytes], second: list[bytes]) -> None:
    assert (merkle_root(DOMAIN, first) == merkle_root(DOMAIN, second)) == (first == second)


@pytest.mark.parametrize(("count", "index"), [(3, 3), (3, -1), (0, 0), (COUNT_MAX + 1, 0)])
def test_places_that_there_are_not(count: int, index: int) -> None:
    assert not is_member(DOMAIN, bytes(32), count, index, b"", ())


@pytest.mark.parametrize("domain", [b"", b"nine-long", b"zero\0"])
def test_domains_that_are_none(domain: bytes) -> None:
    with pytest.raises(ValueError, match="a tree's domain"):
        merkle_root(domain, [b"a"])


def test_nothing_has_no_root_and_no_path() -> None:
    with pytest.raises(ValueError, match="a tree has"):
        merkle_root(DOMAIN, [])
    with pytest.raises(ValueError, match="item 2 among"):
        merkle_path(DOMAIN, [b"a", b"b"], 2)
    with pytest.raises(ValueError, match="item -1 among"):
        merkle_path(DOMAIN, [b"a", b"b"], -1)


@given(count=st.integers(1, COUNT_MAX), data=st.data())
def test_a_path_is_as_long_as_the_tree_is_high_at_most(count: int, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, count - 1))
    assert path_length(count, index) <= (count - 1).bit_length()
    assert path_length(count, 0) == (count - 1).bit_length()
