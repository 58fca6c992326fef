"""The documents speak of what is there: links lead somewhere, and named make targets exist."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\]\((?!https?://|#|mailto:)([^)#\s]+)")
COMMAND = re.compile(r"(?:`|^)(?:\./run|make) ([a-z]+)", re.MULTILINE)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_links_lead_to_files(document: Path) -> None:
    links = LINK.findall(document.read_text(encoding="utf-8"))
    assert [link for link in links if not (document.parent / link).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_named_make_targets_exist(document: Path) -> None:
    manual = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    targets = set(re.findall(r"^  ([a-z]+) ", manual, re.MULTILINE))
    assert set(COMMAND.findall(document.read_text(encoding="utf-8"))) <= targets


def test_every_decision_record_is_listed() -> None:
    folder = ROOT / "docs" / "adr"
    index = (folder / "README.md").read_text(encoding="utf-8")
    records = sorted(path.name for path in folder.glob("[0-9]*.md"))
    assert records
    assert [record for record in records if f"({record})" not in index] == []
