"""Help and completion import declarations alone, and every declared command has a body that takes its options."""

import inspect
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from cli import deferred
from cli.deferred import loaded
from cli.wallet.program import main as ogpu_wallet
from devnet.launcher.cli import ogpu_devnet
from gpu_tasks.client.cli import SHORT_FORMS
from gpu_tasks.client.cli import main as ogpu
from gpu_tasks.market.devices.records import QUEUE_MAX
from gpu_tasks.provider.blobs.server import DEFAULT_HOST, DEFAULT_PORT
from gpu_tasks.provider.blobs.store import Quota
from gpu_tasks.provider.cli import DEVICE_BOND
from gpu_tasks.provider.cli import main as ogpu_provider
from gpu_tasks.provider.commands.walls import ALWAYS, NEVER, WHERE_POSSIBLE
from gpu_tasks.provider.earnings import By
from gpu_tasks.provider.execution.containers.docker_door import DEFAULT_ADDRESS
from gpu_tasks.provider.registration import FIRST_ASK
from gpu_tasks.provider.utilisation import UsedBy
from node.cli import ogpu_node
from wallet.amounts import format_amount

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
FUNCTIONS = {
    "ogpu": "main",
    "ogpu-wallet": "main",
    "ogpu-provider": "main",
    "ogpu-node": "ogpu_node",
    "ogpu-devnet": "ogpu_devnet",
}
HELP_LENGTH_MAX = 60


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


def paths_of(group: click.Group, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield each command of a program, those of its groups too, by its words."""
    for name, command in group.commands.items():
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from paths_of(command, *path, name)


def groups_of(group: click.Group, *path: str) -> Iterator[tuple[list[str], click.Group]]:
    """Yield the groups of a program by their words, itself first."""
    yield list(path), group
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from groups_of(command, *path, name)


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_help_of_each_command_imports_nothing_heavy(program: str) -> None:
    words = [[*path, "--help"] for path, _ in paths_of(PROGRAMS[program])]
    code = (
        f"import sys\nfrom importlib import import_module\n"
        f"program = getattr(import_module({MODULES[program]!r}), {FUNCTIONS[program]!r})\n"
        f"for words in {words!r}:\n"
        f"    program.main(words, prog_name={program!r}, standalone_mode=False)\n"
        f"    assert not [name for name in {HEAVY!r} if name in sys.modules], words\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(f"Usage: {program} ") == len(words)


@pytest.mark.parametrize("program", PROGRAMS)
def test_each_body_takes_the_parameters_of_its_command(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bodies: list[str] = []

    def checked(place: str) -> Callable[..., None]:
        def bind(*given: Any, **named: Any) -> None:
            body = loaded(place)
            inspect.signature(body, follow_wrapped=False).bind(*given, **named)
            if hasattr(body, "__wrapped__"):  # a coroutine behind `reads` or `sends`
                coroutine = inspect.signature(body.__wrapped__, follow_wrapped=False)
                is_plan = any("Planning" in str(each.annotation) for each in coroutine.parameters.values())
                taken = {"key_text", "sending"} if is_plan else set()
                more = {name: value for name, value in named.items() if name not in taken}
                # a plan gets a `Planning`; other coroutines session and client
                coroutine.bind(*[None] * (1 if is_plan else 2), **more)
            bodies.append(place)

        return bind

    commands = list(paths_of(PROGRAMS[program]))
    monkeypatch.setattr(deferred, "loaded", checked)
    for path, command in commands:
        if isinstance(command, click.Group):
            continue
        context = click.Context(command, info_name=path[-1])
        with context:
            assert command.callback is not None
            command.callback(**{parameter.name: None for parameter in command.params if parameter.expose_value})
    short_forms = [place for place in bodies if bodies.count(place) > 1]
    assert len(set(bodies)) > 5
    assert len(short_forms) == (0 if program != "ogpu" else len(SHORT_FORMS) + len(set(short_forms)))


@pytest.mark.parametrize("program", PROGRAMS)
def test_lines_of_help_are_short(program: str) -> None:
    commands = [((), PROGRAMS[program]), *paths_of(PROGRAMS[program])]
    for path, command in commands:
        assert len(command.get_short_help_str(1_000)) <= HELP_LENGTH_MAX or not path, path
        for option in command.params:
            if isinstance(option, click.Option):
                text = (option.help or "").partition("[default")[0].strip()
                assert 0 < len(text) <= HELP_LENGTH_MAX, (path, option.name)


def test_the_defaults_that_a_help_states_are_those_of_the_program() -> None:
    """A declaration repeats a constant of a module that is too heavy to import for its help."""
    commands = ogpu_provider.commands
    defaults = {
        name: {parameter.name: parameter.default for parameter in command.params} for name, command in commands.items()
    }
    assert defaults["run"]["blob_host"] == DEFAULT_HOST
    assert defaults["run"]["input_mib"] == Quota().input_bytes_max >> 20
    assert defaults["run"]["engine_address"] == DEFAULT_ADDRESS
    shown = " ".join(commands["register"].get_help(click.Context(commands["register"])).split())
    assert f"http://{DEFAULT_HOST}:{DEFAULT_PORT}]" in shown
    assert f"[default: as before, or {format_amount(FIRST_ASK)}]" in shown
    assert f"[default: {format_amount(DEVICE_BOND)}]" in shown
    choices: dict[str, Any] = {
        name: next(each.type for each in commands[name].params if each.name == option)
        for name, option in (("earnings", "by"), ("utilisation", "by"), ("queue", "units"), ("run", "wish"))
    }
    assert list(choices["earnings"].choices) == [by.value for by in By]
    assert list(choices["utilisation"].choices) == [by.value for by in UsedBy]
    assert choices["queue"].max == QUEUE_MAX
    assert set(choices["run"].choices) == {WHERE_POSSIBLE, ALWAYS, NEVER}


def test_what_counts_as_heavy_is_seen_where_a_command_needs_it(tmp_path: Path) -> None:
    """The measure itself: `call` lists the calls of the chain's rules."""
    assert loaded_by("cli.wallet.program", "--keyring", str(tmp_path), "call") >= {
        "genesis.chain",
        "rich",
        "websockets",
    }


def test_keys_need_no_chain(tmp_path: Path) -> None:
    assert "genesis.chain" not in loaded_by("cli.wallet.program", "--keyring", str(tmp_path), "--json", "list")


def test_the_shell_completes_names_of_commands_without_importing_their_work() -> None:
    asked = {"COMP_WORDS": "program se", "COMP_CWORD": "1", "_PROGRAM_COMPLETE": "bash_complete"}
    assert loaded_by("cli.wallet.program", **asked) == set()


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_shell_completes_commands_and_their_options(program: str) -> None:
    complete = ShellComplete(PROGRAMS[program], {}, program, "_COMPLETE")
    for path, group in groups_of(PROGRAMS[program]):
        assert sorted(item.value for item in complete.get_completions(path, "")) == sorted(group.commands)
    for words, command in paths_of(PROGRAMS[program]):
        own = [option for parameter in command.params for option in parameter.opts if option.startswith("--")]
        offered = {item.value for item in complete.get_completions(list(words), "--")}
        assert set(own) <= offered


def test_the_shell_completes_commands_of_a_command() -> None:
    complete = ShellComplete(ogpu_node, {}, "ogpu-node", "_COMPLETE")
    assert [item.value for item in complete.get_completions(["key"], "generate-")] == ["generate-node-key"]


def test_a_command_of_another_place_is_an_error_of_ours() -> None:
    with pytest.raises(AttributeError):
        loaded("cli.wallet.money:nothing")
    assert loaded("cli.wallet.money:send") is import_module("cli.wallet.money").send


@pytest.mark.parametrize(
    ("program", "command", "option"),
    [
        ("ogpu", "offer services", "--url"),
        ("ogpu", "ps", "--url"),
        ("ogpu-provider", "status", "--url"),
    ],
)
def test_an_option_of_the_program_behind_its_command_is_shown_its_place(
    program: str, command: str, option: str
) -> None:
    refused = CliRunner().invoke(PROGRAMS[program], [*command.split(), option], prog_name=program)
    assert refused.exit_code == 2
    assert f"{option} stands before the command: {program} {option} … {command}" in refused.stderr
    unknown = CliRunner().invoke(PROGRAMS[program], [*command.split(), "--jsonn"], prog_name=program)
    assert "No such option" in unknown.stderr
