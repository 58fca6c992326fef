"""The prompts of the demo, from a file of an untrusted author."""

from pathlib import Path

import pytest

from devnet.launcher.folder import DevnetError
from devnet.stage.actors import purchase


def test_prompts_are_repeated_when_there_are_too_few(tmp_path: Path) -> None:
    file = tmp_path / "prompts.txt"
    file.write_text("one\n\n  two\n")
    assert purchase.read_prompts(file, 5) == ["one", "  two", "one", "  two", "one"]
    assert purchase.read_prompts(file, 1) == ["one"]


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\xff\xfe"])
def test_a_file_without_prompts_is_said_to_be_one(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "prompts.txt"
    file.write_bytes(content)
    with pytest.raises(DevnetError, match="prompt"):
        purchase.read_prompts(file, 20)
    with pytest.raises(DevnetError, match="PROMPTS names a text file"):
        purchase.read_prompts(tmp_path / "nothing", 20)


def test_there_are_default_prompts_for_every_unit_of_the_demo() -> None:
    assert len(set(purchase.read_prompts(purchase.DEFAULT_PROMPTS, 20))) == 20


@pytest.mark.parametrize(
    ("text", "line"),
    [(None, ""), ("a\nb", "a⏎b"), ("\x1b[31mred\t", " [31mred "), ("x" * 60, "x" * 47 + "…")],
)
def test_a_text_is_shown_as_one_harmless_line(text: str | None, line: str) -> None:
    assert purchase.one_line(text) == line
