"""The policy's file: a running daemon's reaction to changes, and the mark of a draining one."""

from pathlib import Path

import pytest

from error_codes import raises_code
from gpu_tasks.provider.tasks.policy import BidPolicy, PolicyError, price_of
from gpu_tasks.provider.tasks.policy_file import (
    POLICY_BYTES_MAX,
    POLICY_FILE,
    PolicySource,
    is_draining,
    read_policy,
    set_draining,
    write_policy,
)

KINDS = ("train-int8",)
POLICY = BidPolicy(KINDS, price_of("0.5 oGPU/h"))


def test_a_daemon_goes_by_the_file_as_it_changes(tmp_path: Path) -> None:
    source = PolicySource(tmp_path, KINDS)
    assert source.policy() == BidPolicy()
    write_policy(tmp_path, POLICY)
    assert (source.policy(), source.problem) == (POLICY, "")
    (tmp_path / POLICY_FILE).write_text('{"kind": []}')
    assert source.policy() == BidPolicy()
    assert "did you mean kinds" in source.problem
    write_policy(tmp_path, POLICY)
    assert (source.policy(), source.problem) == (POLICY, "")
    (tmp_path / POLICY_FILE).unlink()
    assert source.policy() == BidPolicy()


def test_who_drains_bids_for_nothing(tmp_path: Path) -> None:
    write_policy(tmp_path, POLICY)
    source = PolicySource(tmp_path, KINDS)
    set_draining(tmp_path, drains=True)
    assert is_draining(tmp_path)
    assert source.policy() == BidPolicy()
    set_draining(tmp_path, drains=False)
    set_draining(tmp_path, drains=False)
    assert source.policy() == POLICY


@pytest.mark.parametrize(
    ("data", "reason"),
    [(b"\xff", "not UTF-8"), (b" " * (POLICY_BYTES_MAX + 1), "more than"), (b'{"kinds": ["x"]}', "there is no kind")],
)
def test_a_file_that_is_no_policy_is_named_with_its_reason(tmp_path: Path, data: bytes, reason: str) -> None:
    (tmp_path / POLICY_FILE).write_bytes(data)
    with pytest.raises(PolicyError, match=reason) as raised:
        read_policy(tmp_path, KINDS)
    assert POLICY_FILE in str(raised.value)


def test_a_folder_in_its_place_is_no_policy(tmp_path: Path) -> None:
    (tmp_path / POLICY_FILE).mkdir()
    with raises_code(PolicyError, "file_unreadable"):
        read_policy(tmp_path, KINDS)
