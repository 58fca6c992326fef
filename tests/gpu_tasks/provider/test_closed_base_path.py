"""A daemon's files are readable by its operator alone, and no core dump has its key."""

from __future__ import annotations

import resource
import stat
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import AsyncMock

import pytest
from click.testing import CliRunner

from gpu_tasks.provider.cli import main
from gpu_tasks.provider.commands import run
from gpu_tasks.provider.commands.options import why_open
from gpu_tasks.provider.journal.schema import JOURNAL_FILE
from provider_runner import Operator
from wallet_runner import chain

JOIN = ["register", "--yes", "--key", "//Eve", "--bond", "1000", "--device-bond", "100", "--node-keys", "//Eve"]


@pytest.fixture
def eve(tmp_path: Path) -> Iterator[Operator]:
    (tmp_path / "chain").mkdir()
    with chain(tmp_path / "chain") as url:
        yield Operator(tmp_path, url, "Eve")


def test_nobody_else_reads_the_base_path(eve: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_until_stopped", AsyncMock(return_value=None))
    base = eve.folder / "Eve"
    base.mkdir(mode=0o755)
    eve.answer(*JOIN)
    for _ in range(2):
        ran = eve.run("run", "--blob-port", "0")
        assert ran.exit_code == 0, ran.output
    assert "open_base_path" not in (base / "telemetry.jsonl").read_text()
    found = {path: stat.S_IMODE(path.stat().st_mode) for path in (base, *base.rglob("*"))}
    assert {mode for path, mode in found.items() if path.is_dir()} == {0o700}
    assert {mode for path, mode in found.items() if path.is_file()} == {0o600}


@pytest.mark.parametrize(("is_used", "mode"), [(False, 0o755), (True, 0o700)])
def test_only_a_used_base_path_is_closed(tmp_path: Path, *, is_used: bool, mode: int) -> None:
    tmp_path.chmod(0o755)
    if is_used:
        (tmp_path / JOURNAL_FILE).touch()
    assert why_open(tmp_path) is None
    assert tmp_path.stat().st_mode & 0o777 == mode


def test_a_base_path_that_all_share_is_said_and_left_as_it_is(eve: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_until_stopped", AsyncMock(return_value=None))
    eve.answer(*JOIN)
    base = eve.folder / "Eve"
    base.chmod(0o1777)
    for _ in range(2):
        assert eve.run("run", "--blob-port", "0").exit_code == 0
    assert stat.S_IMODE(base.stat().st_mode) == 0o1777
    assert "open_base_path" in (base / "telemetry.jsonl").read_text()


def test_no_command_leaves_a_core_dump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, tuple[int, int]]] = []
    monkeypatch.setattr(resource, "setrlimit", lambda *words: asked.append(words))
    assert CliRunner().invoke(main, ["--base-path", str(tmp_path / "new" / "base"), "devices"]).exit_code == 0
    assert (resource.RLIMIT_CORE, (0, 0)) in asked
