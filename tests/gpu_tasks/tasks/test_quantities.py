"""Amounts, times and rates as people write them, exactly."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from error_codes import raises_code
from gpu_tasks.tasks import quantities
from gpu_tasks.tasks.quantities import QuantityError, Rate, TimeSpan
from wallet.amounts import MAX_GRAINS, format_amount

HOUR = 3_600_000


@pytest.mark.parametrize(
    ("text", "grains"),
    [
        ("2.5 oGPU", 250_000_000),
        ("2.5oGPU", 250_000_000),
        ("2.5", 250_000_000),
        ("0.00000001 oGPU", 1),
        ("21000000 oGPU", MAX_GRAINS),
        ("0.1 oGPU", 10_000_000),
        ("1 grain", 1),
        ("250 grains", 250),
        (f"{MAX_GRAINS} grains", MAX_GRAINS),
    ],
)
def test_amounts(text: str, grains: int) -> None:
    assert quantities.amount(text) == grains


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("2.5.1", "invalid_amount"),
        ("2,5 oGPU", "invalid_amount"),
        ("2.5 ogpu", "invalid_amount"),
        (".5 oGPU", "invalid_amount"),
        ("1e3 oGPU", "invalid_amount"),
        ("-1 oGPU", "invalid_amount"),
        ("0.000000001 oGPU", "invalid_amount"),
        ("21000001 oGPU", "more_than_all_money"),
        (f"{MAX_GRAINS + 1} grains", "more_than_all_money"),
        ("2.5 grains", "invalid_amount"),
        ("٢ oGPU", "invalid_amount"),
        ("2 oGPU\n", "invalid_amount"),
    ],
)
def test_what_is_no_amount(text: str, code: str) -> None:
    with raises_code(QuantityError, code):
        quantities.amount(text)


@given(st.integers(0, MAX_GRAINS))
def test_an_amount_that_is_shown_is_read_again(grains: int) -> None:
    assert quantities.amount(f"{format_amount(grains)} oGPU") == grains


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("90m", TimeSpan(90 * 60_000)),
        ("1h 30m", TimeSpan(90 * 60_000)),
        ("1h30m", TimeSpan(90 * 60_000)),
        ("1.5h", TimeSpan(90 * 60_000)),
        ("2d", TimeSpan(48 * HOUR)),
        ("0.001s", TimeSpan(1)),
        ("1.001 h", TimeSpan(3_603_600)),
        ("5400 blocks", TimeSpan(blocks=5_400)),
        ("1 block", TimeSpan(blocks=1)),
    ],
)
def test_times(text: str, span: TimeSpan) -> None:
    assert quantities.span(text) == span


@pytest.mark.parametrize(
    "text", ["", "90", "90 minutes", "1h 1h", "30m 1h", "0s", "0 blocks", "1.0001h", "-1h", "1e3s", "1h,", "1.5 blocks"]
)
def test_what_is_no_time(text: str) -> None:
    with raises_code(QuantityError, "zero_time" if text in {"0s", "0 blocks"} else "invalid_time"):
        quantities.span(text)


@pytest.mark.parametrize(
    ("text", "rate", "for_a_block_of_two_seconds"),
    [
        ("0.5 oGPU/h", Rate(50_000_000, TimeSpan(HOUR)), 27_777),
        ("0.5 oGPU / h", Rate(50_000_000, TimeSpan(HOUR)), 27_777),
        ("200 grains/block", Rate(200, TimeSpan(blocks=1)), 200),
        ("0.5/h", Rate(50_000_000, TimeSpan(HOUR)), 27_777),
        ("7 grains/s", Rate(7, TimeSpan(1_000)), 14),
        ("1 oGPU/d", Rate(100_000_000, TimeSpan(24 * HOUR)), 2_314),
    ],
)
def test_rates(text: str, rate: Rate, for_a_block_of_two_seconds: int) -> None:
    assert quantities.rate(text) == rate
    assert rate.per_block(2_000) == for_a_block_of_two_seconds


@pytest.mark.parametrize("text", ["0.5 oGPU", "0.5 oGPU/week", "0.5", "/h", "1 oGPU/h/h", "0.5 USD/h"])
def test_what_is_no_rate(text: str) -> None:
    with raises_code(QuantityError, "invalid_rate"):
        quantities.rate(text)


@pytest.mark.parametrize(
    ("milliseconds", "text"), [(1_000, "1s"), (61_999, "1m 1s"), (5_400_000, "1h 30m"), (90_061_000, "1d 1h 1m 1s")]
)
def test_a_time_is_written_in_whole_seconds_as_a_file_has_it(milliseconds: int, text: str) -> None:
    assert quantities.written_span(milliseconds) == text
    assert quantities.span(text) == TimeSpan(milliseconds // 1_000 * 1_000)
    with pytest.raises(QuantityError):
        quantities.written_span(999)


def test_a_time_in_blocks() -> None:
    assert TimeSpan(90 * 60_000).in_blocks(2_000) == 2_700
    assert TimeSpan(1_999).in_blocks(2_000) == 0
    assert TimeSpan(blocks=7).in_blocks(2_000) == 7


@given(st.text(max_size=30))
def test_any_text_is_a_quantity_or_said_not_to_be(text: str) -> None:
    for read in (quantities.amount, quantities.span, quantities.rate, quantities.whole):
        try:
            read(text)
        except QuantityError as error:
            assert str(error).startswith(("is ", "has ", "repeats "))  # noqa: PT017  # either is right
