"""The demo itself: real nodes, providers, wallet and customer; a cheat among them."""

import json
from pathlib import Path

import pytest

from devnet.demo import __main__ as demo
from runtime.cryptography.hashing import blake2_256

pytestmark = [pytest.mark.e2e, pytest.mark.nightly]


def test_the_demo_holds_every_bar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.txt").write_text("def one():\nimport two\nclass Three:\n")
    words = ["--any-ports", "--prompts", "mine.txt", "--folder", str(tmp_path / "net")]
    assert demo.main(words) == 0
    report = json.loads((tmp_path / "out" / "demo.json").read_text())
    assert [unit["prompt"] for unit in report["units"][:4]] == [
        "def one():",
        "import two",
        "class Three:",
        "def one():",
    ]
    for unit in report["units"]:
        assert unit["completion_hash"] == "0x" + blake2_256(unit["completion"].encode()).hex()
        assert unit["attestation_block"] <= unit["block"]
    assert {slash["provider"] for slash in report["slashes"]} == {"Eve"}
    assert report["poll"]["votes"] == demo.SAMPLE
    assert len(report["poll"]["drawn"]) < report["poll"]["validators"] == demo.SEATS
    assert 1 <= report["poll"]["answered"] == report["poll"]["asked"] <= demo.SAMPLE
    assert report["election"]["candidate"] in report["election"]["sitting"]
    assert report["container"].get("provider") == "Charlie" or report["container"]["left_out"]
