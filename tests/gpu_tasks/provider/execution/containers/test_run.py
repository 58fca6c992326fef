"""An engine's statistics of a container."""

import pytest

from gpu_tasks.provider.execution.containers.run import ContainerUse, use_of


@pytest.mark.parametrize(
    ("stats", "use"),
    [
        ({"cpu_stats": {"cpu_usage": {"total_usage": 1_500_999_999}}}, ContainerUse(1_500, 0)),
        ({"memory_stats": {"max_usage": 7, "usage": 5}}, ContainerUse(0, 7)),
        ({"memory_stats": {"usage": 5}}, ContainerUse(0, 5)),
        ({"cpu_stats": None, "memory_stats": {"usage": "much"}}, ContainerUse(0, 0)),
        ({"cpu_stats": {"cpu_usage": {"total_usage": -1}}}, ContainerUse(0, 0)),
        ({}, ContainerUse(0, 0)),
    ],
)
def test_nanoseconds_are_milliseconds_and_what_is_not_said_is_nothing(stats: dict[str, object], use: object) -> None:
    assert use_of(stats) == use
