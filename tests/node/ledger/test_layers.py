"""Layers read as if their changes had been written to the base."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from node.ledger.layers import DiffLayer
from runtime.state.overlay import Memory

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
    layer = DiffLayer(Memory(dict(base)), {})
    for changes in layers:
        below = list(layer.keys(b""))
        above = DiffLayer(layer, changes)
        assert list(layer.keys(b"")) == below
        model, layer = model.updated(changes), above
        assert list(layer.keys(prefix, start)) == list(model.keys(prefix, start))
        assert list(layer.keys(b"", start)) == list(model.keys(b"", start))
        assert {key: layer.get(key) for key in layer.keys(b"")} == model.values
        assert all(layer.get(key) == model.get(key) for key in changes)
