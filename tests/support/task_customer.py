"""A user of `ogpu` with tasks and files in the test's folder."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

from click.testing import CliRunner, Result

from cli import calls
from gpu_tasks.client.cli import main

OF_BOB = ["--key", "//Bob"]
UNKNOWN = "0x" + "ee" * 32


def ogpu(folder: Path, url: str, *words: str, typed: str | None = None, as_json: bool = True) -> Result:
    """Run a command. `typed` is the input of a user at the terminal."""
    env = {"OGPU_POSTINGS": str(folder / "postings"), "OGPU_CHECKPOINTS": str(folder / "checkpoints")}
    with patch.object(calls, "is_attended", lambda: typed is not None):
        options = ["--url", url, "--keyring", str(folder / "keys"), *(["--json"] if as_json else [])]
        return CliRunner(env=env).invoke(main, [*options, *words], input=typed)


def refusal(result: Result, code: int = 2) -> str:
    """Return the error message of a refused command."""
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result.stderr
