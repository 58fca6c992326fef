from dataclasses import fields, replace

import pytest

from gpu_tasks.provider.execution.containers.refusals import ContainerRefusedError
from gpu_tasks.provider.execution.containers.spec import (
    BOUNDS,
    ContainerLimits,
    ContainerPolicy,
    ContainerSpec,
    ImageArchive,
    ImageByDigest,
    NetworkAccess,
    check_spec,
)

POLICY = ContainerPolicy(images=("hub.example/a",), outbound=True, gpus=("GPU-1",))
SPEC = ContainerSpec("task-0", ImageByDigest("hub.example:5000/a/b", "0" * 64))


def changed(name: str, value: object) -> ContainerLimits:
    limits = ContainerLimits()
    object.__setattr__(limits, name, value)
    return limits


def test_a_plain_specification_passes() -> None:
    check_spec(SPEC, POLICY)
    check_spec(replace(SPEC, gpus=("GPU-1",), network=NetworkAccess.OUTBOUND), POLICY)


def test_each_limit_has_bounds_and_its_default_is_within() -> None:
    assert {limit.name for limit in fields(ContainerLimits)} == set(BOUNDS)
    check_spec(replace(SPEC, limits=ContainerLimits(**{name: least for name, (least, _) in BOUNDS.items()})), POLICY)
    check_spec(replace(SPEC, limits=POLICY.greatest), POLICY)


@pytest.mark.parametrize("name", BOUNDS)
def test_a_limit_out_of_its_bounds_is_refused(name: str) -> None:
    least, most = BOUNDS[name]
    for value in (least - 1, most + 1, 0, -1, True, float(least), None):
        with pytest.raises(ContainerRefusedError, match=name):
            check_spec(replace(SPEC, limits=changed(name, value)), POLICY)


@pytest.mark.parametrize("name", BOUNDS)
def test_the_provider_sets_the_greatest_limits(name: str) -> None:
    least, _ = BOUNDS[name]
    limits = ContainerLimits(**{limit: bounds[0] for limit, bounds in BOUNDS.items()})
    policy = replace(POLICY, greatest=limits)
    check_spec(replace(SPEC, limits=limits), policy)
    with pytest.raises(ContainerRefusedError, match=f"ask for {least} to {least}"):
        check_spec(replace(SPEC, limits=replace(limits, **{name: least + 1})), policy)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"container_id": "Task"}, "id"),
        ({"container_id": "../x"}, "id"),
        ({"container_id": "a" * 49}, "id"),
        ({"image": ImageByDigest("a:tag@x", "0" * 64)}, "repository"),
        ({"image": ImageByDigest("a/../b", "0" * 64)}, "repository"),
        ({"image": ImageByDigest("a", "latest")}, "SHA-256"),
        ({"image": ImageArchive(b"", "g" * 64)}, "SHA-256"),
        ({"command": ("a\0b",)}, "zero byte"),
        ({"command": ("a" * 70_000,)}, "longer"),
        ({"environment": {"LD_PRELOAD": "x"}}, "LD_PRELOAD"),
        ({"environment": {"ld_library_path": "x"}}, "how programs are"),
        ({"environment": {"NVIDIA_VISIBLE_DEVICES": "all"}}, "how programs are"),
        ({"environment": {"GLIBC_TUNABLES": "x"}}, "how programs are"),
        *(
            ({"environment": {name: "x"}}, "how programs are")
            for name in (
                "BASH_ENV",
                "bash_env",
                "ENV",
                "LOCPATH",
                "NLSPATH",
                "RES_OPTIONS",
                "HOSTALIASES",
                "TZDIR",
                "PROMPT_COMMAND",
                "DYLD_X",
                "GCONV_PATH",
                "MALLOC_PERTURB_",
                "CUDA_INJECTION64_PATH",
                "OCI_X",
                "DOCKER_HOST",
            )
        ),
        ({"environment": {"A=B": "x"}}, "variable"),
        ({"environment": {"A": "x\0"}}, "variable"),
        ({"environment": {f"A{number}": "" for number in range(257)}}, "257"),
        ({"environment": {"A": "x" * 70_000}}, "longer"),
        ({"secrets": {"../../etc/passwd": b""}}, "secrets"),
        ({"secrets": {".hidden": b""}}, "secrets"),
        ({"secrets": {"a": bytes(2**20 + 1)}}, "longer"),
        ({"secrets": {f"a{number}": b"" for number in range(65)}}, "65"),
        ({"inputs": {"a/b": b""}}, "inputs"),
        ({"inputs": {"a\n": b""}}, "inputs"),
        ({"gpus": ("GPU-2",)}, "GPU-2"),
        ({"gpus": ("all",)}, "all"),
        ({"gpus": ("GPU-1", "GPU-1")}, "repeated or too"),
    ],
)
def test_what_is_refused(change: dict[str, object], why: str) -> None:
    with pytest.raises(ContainerRefusedError, match=why):
        check_spec(replace(SPEC, **change), POLICY)  # type: ignore[arg-type]  # one field or another


def test_the_network_needs_the_policy_too() -> None:
    with pytest.raises(ContainerRefusedError, match="policy"):
        check_spec(replace(SPEC, network=NetworkAccess.OUTBOUND), replace(POLICY, outbound=False))


def test_a_refusal_says_what_why_and_what_next() -> None:
    with pytest.raises(ContainerRefusedError) as refused:
        check_spec(replace(SPEC, gpus=("GPU-2",)), POLICY)
    assert refused.value.what
    assert refused.value.why
    assert refused.value.then
    assert str(refused.value).startswith("run a container: GPU ")


def test_a_secret_is_in_no_text() -> None:
    spec = replace(SPEC, secrets={"key": b"hush"}, inputs={"data": b"hush"})
    assert "hush" not in repr(spec)
