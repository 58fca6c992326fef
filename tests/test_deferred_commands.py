"""Every command line prints its help without loading its commands, with the same text as they have."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from cli.deferred import DeferredCommand
from cli.wallet.program import main as ogpu_wallet
from devnet.launcher.cli import ogpu_devnet
from gpu_tasks.client.cli import main as ogpu
from gpu_tasks.provider.cli import main as ogpu_provider
from node.cli import ogpu_node

ROOT = Path(__file__).parent.parent
PROGRAMS: dict[str, click.Group] = {
    "ogpu": ogpu,
    "ogpu-provider": ogpu_provider,
    "ogpu-wallet": ogpu_wallet,
    "ogpu-node": ogpu_node,
    "ogpu-devnet": ogpu_devnet,
}
MODULES = {
    "ogpu": "gpu_tasks.client.cli",
    "ogpu-provider": "gpu_tasks.provider.cli",
    "ogpu-wallet": "cli.wallet.program",
    "ogpu-node": "node.cli",
    "ogpu-devnet": "devnet.launcher.cli",
}
HEAVY = (
    "aiohttp", "asyncio", "genesis.chain", "importlib.metadata", "libp2p", "msgpack", "nacl", "numpy", "plyvel", "rich",
    "runtime", "runtime.frame.pallet", "trio", "wallet.client", "wallet.keyring", "websockets",
)  # fmt: skip
TERMINAL_WIDTHS = (40, 80, 1_000)


def loaded_by(module: str, *words: str, **completion: str) -> set[str]:
    """The heavy modules that a program has imported when it ends, in a process of its own."""
    code = (
        f"import runpy, sys\nsys.argv = {['program', *words]!r}\n"
        f"try:\n    runpy.run_module({module!r}, run_name='__main__')\n"
        f"except SystemExit as end:\n    code = end.code or 0\n"
        f"print(code, *[name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=ROOT, capture_output=True, text=True, check=True, env={"PATH": "/usr/bin:/bin", **completion},
    )  # fmt: skip
    status, *names = done.stderr.split()
    assert status == "0", done.stderr
    assert done.stdout
    return set(names)


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_help_of_a_program_imports_nothing_heavy(program: str) -> None:
    assert loaded_by(MODULES[program], "--help") == set()


def test_what_counts_as_heavy_is_seen_where_a_command_needs_it() -> None:
    """The measure itself: `send --help` imports the command and with it the rules of the chain."""
    assert loaded_by("cli.wallet.program", "send", "--help") >= {"genesis.chain", "rich", "websockets"}


def test_keys_need_no_chain(tmp_path: Path) -> None:
    assert "genesis.chain" not in loaded_by("cli.wallet.program", "--keyring", str(tmp_path), "--json", "list")


def test_the_shell_completes_names_of_commands_without_importing_them() -> None:
    asked = {"COMP_WORDS": "program se", "COMP_CWORD": "1", "_PROGRAM_COMPLETE": "bash_complete"}
    assert loaded_by("cli.wallet.program", **asked) == set()


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_shell_completes_commands_and_their_options(program: str) -> None:
    complete = ShellComplete(PROGRAMS[program], {}, program, "_COMPLETE")
    names = [item.value for item in complete.get_completions([], "")]
    assert sorted(names) == sorted(PROGRAMS[program].commands)
    for name, command in PROGRAMS[program].commands.items():
        assert isinstance(command, DeferredCommand)
        own = [option for parameter in command.load().params for option in parameter.opts if option.startswith("--")]
        offered = {item.value for item in complete.get_completions([name], "--")}
        assert set(own) <= offered


def test_the_shell_completes_commands_of_a_command() -> None:
    complete = ShellComplete(ogpu_node, {}, "ogpu-node", "_COMPLETE")
    assert [item.value for item in complete.get_completions(["key"], "generate-")] == ["generate-node-key"]


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_stand_in_says_what_its_command_says(program: str) -> None:
    assert PROGRAMS[program].commands
    for name, stand_in in PROGRAMS[program].commands.items():
        assert isinstance(stand_in, DeferredCommand)
        command = stand_in.load()
        assert command.name == name
        for width in TERMINAL_WIDTHS:
            assert stand_in.get_short_help_str(width) == command.get_short_help_str(width)


def test_a_command_of_another_place_is_an_error_of_ours() -> None:
    with pytest.raises(AttributeError):
        DeferredCommand("send", "cli.wallet.money:nothing", "").load()
    assert import_module("cli.wallet.money").send is DeferredCommand("send", "cli.wallet.money:send", "").load()


@pytest.mark.parametrize(
    ("program", "command", "option"),
    [
        ("ogpu", "services", "--url"),
        ("ogpu-provider", "status", "--url"),
    ],
)
def test_an_option_of_the_program_behind_its_command_is_shown_its_place(
    program: str, command: str, option: str
) -> None:
    refused = CliRunner().invoke(PROGRAMS[program], [command, option], prog_name=program)
    assert refused.exit_code == 2
    assert f"{option} stands before the command: {program} {option} … {command}" in refused.stderr
    unknown = CliRunner().invoke(PROGRAMS[program], [command, "--jsonn"], prog_name=program)
    assert "No such option" in unknown.stderr
