"""The verdict of `make gpu`: passing and failing runs, and the line of figures."""

import pytest

from benchmarks.gpu.verdict import LIMITS, line, wrong_limits, wrong_telemetry
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.provider.execution.gpu import Hardware

CARD = Hardware("Card", "GPU-1", DeviceClass.DATACENTER, 80_000, 0, "1.2")


def test_documented_limits_pass_and_each_other_is_named() -> None:
    assert wrong_limits(LIMITS) == []
    for name in LIMITS:
        assert wrong_limits({**LIMITS, name: "77"}) == [f"limits: {name} is 77, documented is {LIMITS[name]}"]
    assert len(wrong_limits({})) == len(LIMITS)


@pytest.mark.parametrize(
    ("idle", "busy", "memory", "problem"),
    [
        (70.0, 120.0, (500, 1_000), None),
        (70.0, 60.0, (500, 1_000), None),
        (0.0, 0.0, (500, 1_000), None),
        (70.0, 20.0, (500, 1_000), "70.0 W idle, 20.0 W at work"),
        (0.07, 0.12, (500, 1_000), "0.07 W idle"),
        (70.0, 120_000.0, (500, 1_000), "120000.0 W at work"),
        (70.0, 120.0, (500, 500), "500 MiB at work"),
        (70.0, 120.0, (0, 500), "0 MiB idle"),
        (70.0, 120.0, (500, 90_000), "90000 MiB at work of 80000"),
    ],
)
def test_readings_that_no_card_gives_fail(
    idle: float, busy: float, memory: tuple[int, int], problem: str | None
) -> None:
    found = wrong_telemetry(CARD, idle, busy, memory)
    assert not found if problem is None else problem in found[0]


def test_a_card_without_identifier_fails() -> None:
    nameless = Hardware("Card", "", DeviceClass.DATACENTER, 80_000, 0, "1.2")
    assert "identifier ''" in wrong_telemetry(nameless, 70.0, 120.0, (500, 1_000))[0]


def test_the_line_says_what_was_found_and_how_much_failed() -> None:
    figures = {
        "tokens_per_second": 300.0, "start_s": 4.0, "energy_mj_per_token": 400.0,
        "energy_mj_per_token_above_idle": 150.0, "device_memory_mib": 1_000.0,
    }  # fmt: skip
    speeds = {"numpy": {"tokens_per_second": 2_000.0}, "torch-cuda": figures}
    text = line(CARD, speeds, 7_000, 0)
    assert text.startswith("gpu: Card, driver 1.2; 7,000 tokens bit-equal to NumPy; numpy 2,000 tokens/s, ")
    assert "FAILED" not in text
    assert "3 FAILED" in line(CARD, speeds, 7_000, 3)
