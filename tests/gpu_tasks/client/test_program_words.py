"""`ogpu run` and `ogpu shell`: where their own options end, and what an unknown one is taken for."""

from __future__ import annotations

import shlex

import click
import pytest
from click.testing import CliRunner

from converted import IMAGE
from gpu_tasks.client.cli import main
from gpu_tasks.client.commands.calls import this_command
from gpu_tasks.client.commands.run import run
from gpu_tasks.client.commands.shell import shell

RUN = ["--key", "//Bob", "--image", IMAGE, "--max-price", "2 oGPU"]
TASK = "0x" + "ab" * 32


def parsed(command: click.Command, *words: str) -> dict[str, object]:
    """What a command line comes to, without being carried out."""
    return command.make_context("x", list(words)).params


@pytest.mark.parametrize(
    ("words", "unknown", "meant"),
    [
        (["--memroy", "16Gi", "--", "python"], "--memroy", "--memory"),
        (["--tiem", "2h", "--gpu", "any", "--", "python"], "--tiem", "--time"),
        (["--memroy=16Gi", "python"], "--memroy", "--memory"),
        (["--gpus", "all", "--", "python"], "--gpus", "--gpu any"),
        (["--gpus=all", "python"], "--gpus", "--gpu any"),
        (["-e", "A=b", "--", "python"], "-e", "--env"),
        (["-eA=b", "python"], "-e", "--env"),
        (["-it", "--rm", "--", "bash"], "-i", "ogpu shell"),
        (["--rm", "bash"], "--rm", "leave it out"),
        (["-v", "./a:/b", "bash"], "-v", "--in"),
        (["--gpu", "any", "-x", "bash"], "-x", ""),
    ],
)
@pytest.mark.parametrize("also", [[], ["--yes", "--anyway", "--dry-run"]])
def test_an_unknown_option_is_no_word_of_the_program(
    words: list[str], unknown: str, meant: str, also: list[str]
) -> None:
    refused = CliRunner().invoke(main, ["run", *RUN, *also, *words])
    assert refused.exit_code == 2
    assert unknown in refused.stderr
    assert meant in refused.stderr


@pytest.mark.parametrize("between", [[], ["--"]])
def test_behind_its_first_word_everything_is_the_programs(between: list[str]) -> None:
    program = ["python", "--memroy", "x", "-e", "--key", "//Eve", "--", "--yes", "-it"]
    found = parsed(run, *RUN, "--memory", "1Gi", *between, *program)
    assert found["command"] == tuple(program)
    assert (found["memory"], found["key_text"], found["yes"]) == ("1Gi", "//Bob", False)
    assert parsed(run, *RUN, "--", "--gpus", "all")["command"] == ("--gpus", "all")
    assert parsed(run, *RUN)["command"] == ()


@pytest.mark.parametrize(
    "words",
    [
        ["--key", "//Bob", TASK, "ls", "-la", "--key"],
        [TASK, "--key", "//Bob", "ls", "-la", "--key"],
        [TASK, "--key=//Bob", "--", "ls", "-la", "--key"],
        ["--key", "//Bob", TASK, "--", "ls", "-la", "--key"],
    ],
)
def test_a_shells_options_stand_around_its_task(words: list[str]) -> None:
    found = parsed(shell, *words)
    assert (found["task"], found["key_text"], found["command"]) == (TASK, "//Bob", ("ls", "-la", "--key"))


@pytest.mark.parametrize("words", [["--no-tyt", TASK, "ls"], [TASK, "--no-tyt", "ls"], [TASK, "-it", "--", "bash"]])
def test_a_shells_unknown_option_is_refused(words: list[str]) -> None:
    with pytest.raises(click.NoSuchOption):
        parsed(shell, "--key", "//Bob", *words)


def test_the_command_to_go_on_with_buys_nothing_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    program = ["--", "prog", "--again"]
    monkeypatch.setattr("sys.argv", ["ogpu", "run", *RUN, "--again", *program])
    with run.make_context("run", [*RUN, "--again", *program]):
        assert this_command() == shlex.join(["ogpu", "run", *RUN, *program])
