"""The prompts of the demo, from a file of an untrusted author, and the records of its purchases."""

import json
from pathlib import Path

import pytest

from devnet.launcher.folder import DevnetError
from devnet.launcher.layout import Devnet
from devnet.stage.actors import purchase
from devnet.stage.network import Stage
from devnet.stage.report import Narrator


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


def test_the_records_of_a_purchase_end_with_its_devnet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The next devnet is the same chain to a record, and would be taken for a second try of the purchase."""
    stage, typed = Stage(Devnet(tmp_path, ()), Narrator(1)), list[tuple[str, ...]]()
    stage.devnet.purchases.mkdir()
    out, prompts = stage.devnet.purchases / "answers.jsonl", tmp_path / "elsewhere.txt"
    prompts.write_text("one\n")

    def ogpu(_: Stage, command: str, *words: str, **__: object) -> str:
        typed.append((command, *words))
        out.write_text('{"index": 0, "text": "two"}\n')
        return json.dumps({"unit": "0x01"})

    monkeypatch.setattr(Stage, "ogpu", ogpu)
    monkeypatch.setattr(Stage, "next_height", lambda _: 7)
    assert purchase.buy_answers(stage, prompts, out).texts == ["two"]
    posted = typed[0]
    assert posted[posted.index("--postings") + 1] == str(stage.devnet.purchases / "postings")
    words = purchase.post_arguments(purchase.write_prompts(stage, "prompts", ["one"]))
    assert words[words.index("--postings") + 1] == str(stage.devnet.purchases / "postings")
