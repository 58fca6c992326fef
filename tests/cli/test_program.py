"""`--json` stands anywhere, and then whatever goes wrong is an object on standard error."""

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from cli.messages import note
from cli.program import EITHER, ProgramGroup
from cli.wallet.program import FOREIGN_WORDS, main
from devnet.launcher import cli as devnet_cli
from error_codes import ended_code
from gpu_tasks.client import cli as client_cli
from gpu_tasks.client.groups import foreign_words
from gpu_tasks.provider import cli as provider_cli
from node import cli as node_cli

NOBODY = ("--url", "ws://127.0.0.1:9")


def run(folder: Path, *words: str) -> Result:
    return CliRunner().invoke(main, ["--keyring", str(folder / "keys"), *words])


@pytest.mark.parametrize("place", [0, 1, 2])
def test_it_stands_anywhere(tmp_path: Path, place: int) -> None:
    words = ["list"]
    words.insert(min(place, 1), "--json")
    result = run(tmp_path, *words)
    assert (result.exit_code, json.loads(result.stdout)) == (0, [])
    assert run(tmp_path, "list").stdout != result.stdout


MISTAKES = {
    "no node": ((*NOBODY, "balance", "//Alice", "--json"), "node_unreachable"),
    "no such command": (("--json", "bogus"), "unknown_command"),
    "no such option": (("list", "--jsonn", "--json"), "no_such_option"),
    "no amount": (("send", "//Bob", "1,5", "--key", "//Alice", "--json"), "bad_parameter"),
    "an option of the program behind its command": (("list", "--url", "x", "--json"), "option_place"),
    "an option of a command before it": (("--json", "--yes", "send"), "option_place"),
    "an argument too few": (("send", "//Bob", "--json"), "missing_parameter"),
    "an account for an amount": (("send", "1", "//Bob", "--key", "//Alice", "--json"), "account_as_amount"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_an_error_is_an_object(tmp_path: Path, name: str) -> None:
    words, code = MISTAKES[name]
    result = run(tmp_path, *words)
    (line,) = result.stderr.splitlines()
    told = json.loads(line)
    assert (result.exit_code, told["exit_code"], told["code"], result.stdout) == (2, 2, code, "")
    for_people = run(tmp_path, *(word for word in words if word != "--json"))
    assert for_people.exit_code == 2
    assert for_people.stderr.splitlines()[-1].lower().startswith("error: ")


PROGRAMS = {
    "ogpu": (client_cli.main, foreign_words.FOREIGN_WORDS),
    "ogpu-wallet": (main, FOREIGN_WORDS),
    "ogpu-provider": (provider_cli.main, provider_cli.FOREIGN_WORDS),
    "ogpu-devnet": (devnet_cli.ogpu_devnet, devnet_cli.FOREIGN_WORDS),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_word_of_another_system_is_answered_with_the_word_here(name: str) -> None:
    program, words = PROGRAMS[name]
    assert not words.keys() & program.commands.keys()
    for word, here in words.items():
        *_, typed = path = word.split()
        if len(path) > 1 and path[0] not in program.commands:
            path = ["unit", *path]
        code = "other_option" if typed.startswith("-") else "unknown_command"
        result = CliRunner().invoke(program, ["--json", *path])
        assert (result.exit_code, ended_code(result)) == (2, code)
        if here[0].isupper():
            assert json.loads(result.stderr)["error"].endswith(here)
            continue
        for meant in here.split(EITHER):
            assert f"`{meant}`" in result.stderr
            command: click.Command = program
            first, *meant_path = meant.split()
            if first.startswith("-"):
                command, meant_path = program.commands[path[0]], []
                assert any(first in parameter.opts for parameter in command.params)
            else:
                command = PROGRAMS[first][0]
            while isinstance(command, click.Group):
                command = command.commands[meant_path.pop(0)]


def test_options_of_other_nodes_are_answered_with_the_option_here() -> None:
    for word, here in node_cli.FOREIGN_WORDS.items():
        if word.startswith("-"):
            result = CliRunner().invoke(node_cli.ogpu_node, ["--json", word, "1"])
            assert (result.exit_code, ended_code(result), f"`{here}`" in result.stderr) == (2, "other_option", True)
            assert any(here in parameter.opts for parameter in node_cli.ogpu_node.params)


@pytest.mark.parametrize(
    ("program", "words", "advice"),
    [
        (client_cli.main, ["logs", "--key", "//Alice"], "ogpu ps"),
        (client_cli.main, ["run", "--key", "//Alice", "--max-price", "2", "ubuntu"], "docker inspect"),
        (provider_cli.main, ["queue"], "ogpu-provider status"),
        (devnet_cli.ogpu_devnet, ["logs"], "ogpu-devnet status"),
    ],
)
def test_a_missing_word_is_explained(program: click.Command, words: list[str], advice: str) -> None:
    result = CliRunner().invoke(program, ["--json", *words])
    assert (result.exit_code, ended_code(result), f"`{advice}" in result.stderr) == (2, "missing_parameter", True)


def test_each_group_answers_words_of_others_and_typing_mistakes() -> None:
    for words, here in (
        (["unit", "submit"], "ogpu unit post"),
        (["unit", "lst"], "ogpu unit list"),
        (["unit", "units"], "ogpu unit list"),
        (["task", "describe"], "ogpu task show"),
        (["task", "hold"], "ogpu task confirm"),
        (["task", "exce"], "ogpu task exec"),
        (["offer", "serach"], "ogpu offer search"),
        (["tsk"], "ogpu task"),
        (["submit"], "ogpu task submit"),
        (["show"], "ogpu unit show` or `ogpu task show"),
        (["unit", "run"], "ogpu run"),
        (["suqeue"], "ogpu squeue"),
    ):
        result = CliRunner().invoke(client_cli.main, words)
        assert (result.exit_code, f"`{here}`" in result.stderr) == (2, True), result.stderr


@pytest.mark.parametrize(
    ("program", "words", "meant"),
    [
        (devnet_cli.ogpu_devnet, ("up", "4"), "-n 4"),
        (node_cli.ogpu_node, ("build-spec", "acme.json"), "--chain acme.json"),
        (node_cli.ogpu_node, ("acme.json",), "ogpu-node --chain acme.json"),
        (devnet_cli.ogpu_devnet, ("kill",), "ogpu-devnet status"),
    ],
)
def test_a_value_without_its_option_is_answered_with_the_option(
    program: ProgramGroup, words: tuple[str, ...], meant: str
) -> None:
    result = CliRunner().invoke(program, words, prog_name=program.name)
    assert (result.exit_code, meant in result.stderr) == (2, True), result.stderr


def test_a_number_that_is_none_is_named_in_plain_words() -> None:
    result = CliRunner().invoke(devnet_cli.ogpu_devnet, ["up", "-n", "four"])
    assert (result.exit_code, "'four'" in result.stderr, "integer range" in result.stderr) == (2, True, False)


def test_behind_a_lone_dash_dash_it_is_a_word_like_any(tmp_path: Path) -> None:
    result = run(tmp_path, "new", "--", "--json")
    assert "{" not in result.stderr
    assert result.exit_code == 2


def test_help_and_the_version_are_for_people(tmp_path: Path) -> None:
    for words in (("--json", "--help"), ("list", "--help", "--json"), ("--version", "--json")):
        result = run(tmp_path, *words)
        assert (result.exit_code, result.stderr) == (0, "")
        assert result.stdout


def test_a_refusal_of_the_person_is_an_object_too() -> None:
    @click.command()
    def stop() -> None:
        raise click.Abort

    group = ProgramGroup(commands={"stop": stop}, params=[click.Option(["--json"], is_flag=True)])
    group.callback = lambda json: None  # noqa: ARG005
    result = CliRunner().invoke(group, ["stop", "--json"])
    assert (result.exit_code, json.loads(result.stderr)["exit_code"]) == (1, 1)
    assert "sent" not in result.stderr, "who interrupts it after it was sent is told nothing wrong"


def test_an_object_holds_nothing_that_a_terminal_would_take_for_a_command(tmp_path: Path) -> None:
    result = run(tmp_path, "--json", "list", "\x9b31m\u202e")
    assert "unexpected extra argument" in json.loads(result.stderr)["error"]
    assert all(letter.isprintable() for letter in result.stderr.rstrip("\n")), ascii(result.stderr)


@pytest.mark.parametrize("words", [("tell", "--json"), ("tell",)])
def test_a_note_is_an_object_too(words: tuple[str, ...]) -> None:
    @click.command()
    def tell() -> None:
        note("so")

    group = ProgramGroup(commands={"tell": tell}, params=[click.Option(["--json"], is_flag=True)])
    group.callback = lambda json: None  # noqa: ARG005
    said = CliRunner().invoke(group, words).stderr
    assert said == ('{"note": "so"}\n' if "--json" in words else "note: so\n")


@pytest.mark.parametrize(
    ("words", "passed_on", "is_json"),
    [
        (["run", "x", "--json"], ("x", "--json"), False),
        (["--json", "run", "x", "--json"], ("x", "--json"), True),
        (["fail", "--json"], None, True),
    ],
)
def test_the_words_of_a_program_are_its_own(words: list[str], passed_on: tuple[str, ...] | None, is_json: bool) -> None:
    seen: list[object] = []

    @click.command(context_settings={"ignore_unknown_options": True})
    @click.argument("args", nargs=-1, type=click.UNPROCESSED)
    def run_program(args: tuple[str, ...]) -> None:
        seen.append(args)
        raise click.UsageError("no")

    group = ProgramGroup(
        commands={"run": run_program, "fail": run_program},
        params=[click.Option(["--json"], is_flag=True)],
        program_commands=("run",),
    )
    group.callback = lambda json: seen.append(json)  # noqa: PLW0108  # it is passed by name
    result = CliRunner().invoke(group, words)
    assert seen == [is_json, passed_on or ()]
    assert (result.exit_code, result.stderr.startswith("{")) == (2, is_json)


def test_an_option_of_a_command_before_it_is_shown_its_place() -> None:
    for words, place in ((["--key", "//Bob", "ps"], "ogpu unit post … --key"), (["--racers", "2"], "ogpu unit post …")):
        refused = CliRunner().invoke(client_cli.main, words, prog_name="ogpu")
        assert (refused.exit_code, place in refused.stderr) == (2, True), refused.stderr


@pytest.mark.parametrize(
    ("program", "words", "code", "shown"),
    [
        (node_cli.ogpu_node, ["--alice", "--bob"], "several_accounts", "--alice and --bob"),
        (node_cli.ogpu_node, ["start"], "unknown_command", "`ogpu-node`"),
        (provider_cli.main, ["start"], "unknown_command", "`ogpu-provider run`"),
        (provider_cli.main, ["run", "--blob-port", "99999"], "bad_parameter", "65535"),
        (devnet_cli.ogpu_devnet, ["start"], "unknown_command", "`ogpu-devnet up`"),
        (node_cli.ogpu_node, ["generate-node-key"], "unknown_command", "`ogpu-node key generate-node-key`"),
        (main, ["send", "//Bob", "5", "--from", "//Alice"], "other_option", "--key"),
        (client_cli.main, ["ps", "--from", "//Alice"], "other_option", "`--key`"),
        (client_cli.main, ["offer", "services", "--from", "//Alice"], "no_such_option", "--from"),
        (main, ["send", "//Bob", "5"], "missing_parameter", "//Alice"),
        (provider_cli.main, ["offer", "0x99", "--ask", "1"], "missing_parameter", "`ogpu offer services`"),
        (client_cli.main, ["ps"], "missing_parameter", "//Alice"),
        (client_cli.main, ["unit", "submit", "prompts.txt"], "unknown_command", "`ogpu unit post`"),
        (node_cli.ogpu_node, ["init"], "unknown_command", "build-spec"),
        (node_cli.ogpu_node, ["key", "generate", "--type", "ed25519"], "other_option", "`--scheme`"),
    ],
)
def test_a_mistake_of_a_newcomer_is_answered_with_the_right_words(
    program: click.Group, words: list[str], code: str, shown: str
) -> None:
    result = CliRunner().invoke(program, ["--json", *words], prog_name=program.name)
    assert (ended_code(result), result.exit_code) == (code, 2)
    assert shown in result.stderr


@pytest.mark.parametrize(
    ("words", "is_json"),
    [
        (["task", "list", "--key", "run", "--json", "--bogus"], True),
        (["--keyring", "run", "task", "convert", "exec", "--json", "--bogus"], True),
        (["--keyring=run", "task", "convert", "x", "--bogus", "--json"], True),
        (["task", "list", "--bogus", "--", "--json"], False),
        (["run", "--bogus", "--json"], False),
        (["task", "run", "--bogus", "--json"], False),
        (["--json", "task", "run", "--bogus"], True),
    ],
)
def test_only_a_command_that_passes_words_on_ends_the_own_words(words: list[str], *, is_json: bool) -> None:
    said = CliRunner().invoke(client_cli.main, words).stderr
    assert said.startswith("{") == is_json


@pytest.mark.parametrize("words", [["--name", "bob", "--alice"], ["--base-path", "eve", "--alice"]])
def test_values_of_options_name_no_validator(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[dict[str, object]] = []
    monkeypatch.setattr("node.run.run", started.append)
    CliRunner().invoke(node_cli.ogpu_node, words, prog_name="ogpu-node", catch_exceptions=False)
    assert [flags["dev_account"] for flags in started] == ["Alice"]


@pytest.mark.parametrize(
    ("word", "command"),
    [
        ("transfer", "send"),
        ("bond", "stake"),
        ("unbond", "unstake"),
        ("nominate", "delegate"),
        ("denominate", "undelegate"),
        ("withdraw-unbonded", "withdraw"),
    ],
)
def test_a_word_for_money_is_answered_with_the_command_that_moves_it_the_same_way(word: str, command: str) -> None:
    assert FOREIGN_WORDS[word] == f"ogpu-wallet {command}"
