"""The documents' references: links lead to existing pages, and named make targets exist."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\]\((?!https?://|#|mailto:)([^)#\s]+)")
COMMAND = re.compile(r"(?:`|^)(?:\./run|make) ([a-z]+)", re.MULTILINE)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_links_lead_to_files() -> None:
    assert DOCUMENTS
    dead = {name_of(document): [link for link in links_of(document) if not (document.parent / link).exists()]
            for document in DOCUMENTS}  # fmt: skip
    assert {name: links for name, links in dead.items() if links} == {}


def links_of(document: Path) -> list[str]:
    return LINK.findall(document.read_text(encoding="utf-8"))


def test_named_make_targets_exist() -> None:
    manual = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    targets = set(re.findall(r"^  ([a-z]+) ", manual, re.MULTILINE))
    named = {name_of(document): {*COMMAND.findall(document.read_text(encoding="utf-8"))} for document in DOCUMENTS}
    assert any(named.values())
    assert {name: wrong for name, found in named.items() if (wrong := found - targets)} == {}


def test_every_decision_record_is_listed() -> None:
    folder = ROOT / "docs" / "adr"
    index = (folder / "README.md").read_text(encoding="utf-8")
    records = sorted(path.name for path in folder.glob("[0-9]*.md"))
    assert records
    assert [record for record in records if f"({record})" not in index] == []
