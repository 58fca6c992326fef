"""Eras against the SDK's own examples, and their rules over all periods."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.blocks.era import ERA, IMMORTAL, Era, mortal
from runtime.encoding.codec import DecodeError


@pytest.mark.parametrize(
    ("era", "text"),
    [(IMMORTAL, "00"), (mortal(64, 42), "a502"), (mortal(32_768, 20_000), "4e9c"), (mortal(200, 1_400), "8707")],
)
def test_encodings_are_those_of_the_sdk(era: Era, text: str) -> None:
    assert ERA.encode(era).hex() == text
    assert ERA.decode(bytes.fromhex(text)) == era


@pytest.mark.parametrize("text", ["1000", "5100", "01", "", "0000", "9200"])
def test_other_bytes_are_no_era(text: str) -> None:
    with pytest.raises(DecodeError):
        ERA.decode(bytes.fromhex(text))


def test_birth_and_death_are_those_of_the_sdk() -> None:
    era = mortal(4, 6)
    assert [era.birth(height) for height in (6, 7, 8, 9, 10)] == [6, 6, 6, 6, 10]
    assert [era.death(height) for height in (6, 7, 8, 9, 10)] == [10, 10, 10, 10, 14]
    assert (IMMORTAL.birth(10**6), IMMORTAL.death(10**6)) == (0, None)


@given(st.integers(1, 100_000), st.integers(0, 2**32 - 1), st.integers(0, 70_000))
def test_a_mortal_transaction_is_born_at_or_just_before_its_height(period: int, height: int, later: int) -> None:
    era = mortal(period, height)
    assert ERA.decode(ERA.encode(era)) == era
    birth, death = era.birth(height), era.death(height)
    assert height - max(era.period >> 12, 1) < birth <= height
    assert death == birth + era.period
    assert (era.birth(height + later) == birth) == (height + later < death)
