"""A library that does not run here is named, and the benchmark continues without it."""

import sys
from pathlib import Path

import pytest

from benchmarks.peers import __main__


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(__main__, "PROGRAMS", tmp_path)
    monkeypatch.setattr(__main__, "LIBRARIES", {"Ledger": ("ledger.py", "3")})
    return tmp_path / "ledger.py"


def test_figures_are_the_last_line(program: Path) -> None:
    program.write_text("import sys\nprint('hello')\nprint('{\"cpu_us\": ' + sys.argv[1] + '}')\n", encoding="utf-8")
    assert __main__.measure_libraries(Path(sys.executable)) == {"Ledger": {"cpu_us": 3}}


def test_a_library_that_is_not_installed_is_named(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program.write_text("import a_ledger_that_nobody_wrote\n", encoding="utf-8")
    reason = "ModuleNotFoundError: No module named 'a_ledger_that_nobody_wrote'"
    assert __main__.measure_libraries(Path(sys.executable)) == {"Ledger": {"not run": reason}}
    assert capsys.readouterr().out == f"Ledger NOT RUN: {reason}\n"


def test_a_failure_without_a_word_is_named_too(program: Path) -> None:
    program.write_text("import os\nos._exit(3)\n", encoding="utf-8")
    assert __main__.measure_libraries(Path(sys.executable)) == {"Ledger": {"not run": "it ended with status 3"}}


@pytest.mark.usefixtures("program")
def test_an_environment_that_is_not_there_is_named() -> None:
    assert __main__.measure_libraries(Path("/no/python")) == {"Ledger": {"not run": "there is no /no/python"}}
