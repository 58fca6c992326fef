import io
import tarfile
from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest

from gpu_tasks.provider.execution.containers.labels import Owner, owner_of
from gpu_tasks.provider.execution.containers.layout import copied_in, input_files, laid_in
from gpu_tasks.provider.execution.containers.refusals import ContainerRefusedError

pytest.importorskip("docker", reason="the library docker is not installed")

from error_codes import raises_code
from gpu_tasks.provider.execution.containers.networks import CLOSED_RANGES


def members(data: bytes) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return {member.name: member for member in archive}


def test_what_lies_in_a_container_and_whose_it_is(tmp_path: Path) -> None:
    (tmp_path / "data" / "deep").mkdir(parents=True)
    (tmp_path / "data" / "deep" / "x").write_bytes(b"12345")
    files = input_files({"data": tmp_path / "data", "a": b"abc"}, 100)
    data = b"".join(laid_in(("in", "out", "secrets", "workspace"), files, {"key": b"k"}))
    found = members(data)
    assert list(found) == [
        "in",
        "out",
        "secrets",
        "workspace",
        "in/a",
        "in/data",
        "in/data/deep",
        "in/data/deep/x",
        "secrets/key",
    ]
    assert {name: (member.uid, member.mode) for name, member in found.items() if name in {"in", "in/a", "out"}} == {
        "in": (0, 0o555),
        "in/a": (0, 0o444),
        "out": (65534, 0o700),
    }
    assert (found["secrets/key"].uid, found["secrets/key"].mode) == (65534, 0o400)
    assert list(members(b"".join(copied_in("workspace", files)))) == [
        "workspace/a",
        "workspace/data",
        "workspace/data/deep",
        "workspace/data/deep/x",
    ]


def test_links_and_devices_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc/passwd")
    for inputs in ({"a": tmp_path}, {"a": tmp_path / "link"}, {"a": Path("/dev/zero")}):
        with raises_code(ContainerRefusedError, "not_a_plain_file"):
            input_files(inputs, 100)


def test_a_file_that_became_a_link_or_shorter_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"12345")
    files = input_files({"x": path}, 100)
    path.write_bytes(b"123")
    with raises_code(ContainerRefusedError, "file_changed"):
        b"".join(laid_in(("in",), files, {}))
    path.unlink()
    path.symlink_to("/etc/passwd")
    with pytest.raises(OSError, match="symbolic"):
        b"".join(laid_in(("in",), files, {}))


def test_too_much(tmp_path: Path) -> None:
    with raises_code(ContainerRefusedError, "input_too_large"):
        input_files({"a": bytes(50), "b": bytes(51)}, 100)


def test_an_owner_is_drawn_once(tmp_path: Path) -> None:
    owner = owner_of(tmp_path / "new")
    assert owner_of(tmp_path / "new") == owner
    assert owner_of(tmp_path / "other") != owner
    assert (tmp_path / "new" / "container-owner").stat().st_mode & 0o777 == 0o600
    (tmp_path / "new" / "container-owner").write_text("x")
    with pytest.raises(ValueError, match="12 hexadecimal"):
        owner_of(tmp_path / "new")


def test_names_are_short_enough_and_differ() -> None:
    owner = Owner("0123456789ab")
    bridges = {owner.bridge(f"task-{number}") for number in range(1_000)}
    assert len(bridges) == 1_000
    assert all(len(bridge) <= 15 for bridge in bridges)
    assert owner.name_of("t-0", "out") == "ogpu-0123456789ab-t-0-out"


@pytest.mark.parametrize(
    ("address", "is_closed"),
    [
        ("169.254.169.254", True),
        ("127.0.0.1", True),
        ("10.0.0.1", True),
        ("172.17.0.1", True),
        ("172.32.0.1", False),
        ("192.168.1.1", True),
        ("100.100.100.200", True),
        ("192.0.0.192", True),
        ("224.0.0.251", True),
        ("255.255.255.255", True),
        ("0.0.0.0", True),
        ("9.9.9.9", False),
        ("1.1.1.1", False),
    ],
)
def test_closed_addresses(address: str, is_closed: bool) -> None:
    assert any(ip_address(address) in ip_network(closed) for closed in CLOSED_RANGES) == is_closed
