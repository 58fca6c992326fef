"""Named files are read up to a limit, and a pipe or a folder is refused at once."""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from error_codes import ended_code, raises_code
from gpu_tasks.client.cli import main
from gpu_tasks.client.input_files import InputFileError, read_input
from gpu_tasks.client.tasks.orders import ImageFileError, look_at_image


def test_a_file_is_read_up_to_one_byte_more_than_its_limit(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    assert [read_input(tmp_path / "file", most) for most in (1, 2, 3)] == [b"ab", b"abc", b"abc"]


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    """A named pipe without a writer: a plain `open` waits for one for ever."""
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


def test_what_is_no_plain_file_is_refused(pipe: Path) -> None:
    for path, code in ((pipe, "not_a_file"), (pipe.parent, "not_a_file"), (pipe.parent / "none", "file_unreadable")):
        with raises_code(InputFileError, code):
            read_input(path, 1)
    with raises_code(ImageFileError, "not_a_file"):
        look_at_image(pipe, bytes(32))


@pytest.mark.parametrize(
    "words",
    [
        ["task", "check", "PIPE"],
        ["task", "plan", "PIPE"],
        ["task", "submit", "PIPE", "--key", "//Bob"],
        ["task", "convert", "PIPE", "--max-price", "1"],
        ["run", "--image", f"a@sha256:{'0' * 64}", "--max-price", "1", "--in", "PIPE", "--key", "//Bob", "--", "ls"],
    ],
)
def test_a_command_does_not_wait_for_a_pipe(pipe: Path, words: list[str]) -> None:
    given = [str(pipe) if word == "PIPE" else word for word in words]
    assert ended_code(CliRunner().invoke(main, ["--json", *given])) == "not_a_file"
