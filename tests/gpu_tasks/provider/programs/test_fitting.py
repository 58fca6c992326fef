"""A request as a container of this machine: complete, and with nothing beyond the request."""

from dataclasses import replace
from pathlib import Path

import pytest

from gpu_tasks.market.attestations.usage import Usage
from gpu_tasks.provider.execution.containers.run import ContainerEnd, EndReason
from gpu_tasks.provider.execution.containers.spec import ContainerPolicy, ContainerSpec, NetworkAccess
from gpu_tasks.provider.programs.means import ProgramMeans
from gpu_tasks.provider.programs.requests import UnfitProgramError
from gpu_tasks.provider.programs.results import UNKNOWN_EXIT, interval_of, result_of
from gpu_tasks.provider.programs.supervisor import seconds_of, spec_of
from gpu_tasks.tasks.container_request import AskedLimits, ContainerNetwork, EnvironmentVariable, RequestFile
from renting_village import PROGRAM, REPOSITORY

GPUS = ("GPU-1", "GPU-2")
POLICY = ContainerPolicy(images=(REPOSITORY,), outbound=True, gpus=GPUS)
ASKED = AskedLimits(
    cpu_thousandths=500, memory_bytes=32 << 20, processes=20, workspace_bytes=2 << 20, log_bytes=8 << 10
)
FULL = replace(
    PROGRAM, limits=ASKED, gpus=1, network=ContainerNetwork.OUTBOUND, secrets=("TOKEN",),
    environment=(EnvironmentVariable("A", "1"),), inputs=(RequestFile("words", b"many"),),
)  # fmt: skip


def fitted(gpus: tuple[str, ...] = GPUS, policy: ContainerPolicy = POLICY) -> ContainerSpec:
    return spec_of(FULL, policy, "task-1", gpus, 77, Path("archive.tar"))


def test_all_that_is_asked_for_is_there() -> None:
    spec = fitted()
    assert (spec.container_id, spec.command, dict(spec.environment)) == ("task-1", ("run",), {"A": "1"})
    assert (dict(spec.inputs), dict(spec.secrets)) == ({"words": b"many"}, {"TOKEN": b""})
    assert spec.network is NetworkAccess.OUTBOUND
    limits = spec.limits
    assert (limits.cpu_thousandths, limits.memory_bytes, limits.processes) == (500, 32 << 20, 20)
    assert (limits.workspace_bytes, limits.log_bytes, limits.wall_seconds) == (2 << 20, 8 << 10, 77)


def test_as_many_gpus_go_in_as_are_asked_for() -> None:
    assert fitted().gpus == fitted(gpus=GPUS[:1]).gpus == GPUS[:1]
    assert spec_of(replace(FULL, gpus=0), POLICY, "task-1", GPUS, 77, Path("archive.tar")).gpus == ()
    with pytest.raises(UnfitProgramError, match=r"1 GPUs, .*has 0"):
        fitted(gpus=())


@pytest.mark.parametrize(
    ("means", "says"),
    [
        ({"outbound": False}, "asks for the network"),
        ({"cpu_thousandths": 499}, "cpu_thousandths"),
        ({"memory_bytes": (32 << 20) - 1}, "memory_bytes"),
        ({"disk_bytes": (2 << 20) - 1}, "workspace_bytes"),
        ({"processes": 19}, "processes"),
        ({"images": ()}, "is not on the provider's list"),
    ],
)
def test_what_the_policy_gives_less_of_is_not_run(means: dict[str, object], says: str) -> None:
    least: dict[str, object] = {
        "images": (REPOSITORY,), "outbound": True, "cpu_thousandths": 500, "memory_bytes": 32 << 20,
        "disk_bytes": 2 << 20, "processes": 20,
    }  # fmt: skip
    fitted(policy=ProgramMeans(**least).container_policy(GPUS))  # type: ignore[arg-type]  # whatever a case sets
    with pytest.raises(UnfitProgramError, match=says):
        fitted(policy=ProgramMeans(**{**least, **means}).container_policy(GPUS))  # type: ignore[arg-type]


def test_a_chain_that_has_little_to_say_ends_a_program_and_no_limit_before_it() -> None:
    assert seconds_of(15, 2_000) == 15 * 2 * 10 + 120
    assert seconds_of(1, 50) == 120, "a short lease has two minutes more too"


def test_an_end_that_nobody_knows_is_no_success() -> None:
    for code, stated in ((0, 0), (143, 143), (-1, UNKNOWN_EXIT)):
        assert result_of(ContainerEnd(EndReason.EXITED, code, 1.0), b"r" * 32, b"b" * 32).metric == stated


def test_what_is_stated_of_an_interval_is_for_how_many_seconds_a_gpu_worked() -> None:
    used = Usage(work_units=0, gpu_ms=61_999, energy_mj=0, cpu_ms=0, wall_ms=62_000, memory_peak_bytes=0)
    stated = interval_of(3, used)
    assert (stated.number, stated.metric) == (3, 61)
    assert stated.root != interval_of(3, replace(used, cpu_ms=1)).root
