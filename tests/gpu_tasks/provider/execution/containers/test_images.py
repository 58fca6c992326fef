import gzip
import hashlib
import io
import platform
import tarfile
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devnet.launcher.made_images import ImageFile, MadeImage, layer_of
from error_codes import raises_code
from gpu_tasks.provider.execution.containers.holder import holder_archive, program_for
from gpu_tasks.provider.execution.containers.image_archive import CheckedArchive, check_archive
from gpu_tasks.provider.execution.containers.image_rules import (
    check_allowed,
    check_config,
    check_platform,
    check_start,
)
from gpu_tasks.provider.execution.containers.refusals import ContainerError, ContainerRefusedError
from gpu_tasks.provider.execution.containers.spec import MIB, ContainerPolicy, ImageArchive, ImageByDigest

FILES = (ImageFile("bin"), ImageFile("bin/a", b"a" * 3_000), ImageFile("b", mode=0o777, link="bin/a"))
MACHINE = platform.machine()


def made(*files: ImageFile, **config: object) -> ImageArchive:
    return MadeImage((*FILES, *files), config).archive()


def checked(image: ImageArchive, size_max: int = MIB) -> CheckedArchive:
    assert isinstance(image.content, bytes)
    return check_archive(io.BytesIO(image.content), image.sha256, size_max, MACHINE)


def test_a_good_archive_is_written_anew_and_is_good_again() -> None:
    image = MadeImage(FILES, tags=("postgres:latest",)).archive()
    first = checked(image)
    again = b"".join(first.pieces())
    assert b"postgres" not in again
    assert checked(replace(image, content=again)).config == first.config
    with tarfile.open(fileobj=io.BytesIO(again)) as archive:
        assert archive.getnames() == [f"{image.sha256}.json", "0.tar", "manifest.json"]


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"Env": ["LD_PRELOAD=/x"]}, "loader_variable"),
        ({"Env": ["PATH=/bin", "LD_LIBRARY_PATH=/x"]}, "loader_variable"),
        ({"Env": ["NVIDIA_DRIVER_CAPABILITIES=all"]}, "loader_variable"),
        ({"Env": "LD_PRELOAD=/x"}, "invalid_image"),
        ({"Env": [1]}, "invalid_image"),
        ({"Env": ["A B=1"]}, "invalid_variable"),
        ({"Volumes": {"/x": {}}}, "image_volumes"),
        ({"Healthcheck": {"Test": ["CMD", "x"]}}, "image_health_check"),
        ({"Healthcheck": "x"}, "image_health_check"),
        ({"OnBuild": ["RUN x"]}, "image_triggers"),
        ({"Labels": {"org.ogpu.owner": "x"}}, "image_labels"),
        ({"Labels": ["org.ogpu.owner"]}, "image_labels"),
    ],
)
def test_configurations_that_are_refused(config: dict[str, object], why: str) -> None:
    with raises_code(ContainerRefusedError, why):
        check_config(config)
    with raises_code(ContainerRefusedError, why):
        checked(made(**config))


@pytest.mark.parametrize(
    ("config", "has_command", "why"),
    [
        ({}, False, "no_command"),
        ({"Cmd": [], "Entrypoint": None}, False, "no_command"),
        ({"WorkingDir": "/in/deeper"}, True, "read_only_workdir"),
        ({"WorkingDir": "secrets/../in/x"}, True, "read_only_workdir"),
    ],
)
def test_what_the_engine_would_bring_and_not_start_is_refused(
    config: dict[str, object], has_command: bool, why: str
) -> None:
    """Its provider would have to give the task up, for a quarter of the price."""
    with raises_code(ContainerRefusedError, why):
        check_start(config, has_command=has_command)


def test_what_the_engine_starts_passes() -> None:
    check_start({"WorkingDir": "/in"}, has_command=True)
    check_start({"Entrypoint": ["/bin/a"], "WorkingDir": ""}, has_command=False)
    check_start({"Cmd": ["/bin/a"], "WorkingDir": "/workspace/x"}, has_command=False)


def test_configurations_that_pass() -> None:
    check_config({})
    check_config({"Env": None, "Volumes": None, "Healthcheck": {"Test": ["NONE"]}, "OnBuild": [], "Labels": None})
    check_config({"Env": ["PATH=/bin", "CUDA_VERSION=12"], "Labels": {"maintainer": "x"}, "User": "root"})


def test_another_id_is_refused() -> None:
    with raises_code(ContainerRefusedError, "other_image_id"):
        checked(replace(made(), sha256="0" * 64))


def test_another_machine_is_refused() -> None:
    with raises_code(ContainerRefusedError, "other_platform"):
        check_platform("linux", "amd64", "aarch64")
    with raises_code(ContainerRefusedError, "other_platform"):
        check_platform("windows", "amd64", "x86_64")
    check_platform("linux", "amd64", "x86_64")


def test_a_packed_layer_is_refused() -> None:
    for image in (
        MadeImage(FILES).archive(is_packed=True),
        MadeImage(FILES).archive(is_packed=True, layer=bytes(8 * MIB)),
        MadeImage(FILES).archive(layer=gzip.compress(layer_of(FILES))),
    ):
        with pytest.raises(ContainerRefusedError):
            checked(image)


def test_a_layer_of_other_bytes_is_refused() -> None:
    image = made()
    assert isinstance(image.content, bytes)
    other = image.content.replace(b"a" * 3_000, b"b" * 3_000)
    assert other != image.content
    with raises_code(ContainerRefusedError, "other_layer"):
        checked(replace(image, content=other))


def test_bytes_and_files_count_towards_the_limit() -> None:
    checked(made(), 10_000)
    with raises_code(ContainerRefusedError, "image_too_large"):
        checked(made(), 3_000)
    empty = [ImageFile(f"e{number}", b"") for number in range(100)]
    with raises_code(ContainerRefusedError, "image_too_large"):
        checked(made(*empty), 10_000)


def test_bytes_of_a_layer_that_are_no_file_are_bounded() -> None:
    """They count as nothing, and a manifest may name one layer 128 times: 8 MB became a gibibyte for the engine."""
    layer = layer_of(FILES)
    checked(MadeImage(FILES).archive(layer=layer + bytes(60 * 1024)))
    with raises_code(ContainerRefusedError, "uncounted_bytes"):
        checked(MadeImage(FILES).archive(layer=layer + bytes(MIB)))


@given(st.data())
def test_a_damaged_archive_is_good_or_refused(data: st.DataObject) -> None:
    image = made()
    assert isinstance(image.content, bytes)
    content = bytearray(image.content)
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.sampled_from([len(content), data.draw(st.integers(0, len(content)))]))
    try:
        archive = check_archive(io.BytesIO(bytes(content[:cut])), image.sha256, MIB, MACHINE)
    except ContainerRefusedError:
        return
    assert hashlib.sha256(archive.config).hexdigest() == image.sha256


@pytest.mark.parametrize(
    "manifest", [b"", b"{}", b"[]", b"[1]", b"[{}]", b"[" * 10_000, b'[{"Config": 1, "Layers": 2}]']
)
def test_a_manifest_that_is_none(manifest: bytes) -> None:
    content = layer_of([ImageFile("manifest.json", manifest)])
    with pytest.raises(ContainerRefusedError):
        check_archive(io.BytesIO(content), "0" * 64, MIB, MACHINE)


def test_the_providers_list() -> None:
    image, archive = ImageByDigest("hub/a", "1" * 64), ImageArchive(b"", "2" * 64)
    for policy in (ContainerPolicy(images=("hub/a",)), ContainerPolicy(images=(f"hub/a@sha256:{'1' * 64}",))):
        check_allowed(image, policy)
        with raises_code(ContainerRefusedError, "image_not_listed"):
            check_allowed(replace(image, repository="hub/ab"), policy)
        with raises_code(ContainerRefusedError, "image_not_listed"):
            check_allowed(archive, policy)
    with raises_code(ContainerRefusedError, "image_not_listed"):
        check_allowed(replace(image, sha256="3" * 64), ContainerPolicy(images=(f"hub/a@sha256:{'1' * 64}",)))
    check_allowed(archive, ContainerPolicy(images=(f"sha256:{'2' * 64}",)))
    check_allowed(archive, ContainerPolicy(any_archive=True))


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_holder_is_an_image_like_others_and_the_same_everywhere(machine: str) -> None:
    content, sha256 = holder_archive(machine)
    assert check_archive(io.BytesIO(content), sha256, MIB, machine).size < 4_096
    assert holder_archive(machine) == (content, sha256)


def test_the_holders_program() -> None:
    program = program_for("x86_64")
    assert len(program) == 129
    assert program.startswith(b"\x7fELF")
    with raises_code(ContainerError, "unknown_machine"):
        program_for("riscv64")
