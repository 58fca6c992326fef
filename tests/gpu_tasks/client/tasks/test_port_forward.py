"""`ogpu port-forward` ends with Ctrl-C, as its help says, and that is no failure."""

import pytest
from click.testing import CliRunner

from gpu_tasks.client.cli import main
from gpu_tasks.client.commands import shell


def test_ctrl_c_is_how_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    def until_then(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(shell, "_enter", until_then)
    answer = CliRunner().invoke(main, ["port-forward", "0x" + "12" * 32, "8080:80", "--key", "//Bob"])
    assert (answer.exit_code, answer.output) == (0, "")
