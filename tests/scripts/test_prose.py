"""The measures of clarity over small texts, and their bars over this tree."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from scripts.prose.__main__ import ROOT, by_kind, problems
from scripts.prose.code import measure_code
from scripts.prose.figures import BARS, Figures, faults, measure, sentence_lengths
from scripts.prose.texts import Kind, read_texts

SOURCE = '''"""A module's first line."""

NAME = 1
"""An attribute."""


@click.command()
@click.option("--key", help="Sign with this key.")
def send(key: str) -> None:
    """Send an amount."""
    # A peer may lie.
    raise ValueError(f"no key {key}: make one with `new`")  # noqa: EM102


def plain() -> str:
    """Return a word."""
    return "two words"
'''


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "wallet").mkdir()
    (tmp_path / "tests").mkdir()
    (tmp_path / "wallet" / "sending.py").write_text(SOURCE)
    (tmp_path / "tests" / "test_sending.py").write_text('"""Who is tested."""\n')
    subprocess.run("git init -q . && git add .", shell=True, cwd=tmp_path, check=True)
    return tmp_path


def test_each_text_has_a_kind_and_a_line(checkout: Path) -> None:
    found = [(text.kind, text.line, text.text) for text in read_texts(checkout)]
    assert found == [
        (Kind.TEST_DOCSTRING, 1, "Who is tested."),
        (Kind.DOCSTRING, 1, "A module's first line."),
        (Kind.DOCSTRING, 4, "An attribute."),
        (Kind.HELP, 8, "Sign with this key."),
        (Kind.HELP, 10, "Send an amount."),
        (Kind.COMMENT, 11, "A peer may lie."),
        (Kind.MESSAGE, 12, "no key X: make one with `new`"),
        (Kind.DOCSTRING, 16, "Return a word."),
    ]


def test_code_is_counted_without_its_texts(checkout: Path) -> None:
    figures = measure_code(checkout, ["wallet/sending.py"])
    assert (figures.code_lines, figures.comments_per_100) == (7, round(100 / 7, 2))
    assert figures.name_letters == round((len("NAME") + len("send") + len("key") + len("plain")) / 4, 2)


def test_measures() -> None:
    figures = measure(["Who is silent loses its bond.", "The provider loses its bond. " + "word " * 40])
    assert (figures.texts, figures.words, figures.headless_per_1000) == (2, 51, round(1000 / 51, 2))
    assert (figures.sentence_words, figures.long_percent) == (round((6 + 5 + 40) / 3, 1), round(100 / 3, 2))
    assert figures.question_percent == 50


def test_code_in_a_text_is_no_prose() -> None:
    assert faults("Run `who is there` and ```what is it``` again, [here](what/is.md).") == []
    assert sentence_lengths("One two three four. One.\n\n* a b c d") == [4, 5]


def test_the_texts_of_this_tree_keep_the_bars() -> None:
    assert problems(by_kind(read_texts(ROOT))) == []


NO_TEXTS = {kind.value: Figures(0, 0, 0, 0, 0, 0) for kind in Kind}
DOCSTRINGS = (Kind.DOCSTRING, Kind.TEST_DOCSTRING)


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("name", ["headless_per_1000", "sentence_words", "long_percent", "question_percent"])
def test_a_figure_above_its_bar_is_a_problem(kind: Kind, name: str) -> None:
    bar = getattr(BARS, name)
    at_bar, above = (
        NO_TEXTS | {kind.value: replace(NO_TEXTS[kind.value], **{name: value})} for value in (bar, bar + 0.1)
    )
    is_bound = kind in DOCSTRINGS or (kind is not Kind.COMMENT and name != "question_percent")
    assert (problems(at_bar), len(problems(above))) == ([], is_bound)
