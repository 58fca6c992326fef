"""Times, sizes and cores of others: never less than was asked for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.client.tasks.foreign import (
    ForeignFileError,
    cores_of,
    size_for_cores,
    size_of,
    slurm_seconds,
    written_time,
)
from gpu_tasks.tasks.quantities import cpu_of, span

MIB = 1 << 20
UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
DECIMAL = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 5_400), ("1:30", 90), ("90:00", 5_400), ("2:00:00", 7_200), ("1-12", 129_600), ("1-12:30", 131_400),
        ("1-12:30:15", 131_415), ("0:05", 5), ("0-1", 3_600), ("0", 0), ("UNLIMITED", 0), ("infinite", 0),
    ],
)  # fmt: skip
def test_times_of_slurm(text: str, seconds: int) -> None:
    assert slurm_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "1-", "a", "1:2:3:4", "-5", "1.5", "٣", "1:2:300"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ForeignFileError):
        slurm_seconds(text)


@given(st.integers(1, 10 * 86_400))
def test_a_written_time_is_that_time(seconds: int) -> None:
    assert span(written_time(seconds)).milliseconds == seconds * 1_000


@given(st.integers(1, 10**6), st.sampled_from(sorted(UNITS)))
def test_a_size_is_never_smaller(number: int, unit: str) -> None:
    size = int(size_of(f"{number}{unit}", "x").removesuffix("Mi")) * MIB
    assert 0 <= size - number * UNITS[unit] < MIB


@given(st.integers(1, 10**6), st.sampled_from(sorted(DECIMAL)))
def test_nor_a_decimal_one(number: int, unit: str) -> None:
    size = int(size_of(f"{number}{unit}", "x", is_decimal=True).removesuffix("Mi")) * MIB
    assert 0 <= size - number * DECIMAL[unit] < MIB


def test_a_size_of_nothing_is_none() -> None:
    assert size_of("0", "x") == size_of("0.0G", "x") == ""
    assert size_of("1099511627776", "x") == "1048576Mi"
    assert size_of("512m", "x") == "512Mi"
    assert size_of("1".rjust(20, "0"), "x") == "1Mi"
    with pytest.raises(ForeignFileError):
        size_of("512m", "x", is_decimal=True)
    for text in ("", "m", "1x", "1.G", "-1", "1e3", "1" * 21, "٣m"):
        with pytest.raises(ForeignFileError):
            size_of(text, "x")


@given(st.integers(0, 999), st.text("0123456789", min_size=1, max_size=9))
def test_cores_are_never_fewer(whole: int, part: str) -> None:
    text = cores_of(f"{whole}.{part}", "x")
    exact = whole * 10**9 + int(part.ljust(9, "0"))
    number, _, after = text.partition(".")
    found = int(number or 0) * 10**9 + int(after.ljust(9, "0") or 0)
    assert 0 <= found - exact < 10**6


def test_cores() -> None:
    assert [cpu_of(cores_of(text, "x")) for text in ("2", "100m", "1.5", ".5", "0.0101")] == [
        2_000, 100, 1_500, 500, 11,
    ]  # fmt: skip
    assert cores_of("0", "x") == cores_of("0.0", "x") == ""
    assert (size_for_cores("100Mi", "0.5"), size_for_cores("3Mi", "1.5")) == ("50Mi", "5Mi")
    for text in ("", "m", "1,5", "-1", "٣", "1.5m"):
        with pytest.raises(ForeignFileError):
            cores_of(text, "x")
