"""`ogpu-provider` in the test's process, on the chain of `wallet_runner`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from gpu_tasks.provider.cli import main


class Operator:
    """A user at the command line of one provider, without passwords for key files."""

    def __init__(self, folder: Path, url: str, name: str) -> None:
        self.folder = folder
        self.options = ["--url", url, "--provider-key", f"//{name}//provider", "--base-path", str(folder / name)]
        self.name = name

    def run(self, *arguments: str, as_json: bool = True, typed: str = "") -> Result:
        """Return the result of a command with this typed input."""
        options = [*self.options, *(["--json"] if as_json else [])]
        return CliRunner(env={"OGPU_KEYRING": str(self.folder / "keys")}).invoke(
            main, [*options, *arguments], input=typed
        )

    def answer(self, *arguments: str) -> Any:
        """Return the JSON of a successful command."""
        result = self.run(*arguments)
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    def refusal(self, *arguments: str, code: int = 2) -> str:
        """The text of the error that ends a command with this exit code."""
        return str(self._error(arguments, code)["error"])

    def refused_code(self, *arguments: str, code: int = 2) -> str:
        """The code of the error that ends a command with this exit code."""
        return str(self._error(arguments, code)["code"])

    def _error(self, arguments: Sequence[str], exit_code: int) -> dict[str, Any]:
        result = self.run(*arguments)
        assert result.exit_code == exit_code, result.output
        error: dict[str, Any] = json.loads(result.stderr.splitlines()[-1])
        assert error["exit_code"] == exit_code
        return error
