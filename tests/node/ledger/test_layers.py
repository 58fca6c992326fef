"""Layers read as if their changes had been written to the base."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from node.ledger.layers import DiffLayer
from runtime.state.overlay import Memory
from runtime.state.trie import Trie

KEY = st.binary(min_size=1, max_size=3).map(lambda raw: bytes(byte % 3 for byte in raw))
CHANGES = st.dictionaries(KEY, st.one_of(st.none(), st.binary(max_size=2)), max_size=12)


@given(
    st.dictionaries(KEY, st.binary(max_size=2), max_size=12),
    st.lists(CHANGES, max_size=4),
    KEY,
    st.one_of(st.just(b""), KEY),
)
def test_layers_equal_the_written_state(
    base: dict[bytes, bytes], layers: list[dict[bytes, bytes | None]], prefix: bytes, start: bytes
) -> None:
    model = Memory(dict(base))
    layer, trie = DiffLayer(Memory(dict(base)), {}), Trie(dict(base))
    for changes in layers:
        below = list(layer.keys(b""))
        above = DiffLayer(layer, changes)
        assert list(layer.keys(b"")) == below
        model, layer = model.updated(changes), above
        assert list(layer.keys(prefix, start)) == list(model.keys(prefix, start))
        assert list(layer.keys(b"", start)) == list(model.keys(b"", start))
        assert {key: layer.get(key) for key in layer.keys(b"")} == model.values
        assert all(layer.get(key) == model.get(key) for key in changes)
        trie = trie.updated(changes)
        quick = DiffLayer(layer.parent, changes, trie)
        assert all(quick.get(key) == model.get(key) for key in {*changes, *model.values, prefix, start})
        assert list(quick.keys(prefix, start)) == list(trie.keys(prefix, start)) == list(model.keys(prefix, start))
        assert list(DiffLayer(quick, {}).keys(prefix, start)) == list(model.keys(prefix, start))


class _Unread(Memory):
    """A state that no test may read."""

    def get(self, key: bytes) -> bytes | None:
        raise AssertionError(key)


def test_a_value_is_read_from_the_trie_however_many_layers_lie_below() -> None:
    layer = DiffLayer(_Unread({}), {b"changed": b"2"}, Trie({b"changed": b"2", b"old": b"1"}))
    assert [layer.get(key) for key in (b"changed", b"old", b"none")] == [b"2", b"1", None]
