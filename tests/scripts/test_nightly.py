"""A nightly run continues after a failure, repeats by its seed, and its last line lists the run and skipped steps."""

import re
from pathlib import Path

import pytest

from scripts import nightly

ROOT = Path(__file__).parents[2]
NOT_OF_A_NIGHT = set(
    "help setup devnet test check static lint types format quick nightly bench weights ladder peers house prose lock "
    "clean".split()
)
"""Targets that serve people, or measure without a verdict."""


def test_every_target_that_proves_something_is_a_part() -> None:
    (phony,) = re.findall(r"^\.PHONY: (.*)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert set(phony.split()) - NOT_OF_A_NIGHT == set(nightly.PARTS)
    assert set(nightly.NEEDS) <= set(nightly.PARTS)


def test_the_last_line_and_the_exit_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("Makefile").write_text("good last:\n\t@echo $(SEED) $(FIRST)\nbad:\n\t@exit 3\nslow:\n\t@sleep 60\n")
    monkeypatch.setattr(nightly, "PARTS", "good bad slow needy other last".split())
    monkeypatch.setattr(nightly, "NEEDS", {"needy": lambda: "no engine", "good": lambda: ""})
    assert nightly.main(["good", "bad", "needy", "last", "--seed", "7"]) == 1
    *_, line = capsys.readouterr().out.splitlines()
    assert line.startswith("nightly: ran good last bad with SEED=7 in ")
    assert line.endswith("; failed: bad; left out: needy (no engine); not chosen: slow other")
    assert Path("out/nightly/last.log").read_text() == "7 7\n"
    assert nightly.main(["good"]) == 0
    monkeypatch.setattr(nightly, "PART_SECONDS", 0)
    assert nightly.run(["slow"], 7, tmp_path).failed == ["slow"]
    with pytest.raises(SystemExit):
        nightly.main(["unheard"])
