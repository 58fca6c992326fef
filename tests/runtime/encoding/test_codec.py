"""The codec: tables of encodings, canonicity as a property, and scalecodec as an independent oracle."""

from enum import IntEnum
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scalecodec.base import RuntimeConfiguration, ScaleBytes
from scalecodec.type_registry import load_type_registry_preset

from runtime.encoding.codec import (
    U8,
    U16,
    U32,
    U64,
    U128,
    U256,
    Bounded,
    Compact,
    CompactU32,
    CompactU128,
    DecodeError,
    EncodeError,
    Fixed,
    Named,
    Sorted,
    Tagged,
    codec,
    struct,
    variant,
)

ORACLE = RuntimeConfiguration()
ORACLE.update_type_registry(load_type_registry_preset("core"))

Key = Annotated[bytes, Fixed(32), Named("sp_core::crypto::AccountId32")]
Numbers = Annotated[tuple[U16, ...], Bounded(100)]
Map = Annotated[tuple[tuple[U8, U32], ...], Sorted(10)]


class Colour(IntEnum):
    """Fieldless."""

    RED = 0
    BLUE = 4


@variant(1)
class Pay:
    """Pays."""

    target: Key
    amount: CompactU128


@variant(3, unnamed=True)
class Note:
    """A note with a text."""

    text: Annotated[str, Bounded(20)]


Action = Annotated[Pay | Note, Tagged("test::Action")]


@struct
class Order:
    """Everything at once."""

    number: U64
    colour: Colour
    action: Action
    flags: tuple[bool, U8]
    note: Annotated[bytes, Bounded(8)] | None
    numbers: Numbers


TABLE: list[tuple[Any, Any, str]] = [
    (U8, 255, "ff"),
    (U16, 42, "2a00"),
    (U32, 16777215, "ffffff00"),
    (U128, 1 << 100, "00000000000000000000000010000000"),
    (U256, 1, "01" + "00" * 31),
    (bool, True, "01"),
    (CompactU32, 0, "00"),
    (CompactU32, 1, "04"),
    (CompactU32, 42, "a8"),
    (CompactU32, 63, "fc"),
    (CompactU32, 64, "0101"),
    (CompactU32, 69, "1501"),
    (CompactU32, 16383, "fdff"),
    (CompactU32, 16384, "02000100"),
    (CompactU32, 65535, "feff0300"),
    (CompactU32, 1 << 30, "0300000040"),
    (CompactU128, 100000000000000, "0b00407a10f35a"),
    (Annotated[int, Compact(32)], (1 << 256) - 1, "73" + "ff" * 32),
    (Numbers, (4, 8, 15, 16, 23, 42), "18040008000f00100017002a00"),
    (U8 | None, None, "00"),
    (U8 | None, 7, "0107"),
    (Map, ((1, 5), (2, 6)), "0801050000000206000000"),
    (Annotated[str, Bounded(20)], "é", "08c3a9"),
    (Colour, Colour.BLUE, "04"),
    (Action, Note("hi"), "03086869"),
    (None, None, ""),
]


@pytest.mark.parametrize(("annotation", "value", "text"), TABLE)
def test_encodings_are_the_published_ones(annotation: Any, value: Any, text: str) -> None:
    assert codec(annotation).encode(value).hex() == text
    assert codec(annotation).decode(bytes.fromhex(text)) == value


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (U32, "ffffff"),
        (U8, ""),
        (U8, "0000"),
        (bool, "02"),
        (CompactU32, "0100"),  # 0 in two bytes
        (CompactU32, "fd00"),  # 63 in two bytes
        (CompactU32, "02000000"),
        (CompactU32, "03ffffff3f"),
        (CompactU128, "070000000000"),
        (CompactU32, "070000000001"),
        (CompactU128, "37" + "ff" * 17),
        (CompactU32, "01"),
        (Key, "00" * 31),
        (Numbers, "9501" + "0000" * 101),
        (Numbers, "0400"),
        (U8 | None, "02"),
        (Map, "0802050000000106000000"),
        (Map, "0801050000000106000000"),
        (Annotated[str, Bounded(20)], "04ff"),
        (Colour, "01"),
        (Action, "00"),
        (Annotated[bytes, Bounded(2)], "0c616263"),
    ],
)
def test_every_other_form_is_refused(annotation: Any, text: str) -> None:
    with pytest.raises(DecodeError):
        codec(annotation).decode(bytes.fromhex(text))


def test_values_out_of_range_cannot_be_encoded() -> None:
    with pytest.raises(OverflowError):
        codec(U8).encode(256)
    with pytest.raises(OverflowError):
        codec(U8).encode(-1)
    wrong: list[tuple[Any, Any]] = [(CompactU32, 1 << 32), (CompactU32, -1), (Key, b"a"), (Map, ((2, 1), (1, 1)))]
    for annotation, value in wrong:
        with pytest.raises(EncodeError):
            codec(annotation).encode(value)


def test_a_list_without_a_limit_cannot_be_declared() -> None:
    for annotation in (tuple[U8, ...], bytes, str, int, dict, Annotated[tuple[None, ...], Bounded(3)]):
        with pytest.raises(TypeError):
            codec(annotation)


keys = st.binary(min_size=32, max_size=32)
orders = st.builds(
    Order,
    st.integers(0, 2**64 - 1),
    st.sampled_from(Colour),
    st.one_of(st.builds(Pay, keys, st.integers(0, 2**128 - 1)), st.builds(Note, st.text("aé", max_size=10))),
    st.tuples(st.booleans(), st.integers(0, 255)),
    st.none() | st.binary(max_size=8),
    st.lists(st.integers(0, 65535), max_size=70).map(tuple),
)


@given(orders)
def test_what_is_encoded_comes_back(order: Order) -> None:
    assert codec(Order).decode(codec(Order).encode(order)) == order


@given(orders, st.data())
def test_what_is_accepted_is_canonical(order: Order, data: st.DataObject) -> None:
    raw = bytearray(codec(Order).encode(order))
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        value = codec(Order).decode(bytes(raw))
    except DecodeError:
        return
    assert codec(Order).encode(value) == bytes(raw)


@given(st.binary(max_size=120))
def test_no_input_raises_anything_else(data: bytes) -> None:
    for annotation in (Order, Action, Map, Numbers, CompactU128):
        try:
            assert codec(annotation).encode(codec(annotation).decode(data)) == data
        except DecodeError as error:
            assert 0 <= error.where <= len(data)  # noqa: PT017


@given(st.integers(0, 2**128 - 1))
def test_integers_agree_with_scalecodec(value: int) -> None:
    for annotation, name, bits in [
        (U32, "u32", 32),
        (U128, "u128", 128),
        (CompactU128, "Compact<u128>", 128),
        (Annotated[tuple[CompactU128, ...], Bounded(9)], "Vec<Compact<u128>>", 128),
    ]:
        mine: Any = value % 2**bits
        mine = (mine, 1) if name.startswith("Vec") else mine
        theirs = ORACLE.create_scale_object(name)
        raw = theirs.encode(list(mine) if isinstance(mine, tuple) else mine).data
        assert codec(annotation).encode(mine) == bytes(raw)
        decoded = ORACLE.create_scale_object(name, ScaleBytes(codec(annotation).encode(mine)))
        decoded.decode()
        assert decoded.value == (list(mine) if isinstance(mine, tuple) else mine)
