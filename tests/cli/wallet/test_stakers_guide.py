"""`docs/stakers.md`, command by command, on a real node: somebody stakes by the page alone, and sees a first reward."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import click
import pytest
from click.testing import CliRunner, Result

from cli import calls
from cli.wallet.program import main
from devnet.launcher.free_ports import one_free_port
from genesis import chain as genesis_chain
from genesis import dev_accounts, parameters
from node_process import NodeProcess, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.nightly]

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "stakers.md"
FENCED = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EPOCH_BLOCKS = 4
PASSWORD = "a password"
PATIENCE = 300  # seconds, as long as it may take on a machine that does much else
STAKING = {
    "stake", "unstake", "delegate", "redelegate", "undelegate", "rewards", "withdraw", "stakes", "validators",
    "candidates", "history", "validate", "chill", "commission", "profile",
}  # fmt: skip
REFUSED = "# refused"
AGAIN = "# again until"


def lines_of_page() -> list[str]:
    """Return the lines that a reader types, in order, with comments."""
    return [line for block in FENCED.findall(PAGE.read_text(encoding="utf-8")) for line in block.splitlines()]


@pytest.fixture
def short_eras(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An epoch of seconds, in this process as in those of the node: it is no number of a chain specification."""
    short = replace(parameters.CONSENSUS["devnet"], epoch_blocks=EPOCH_BLOCKS)
    monkeypatch.setitem(parameters.CONSENSUS, "devnet", short)
    monkeypatch.setenv("EPOCH_BLOCKS", str(EPOCH_BLOCKS))
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "tests" / "support" / "short_eras"))
    made = (genesis_chain.runtime_for, genesis_chain.apis_for)
    for cached in made:
        cached.cache_clear()
    yield
    for cached in made:
        cached.cache_clear()


def typed_for(words: list[str]) -> str:
    """Return the answers at the prompts of a command."""
    match words[0]:
        case "new":
            return f"{PASSWORD}\n{PASSWORD}\n"
        case "import":
            return f"//Dave\n{PASSWORD}\n{PASSWORD}\n"
        case _:
            return f"y\n{PASSWORD}\n"


class Reader:
    """Somebody who has the page, a terminal, and nothing else."""

    def __init__(self, folder: Path, url: str) -> None:
        self.environment = {"OGPU_URL": url, "OGPU_KEYRING": str(folder / "keys")}
        self.seen: list[tuple[str, Result]] = []
        self.reward_seconds = 0

    def do(self, line: str) -> None:
        """One line of the page, once, or until what its comment says."""
        if AGAIN in line:
            wait_for(lambda: self._is_there(line), PATIENCE)
            return
        result = self._run(line)
        assert result.exit_code == (1 if REFUSED in line else 0), (line, result.output)

    def _is_there(self, line: str) -> bool:
        result = self._run(line)
        return result.exit_code == 0 and " oGPU" in result.stdout

    def _run(self, line: str) -> Result:
        program, *words = shlex.split(line, comments=True)
        assert program == "ogpu-wallet"
        with patch.object(calls, "is_attended", lambda: True):
            result = CliRunner().invoke(main, words, input=typed_for(words), env=self.environment)
        self.seen.append((words[0], result))
        return result


def test_the_page_leads_to_a_first_reward_and_out_again(
    tmp_path: Path, short_eras: None, capsys: pytest.CaptureFixture[str]
) -> None:
    first, *lines = lines_of_page()
    port = one_free_port()
    node = NodeProcess(tmp_path, "dev", *shlex.split(first)[1:], "--rpc-port", str(port))
    begun = time.monotonic()
    try:
        node.start()
        wait_for(lambda: "rpc listening" in node.log.read_text(errors="replace"), PATIENCE)
        reader = Reader(tmp_path, f"ws://127.0.0.1:{port}")
        for line in lines:
            reader.do(line)
            if AGAIN in line and "rewards savings " in line and not reader.reward_seconds:
                reader.reward_seconds = round(time.monotonic() - begun)
        with capsys.disabled():
            click.echo(
                f"\nby the page alone: a first reward after {reader.reward_seconds} s, "
                f"all {len(reader.seen)} commands after {time.monotonic() - begun:.0f} s"
            )
    finally:
        with suppress(ProcessLookupError):
            node.close()
    assert {name for name, _ in reader.seen} >= STAKING
    history, sheet = [result for name, result in reader.seen if name == "history"]
    assert sheet.stdout.startswith("time_utc,block,kind,")
    for word in ("delegated", "was paid rewards", "100 oGPU"):
        assert word in history.stdout
    sent = [result for name, result in reader.seen if "success" in result.stdout and "yes" in result.stdout]
    assert len(sent) >= 14


def test_the_page_shows_every_command_about_stake() -> None:
    assert set(main.commands) >= STAKING
    assert {shlex.split(line, comments=True)[1] for line in lines_of_page()[1:]} >= STAKING


def test_the_keys_of_the_page_are_those_that_it_names() -> None:
    (line,) = [line for line in lines_of_page() if " validate " in line]
    assert shlex.split(line)[2:4] == ["//Bob", "0x" + dev_accounts.key("Bob", dev_accounts.PROVIDER).hex()]
