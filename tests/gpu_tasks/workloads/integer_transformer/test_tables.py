"""The tables of model files: right to the last unit, and the same bytes on every machine."""

from decimal import Decimal, localcontext
from hashlib import blake2b

import numpy as np
import pytest

from gpu_tasks.workloads.integer_transformer import arithmetic as ops
from gpu_tasks.workloads.integer_transformer.tables import exponential_table, rotary_tables, sigmoid_table

ANGLES = [Decimal(1), Decimal(10_000) ** Decimal("-0.25"), Decimal(10_000) ** Decimal("-0.5"), Decimal(1) / 3]
POSITIONS = 8192


def hash_of(*tables: np.ndarray) -> str:
    return blake2b(b"".join(table.tobytes() for table in tables), digest_size=16).hexdigest()


def test_exponentials_are_right_to_the_last_unit() -> None:
    table = exponential_table()
    exact = np.exp2(-np.arange(ops.EXP_ENTRIES - 1) / (1 << ops.EXP_STEP_BITS)) * (1 << ops.EXP_BITS)
    assert np.abs(table[:-1] - exact).max() < 0.500001
    with localcontext() as context:
        context.prec = 40
        for place in (1, 4095, 4096, 50_001, ops.EXP_ENTRIES - 2):
            entry = Decimal(2) ** (ops.EXP_BITS - Decimal(place) / (1 << ops.EXP_STEP_BITS))
            assert table[place] == int(entry.to_integral_value())
    assert (table[0], table[-1]) == (1 << 24, 0)
    assert table.dtype == np.int32


def test_sigmoids_are_right_to_the_last_unit() -> None:
    table, half = sigmoid_table(), ops.SIGMOID_ENTRIES // 2
    places = (np.arange(ops.SIGMOID_ENTRIES) - half) / (1 << ops.SIGMOID_STEP_BITS)
    exact = (1 << ops.SIGMOID_BITS) / (1 + np.exp(-places))
    assert np.abs(table[1:] - exact[1:]).max() < 0.500001
    assert (table[0], table[half]) == (0, 1 << 15)
    assert (table[half + 1 :] + table[half - 1 : 0 : -1] == 1 << 16).all(), "a gate and its opposite share a unit"
    assert table.dtype == np.int32


def test_turns_are_right_to_the_last_unit() -> None:
    """Also at the last position: errors of a step would add up there."""
    cosines, sines = rotary_tables(POSITIONS, ANGLES)
    angles = np.arange(POSITIONS)[:, None] * np.array([float(angle) for angle in ANGLES])
    assert np.abs(cosines - np.cos(angles) * (1 << ops.UNIT_BITS)).max() < 0.500001
    assert np.abs(sines - np.sin(angles) * (1 << ops.UNIT_BITS)).max() < 0.500001
    assert (cosines[0] == 1 << ops.UNIT_BITS).all()
    assert (sines[0] == 0).all()
    assert cosines.dtype == sines.dtype == np.int16


def test_the_largest_step_keeps_its_precision() -> None:
    """A frequency factor below 1 turns a pair by more than a radian."""
    cosines, sines = rotary_tables(1024, [Decimal("1.5")])
    angles = np.arange(1024)[:, None] * 1.5
    assert np.abs(cosines - np.cos(angles) * (1 << ops.UNIT_BITS)).max() < 0.500001
    assert np.abs(sines - np.sin(angles) * (1 << ops.UNIT_BITS)).max() < 0.500001


@pytest.mark.parametrize(
    ("table", "published"),
    [
        (lambda: [exponential_table()], "97a1ea0f9c0b4a93040b10f54adfd368"),
        (lambda: [sigmoid_table()], "27e1440cf80993d168eac12392dd4520"),
        (lambda: rotary_tables(2048, ANGLES), "7c9fbc5a2d8ffb404a48691483ae0935"),
    ],
    ids=["exponentials", "sigmoids", "turns"],
)
def test_published_hashes(table: object, published: str) -> None:
    """A change of one unit changes the id of every model."""
    assert callable(table)
    assert hash_of(*table()) == published
