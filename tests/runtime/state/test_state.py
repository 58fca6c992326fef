"""The overlay: undo is exact, iteration is ordered, and both hold over any sequence (model: a dictionary)."""

from collections.abc import Iterator
from contextlib import suppress
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.state.overlay import Memory, Overlay

ITEM, OTHER = b"i" * 32, b"i" * 31 + b"j"
KEYS = [b"a", b"ab", b"abc", b"b", b"ba", ITEM, ITEM + b"a", ITEM + b"ab", OTHER + b"a"]


class Abandoned(Exception):
    """A transaction that is to be undone."""


def plain(data: bytes) -> bytes:
    return data


def write(overlay: Overlay, key: bytes, value: bytes | None) -> None:
    overlay.store(key, value, value)


def test_a_failed_transaction_leaves_nothing() -> None:
    overlay = Overlay(Memory({b"a": b"1"}))
    write(overlay, b"b", b"2")
    with pytest.raises(ValueError, match="stop"), overlay.transaction():
        write(overlay, b"a", None)
        write(overlay, b"b", b"3")
        with overlay.transaction():
            write(overlay, b"c", b"4")
        overlay.events.append("x")
        raise ValueError("stop")
    assert overlay.changes() == {b"b": b"2"}
    assert overlay.events == []
    assert overlay.load(b"a", plain) == b"1"


def test_an_inner_failure_keeps_the_outer_writes() -> None:
    overlay = Overlay(Memory())
    with overlay.transaction():
        write(overlay, b"a", b"1")
        with pytest.raises(ValueError, match="stop"), overlay.transaction():
            write(overlay, b"a", b"2")
            raise ValueError("stop")
    assert overlay.changes() == {b"a": b"1"}


def test_changes_over_a_reader_give_the_next_state() -> None:
    overlay = Overlay(Memory({b"a": b"1", b"b": b"2"}))
    write(overlay, b"a", None)
    write(overlay, b"c", b"3")
    assert overlay.reader.updated(overlay.changes()).values == {b"b": b"2", b"c": b"3"}  # type: ignore[attr-defined]


def test_what_was_written_as_bytes_is_listed() -> None:
    overlay = Overlay(Memory({ITEM + b"b": b"1"}))
    overlay.store_raw(ITEM + b"a", b"2")
    assert list(overlay.keys(ITEM)) == [ITEM + b"a", ITEM + b"b"]


steps = st.recursive(
    st.tuples(st.sampled_from(KEYS), st.none() | st.binary(max_size=2)),
    lambda inner: st.tuples(st.booleans(), st.lists(inner, max_size=4)),
    max_leaves=20,
)


def play(overlay: Overlay, model: dict[bytes, bytes], step: object) -> None:
    match step:
        case (bytes(key), value):
            write(overlay, key, value)  # type: ignore[arg-type]
            model.pop(key, None)
            if value is not None:
                model[key] = value  # type: ignore[assignment]
        case (bool(keep), list(inner)):
            before = dict(model)
            with suppress(Abandoned), overlay.transaction():
                for inner_step in inner:
                    play(overlay, model, inner_step)
                if not keep:
                    model.clear()
                    model.update(before)
                    raise Abandoned
        case _:
            raise AssertionError(step)


@given(st.dictionaries(st.sampled_from(KEYS), st.binary(max_size=2)), st.lists(steps, max_size=8))
def test_the_overlay_agrees_with_a_dictionary(start: dict[bytes, bytes], script: list[object]) -> None:
    overlay, model = Overlay(Memory(start)), dict(start)
    for step in script:
        play(overlay, model, step)
        for key in KEYS:
            assert overlay.load(key, plain) == model.get(key)
            assert overlay.raw(key) == model.get(key)
        for prefix in (b"", b"a", b"ab", b"c", b"i", ITEM, ITEM + b"a", OTHER):
            for after in (b"", b"a", b"ab", ITEM + b"a"):
                expected = sorted(key for key in model if key.startswith(prefix) and key > after)
                assert list(overlay.keys(prefix, after)) == expected
    assert Memory(start).updated(overlay.changes()).values == model


def test_writing_while_iterating_does_not_disturb() -> None:
    overlay = Overlay(Memory({b"a": b"1", b"b": b"2"}))
    write(overlay, b"ab", b"x")
    seen: Iterator[bytes] = overlay.keys(b"")
    found = []
    for key in seen:
        found.append(key)
        write(overlay, key, None)
        write(overlay, key + b"new", b"y")
    assert found == [b"a", b"ab", b"b"]


@given(
    st.dictionaries(st.sampled_from(KEYS), st.just(b"0"), max_size=6),
    st.lists(st.tuples(st.sampled_from(KEYS), st.none() | st.just(b"1"), st.booleans()), max_size=8),
    st.lists(st.tuples(st.sampled_from(KEYS), st.none() | st.just(b"2"), st.booleans()), max_size=8),
    st.integers(0, 4),
)
def test_a_listing_is_of_the_moment_it_began(
    start: dict[bytes, bytes],
    first: list[tuple[bytes, bytes | None, bool]],
    second: list[tuple[bytes, bytes | None, bool]],
    taken: int,
) -> None:
    """No write or undo between its keys changes it, and none remains in it after the listing."""
    overlay = Overlay(Memory(start))

    def play_all(script: list[tuple[bytes, bytes | None, bool]]) -> None:
        for key, value, keep in script:
            with suppress(Abandoned), overlay.transaction():
                write(overlay, key, value)
                if not keep:
                    raise Abandoned

    play_all(first)
    expected = list(overlay.keys(b""))
    listing = overlay.keys(b"")
    found = list(islice(listing, taken))
    if found:  # it began
        inner = overlay.keys(b"")
        assert next(inner) == expected[0]
        play_all(second)
        assert [*found, *listing] == expected
        assert [expected[0], *inner] == expected
    else:
        play_all(second)
    del listing
    assert not overlay._listings
    assert list(overlay.keys(b"")) == sorted(key for key in KEYS if overlay.raw(key) is not None)


def test_a_listing_begun_in_a_call_that_fails_goes_on_as_it_began() -> None:
    overlay = Overlay(Memory({b"a": b"1", b"c": b"3"}))
    listing: Iterator[bytes] = iter(())
    with suppress(Abandoned), overlay.transaction():
        write(overlay, b"b", b"2")
        write(overlay, b"c", None)
        listing = overlay.keys(b"")
        assert next(listing) == b"a"
        raise Abandoned
    assert list(listing) == [b"b"]
    assert list(overlay.keys(b"")) == [b"a", b"c"]
