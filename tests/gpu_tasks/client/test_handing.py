"""Secrets as people name them: from the environment or from files, all that the task file names, and no others."""

from pathlib import Path

import click
import pytest

from gpu_tasks.client.commands.task_runs import named_secrets, secrets_of
from gpu_tasks.tunnel.frames import SECRETS_BYTES_MAX


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "of the environment")
    monkeypatch.delenv("PASSWORD", raising=False)


def test_values_come_from_the_environment_or_from_files(tmp_path: Path) -> None:
    (tmp_path / "key=1").write_bytes(b"\xff\n")
    assert secrets_of(["TOKEN", f"PASSWORD={tmp_path / 'key=1'}"]) == {
        "TOKEN": b"of the environment",
        "PASSWORD": b"\xff\n",
    }


def test_what_a_file_names_is_read_each_from_where_it_is_said_to_be(tmp_path: Path) -> None:
    (tmp_path / "password").write_bytes(b"p")
    words = [f"PASSWORD={tmp_path / 'password'}"]
    assert named_secrets(("TOKEN", "PASSWORD"), words) == {"TOKEN": b"of the environment", "PASSWORD": b"p"}
    assert named_secrets((), ()) == {}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["PASSWORD"], "no environment variable PASSWORD: set it, or name a file"),
        (["PASSWORD=/nowhere/at/all"], "PASSWORD cannot be read from /nowhere/at/all: No such file"),
    ],
)
def test_what_is_not_there_is_said(words: list[str], says: str) -> None:
    with pytest.raises(click.UsageError, match=says):
        secrets_of(words)


def test_secrets_that_no_task_file_names_are_refused() -> None:
    with pytest.raises(click.UsageError, match="names no secret 'OTHER'"):
        named_secrets(("TOKEN",), ["OTHER=x"])


@pytest.mark.parametrize(("size", "is_taken"), [(SECRETS_BYTES_MAX, True), (SECRETS_BYTES_MAX + 1, False)])
def test_secrets_are_short(tmp_path: Path, size: int, *, is_taken: bool) -> None:
    (tmp_path / "data").write_bytes(bytes(size))
    try:
        assert secrets_of([f"DATA={tmp_path / 'data'}"]) == {"DATA": bytes(size)}
        assert is_taken
    except click.UsageError as error:
        assert not is_taken
        assert "at most 65,536 bytes" in error.message  # noqa: PT017
