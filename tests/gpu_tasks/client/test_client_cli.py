from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from gpu_tasks.client.cli import main
from gpu_tasks.tasks.offer_query import FIELDS

COMMANDS = (
    "post", "watch", "result", "cancel", "check", "plan", "schema", "search", "price", "services", "providers",
    "create-service", "close-service", "submit", "ps", "describe", "bids", "hold", "accept", "dispute", "amend",
    "close", "verify",
)  # fmt: skip
EXAMPLES = Path(__file__).parents[3] / "examples"
NOWHERE = ["--url", "ws://127.0.0.1:1"]


@pytest.fixture
def prompts(tmp_path: Path) -> str:
    path = tmp_path / "prompts"
    path.write_text("def f():\n")
    return str(path)


def test_help_names_every_command() -> None:
    answer = CliRunner().invoke(main, ["--help"])
    assert answer.exit_code == 0
    assert all(name in answer.output for name in COMMANDS)


def test_without_a_node_the_error_says_what_and_what_next(prompts: str) -> None:
    commands = (
        ["services"],
        ["providers"],
        ["search", "offers"],
        ["price"],
        ["plan", str(EXAMPLES / "minimal.yaml")],
        ["post", prompts, "--key", "//Bob"],
        ["result", "0x" + "00" * 32, "--key", "//Bob"],
        ["cancel", "0x" + "00" * 32, "--key", "//Bob"],
        ["close-service", "0", "--key", "//Bob"],
        ["submit", str(EXAMPLES / "minimal.yaml"), "--key", "//Bob", "--yes"],
        ["ps", "--key", "//Bob"],
        *([name, "0x" + "00" * 32] for name in ("describe", "bids", "verify")),
        *([name, "0x" + "00" * 32, "--key", "//Bob"] for name in ("accept", "dispute", "close", "hold")),
        ["amend", "0x" + "00" * 32, "--key", "//Bob", "--stop"],
    )
    for command in commands:
        answer = CliRunner().invoke(main, [*NOWHERE, *command])
        assert answer.exit_code == 2
        assert "no node answers at ws://127.0.0.1:1" in answer.output
        assert "start one, or give another --url" in answer.output
        assert "Traceback" not in answer.output


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--set", "temperature"], "'temperature' is not NAME=VALUE"),
        (["--set", "=1"], "'=1' is not NAME=VALUE"),
        (["--racers", "9"], "1<=x<=8"),
        (["--price", "1,5"], "not an amount"),
    ],
)
def test_options_that_are_none(prompts: str, options: list[str], why: str) -> None:
    answer = CliRunner().invoke(main, [*NOWHERE, "post", prompts, "--key", "//Bob", *options])
    assert answer.exit_code == 2
    assert why in answer.output


def test_the_shell_completes_what_is_searched_and_its_fields() -> None:
    complete = ShellComplete(main, {}, "ogpu", "_COMPLETE")

    def offered(*words: str) -> list[str]:
        return [item.value for item in complete.get_completions(["search", *words[:-1]], words[-1])]

    assert offered("") == ["offers"]
    assert offered("offers", "s") == ["service", "state", "since"]
    assert offered("offers", "class=cpu", "free") == ["free_bond"]
    assert set(offered("offers", "")) == set(FIELDS)
