from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wallet.amounts import GRAINS_PER_OGPU, MAX_GRAINS, counted, format_amount, format_duration, parse_amount
from wallet.errors import AmountError


@pytest.mark.parametrize(
    ("text", "grains"),
    [
        ("0", 0),
        ("1", 100_000_000),
        ("1.5", 150_000_000),
        ("0.00000001", 1),
        ("007.50", 750_000_000),
        ("21000000", MAX_GRAINS),
        ("21000000.00000000", MAX_GRAINS),
        ("1.5 oGPU", 150_000_000),
        ("1.5ogpu", 150_000_000),
        ("50 grains", 50),
        ("1grain", 1),
        (f"{MAX_GRAINS} Grains", MAX_GRAINS),
    ],
)
def test_amounts_in_grains(text: str, grains: int) -> None:
    assert parse_amount(text) == grains


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            " ",
            "1 ",
            " 1",
            "-1",
            "+1",
            ".5",
            "1.",
            "1,5",
            "1e3",
            "1_000",
            "0x10",
            "1.5 oGPU oGPU",
            "oGPU",
            "1.5 DOT",
            "1.5 grains",
            "grains",
            "-5 grains",
            f"{MAX_GRAINS + 1} grains",
            "1.000000001",
        ),
        *("21000000.00000001", "99999999", "100000000", "1\n", "\u0661", "\u00b2", "nan", "inf", "1.2.3", "9" * 5000),
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(AmountError):
        parse_amount(text)


@pytest.mark.parametrize(
    ("grains", "text"),
    [(0, "0"), (1, "0.00000001"), (150_000_000, "1.5"), (10 * GRAINS_PER_OGPU, "10"), (-1, "-0.00000001")],
)
def test_text_of_grains(grains: int, text: str) -> None:
    assert format_amount(grains) == text


@given(st.integers(0, MAX_GRAINS))
def test_text_and_back_is_exact(grains: int) -> None:
    assert parse_amount(format_amount(grains)) == grains


@given(st.text(max_size=20))
def test_arbitrary_text_gives_an_amount_or_one_error(text: str) -> None:
    with suppress(AmountError):
        assert 0 <= parse_amount(text) <= MAX_GRAINS


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (119, "119 s"),
        (120, "2 min"),
        (7_199, "119 min"),
        (7_200, "2 h"),
        (172_799, "47 h"),
        (172_800, "2 d"),
    ],
)
def test_a_duration_is_in_the_largest_unit_that_it_has_twice(seconds: int, text: str) -> None:
    assert format_duration(seconds) == text


def test_one_thing_is_no_plural() -> None:
    assert [counted(number, "block") for number in (0, 1, 2)] == ["0 blocks", "1 block", "2 blocks"]
    assert [counted(number, "has", "have") for number in (1, 2)] == ["1 has", "2 have"]
