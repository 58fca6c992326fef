"""The words of a command line: programs' own words, other systems' words, and mistakes."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from cli.chain_time import ChainTime
from cli.options import AMOUNT, AMOUNT_OR_ALL, NodeUrl
from converted import IMAGE
from error_codes import ended_code
from gpu_tasks.client.cli import main
from gpu_tasks.client.commands import shell
from gpu_tasks.client.commands.calls import this_command, time_left
from gpu_tasks.client.groups.container import execute, run
from gpu_tasks.client.groups.declared import TASK_PRICE
from gpu_tasks.client.tasks.results import RunBlobError
from gpu_tasks.tasks.offer_query import FIELDS
from planted_tasks import BOB
from runtime.cryptography import ss58
from runtime.encoding.codec import DecodeError
from task_customer import OF_BOB, ogpu, refusal
from wallet_runner import answer, chain

# `ogpu run` and `ogpu exec`: where their own options end, and what an unknown one is taken for.


RUN = ["--key", "//Bob", "--image", IMAGE, "--max-price", "2 oGPU"]
TASK = "0x" + "ab" * 32


def parsed(command: click.Command, *words: str) -> dict[str, object]:
    """Return the parsed options of a command line, without running it."""
    return command.make_context("x", list(words)).params


@pytest.mark.parametrize(
    ("words", "unknown", "meant", "code"),
    [
        (["--memroy", "16Gi", "--", "python"], "--memroy", "--memory", "no_such_option"),
        (["--tiem", "2h", "--gpu", "any", "--", "python"], "--tiem", "--time", "no_such_option"),
        (["--memroy=16Gi", "python"], "--memroy", "--memory", "no_such_option"),
        (["--gpus", "all", "--", "python"], "--gpus", "--gpu any", "other_option"),
        (["--gpus=all", "python"], "--gpus", "--gpu any", "other_option"),
        (["-e", "A=b", "--", "python"], "-e", "--env", "other_option"),
        (["-eA=b", "python"], "-e", "--env", "other_option"),
        (["-it", "--rm", "--", "bash"], "-i", "ogpu exec", "other_option"),
        (["--rm", "bash"], "--rm", "", "other_option"),
        (["-v", "./a:/b", "bash"], "-v", "--in", "other_option"),
        (["--gpu", "any", "-x", "bash"], "-x", "", "no_such_option"),
    ],
)
@pytest.mark.parametrize("also", [[], ["--yes", "--anyway", "--dry-run"]])
def test_an_unknown_option_is_no_word_of_the_program(
    words: list[str], unknown: str, meant: str, code: str, also: list[str]
) -> None:
    refused = CliRunner().invoke(main, ["--json", "run", *RUN, *also, *words])
    assert (refused.exit_code, ended_code(refused)) == (2, code)
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
    found = parsed(execute, *words)
    assert (found["task"], found["key_text"], found["command"]) == (TASK, "//Bob", ("ls", "-la", "--key"))


@pytest.mark.parametrize("words", [["--no-tyt", TASK, "ls"], [TASK, "--no-tyt", "ls"], [TASK, "-it", "--", "bash"]])
def test_a_shells_unknown_option_is_refused(words: list[str]) -> None:
    with pytest.raises(click.NoSuchOption):
        parsed(execute, "--key", "//Bob", *words)


def test_the_command_to_go_on_with_buys_nothing_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    program = ["--", "prog", "--again"]
    monkeypatch.setattr("sys.argv", ["ogpu", "run", *RUN, "--again", *program])
    with run.make_context("run", [*RUN, "--again", *program]):
        assert this_command() == shlex.join(["ogpu", "run", *RUN, *program])


EXAMPLES = Path(__file__).parents[4] / "examples"
NOWHERE = ["--url", "ws://127.0.0.1:1"]


@pytest.fixture
def prompts(tmp_path: Path) -> str:
    path = tmp_path / "prompts"
    path.write_text("def f():\n")
    return str(path)


@pytest.mark.parametrize("words", [(), ("unit",), ("task",), ("offer",)])
def test_help_names_every_command_once(words: tuple[str, ...]) -> None:
    group: click.Command = main
    for word in words:
        assert isinstance(group, click.Group)
        group = group.commands[word]
    assert isinstance(group, click.Group)
    answer = CliRunner().invoke(main, [*words, "--help"])
    assert answer.exit_code == 0
    named = [line.split()[0] for line in answer.output.splitlines() if line.startswith("  ") and line.strip()]
    assert all(named.count(name) == 1 for name in group.commands)


def test_without_a_node_the_error_says_what_and_what_next(prompts: str) -> None:
    commands = (
        ["offer", "services"],
        ["offer", "providers"],
        ["offer", "search"],
        ["offer", "price"],
        ["task", "plan", str(EXAMPLES / "minimal.yaml")],
        ["unit", "post", prompts, "--key", "//Bob"],
        ["unit", "result", "0x" + "00" * 32, "--key", "//Bob"],
        ["unit", "cancel", "0x" + "00" * 32, "--key", "//Bob"],
        ["offer", "close-service", "0", "--key", "//Bob"],
        ["task", "submit", str(EXAMPLES / "minimal.yaml"), "--key", "//Bob", "--yes"],
        ["ps", "--key", "//Bob"],
        *(["task", name, "0x" + "00" * 32] for name in ("show", "bids", "verify")),
        *(["task", name, "0x" + "00" * 32, "--key", "//Bob"] for name in ("dispute", "confirm")),
        ["task", "stop", "0x" + "00" * 32, "--key", "//Bob"],
    )
    for command in commands:
        answer = CliRunner().invoke(main, [*NOWHERE, *command])
        assert answer.exit_code == 2
        assert "ws://127.0.0.1:1" in answer.output
        assert "--url" in answer.output
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
    answer = CliRunner().invoke(main, [*NOWHERE, "unit", "post", prompts, "--key", "//Bob", *options])
    assert answer.exit_code == 2
    assert why in answer.output


def test_the_shell_completes_what_is_searched_and_its_fields() -> None:
    complete = ShellComplete(main, {}, "ogpu", "_COMPLETE")

    def offered(*words: str) -> list[str]:
        return [item.value for item in complete.get_completions(["offer", "search", *words[:-1]], words[-1])]

    assert offered("s") == ["service", "state", "since"]
    assert offered("class=cpu", "free") == ["free_bond"]
    assert set(offered("")) == set(FIELDS)


# What people type wrongly is said at once, in a dry run too, and the unit of an amount may be there or not.


pytestmark = pytest.mark.usefixtures("stored_nowhere")

MINIMAL = str(Path(__file__).parents[4] / "examples" / "minimal.yaml")


def run_words(*more: str, price: str = "2 oGPU") -> list[str]:
    return ["run", "--image", IMAGE, "--max-price", price, "--anyway", *more, "--", "true"]


def test_a_dry_run_of_what_cannot_be_paid_fails(tmp_path: Path) -> None:
    (tmp_path / "prompts").write_text("def f():\n")
    post = ["unit", "post", str(tmp_path / "prompts"), "--racers", "3", "--anyway"]
    with chain(tmp_path) as url:
        spendable = float(answer(ogpu(tmp_path, url, *post, *OF_BOB, "--dry-run"))["spendable"]["ogpu"])
        dear = f"{int(spendable)} oGPU"
        for words in (
            run_words(*OF_BOB, "--dry-run", price=dear),
            run_words("--key", "//Nobody", "--dry-run"),
            ["task", "submit", MINIMAL, "--key", "//Nobody", "--dry-run", "--anyway"],
            [*post, "--key", "//Nobody", "--dry-run"],
            [*post, "--key", "//Nobody", "--dry-run", "--out", str(tmp_path / "out")],
        ):
            failed = ogpu(tmp_path, url, *words)
            assert failed.exit_code == 2, failed.output
            assert '"sent": false' in failed.stdout, "the cost is shown all the same"
            assert "ogpu-wallet send" in failed.stderr


@pytest.mark.parametrize(("key", "is_noted"), [("//grace", True), ("//Bobb", True), ("//Bob", False), ("//Zoë", False)])
def test_a_path_that_resembles_a_known_one_is_noted_once(tmp_path: Path, key: str, *, is_noted: bool) -> None:
    with chain(tmp_path) as url:
        said = ogpu(tmp_path, url, "task", "submit", MINIMAL, "--key", key, "--dry-run", "--anyway").stderr
        assert said.count(f"{key} is not //") == is_noted


def test_an_address_is_no_key(tmp_path: Path) -> None:
    address = ss58.encode(BOB)
    with chain(tmp_path) as url:
        for words in (
            ["task", "submit", MINIMAL, "--yes"],
            ["unit", "watch"],
            ["unit", "cancel", "0x" + "11" * 32, "--yes"],
        ):
            assert "is an address" in refusal(ogpu(tmp_path, url, *words, "--key", address))


@pytest.mark.parametrize("kind", [AMOUNT, AMOUNT_OR_ALL])
def test_amounts_may_have_their_unit(kind: click.ParamType[int]) -> None:
    for text in ("0.05", "0.05 oGPU", "0.05oGPU", "0.05 ogpu"):
        assert kind.convert(text, None, None) == 5_000_000
    for text in ("0.05 DOT", "oGPU", "0.05 oGPU oGPU", "1,5 oGPU"):
        with pytest.raises(click.BadParameter):
            kind.convert(text, None, None)
    assert AMOUNT_OR_ALL.convert("all", None, None) < 0


def test_prices_of_tasks_may_leave_their_unit_out(tmp_path: Path) -> None:
    assert [TASK_PRICE.convert(text, None, None) for text in ("1", "0.5", "1 oGPU", "50 grains", "x")] == [
        "1 oGPU", "0.5 oGPU", "1 oGPU", "50 grains", "x",
    ]  # fmt: skip
    with chain(tmp_path) as url:
        bare, named = (
            answer(ogpu(tmp_path, url, *run_words(*OF_BOB, "--dry-run", price=price))) for price in ("2", "2 oGPU")
        )
        assert bare["locked"] == named["locked"]
        assert "--max-price" in refusal(ogpu(tmp_path, url, *run_words(*OF_BOB, "--dry-run", price="x")))


@pytest.mark.parametrize(
    ("typed", "url"),
    [
        ("http://127.0.0.1:9944", "ws://127.0.0.1:9944"),
        ("HTTPS://node.example/", "wss://node.example/"),
        ("ws://127.0.0.1:1", "ws://127.0.0.1:1"),
        ("127.0.0.1:9944", "ws://127.0.0.1:9944"),
    ],
)
def test_the_address_of_a_node_may_be_that_of_http(typed: str, url: str) -> None:
    assert NodeUrl().convert(typed, None, None) == url


def test_a_node_is_reached_by_its_address_of_http(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        assert answer(ogpu(tmp_path, url.replace("ws://", "http://"), "offer", "services"))


def test_a_prompt_in_place_of_a_file_is_told_how_it_is_asked(tmp_path: Path) -> None:
    said = refusal(ogpu(tmp_path, "ws://127.0.0.1:1", "unit", "post", "Hello there", *OF_BOB))
    assert "ogpu unit post -" in said


@pytest.mark.parametrize(("ports", "named"), [((8888, 9000), "8888, 9000"), ((), "none")])
def test_a_port_that_a_task_does_not_name_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ports: tuple[int, ...], named: str
) -> None:
    task: Any = SimpleNamespace(customer=BOB)
    entries: list[bytes] = []

    async def known(*_: Any) -> Any:
        return task

    async def request(*_: Any) -> bytes:
        return b""

    def entered(*given: Any) -> Any:
        entries.append(given[2])
        raise OSError("nobody is there")

    monkeypatch.setattr(shell, "known_task", known)
    monkeypatch.setattr(shell, "fetch_input", request)
    monkeypatch.setattr(shell, "entered", entered)
    monkeypatch.setattr(shell, "REQUEST", SimpleNamespace(decode=lambda _: SimpleNamespace(ports=ports)))
    words = ["port-forward", "0x" + "12" * 32, *OF_BOB]
    with chain(tmp_path) as url:
        said = refusal(ogpu(tmp_path, url, *words, "8888:8888", "0:99"))
        assert "99" in said
        assert named in said
        assert not entries, "nobody was connected to"
        if ports:
            assert "nobody is there" in refusal(ogpu(tmp_path, url, *words, "8888:8888"))

        async def lost(*_: Any) -> bytes:
            raise RunBlobError("no store has it")

        def undecodable(_: bytes) -> Any:
            raise DecodeError("the request of another workload")

        with monkeypatch.context() as other:
            other.setattr(shell, "REQUEST", SimpleNamespace(decode=undecodable))
            assert "nobody is there" in refusal(ogpu(tmp_path, url, *words, "0:99"))
        monkeypatch.setattr(shell, "fetch_input", lost)
        assert "nobody is there" in refusal(ogpu(tmp_path, url, *words, "0:99")), "its provider says so then"


def test_a_port_here_leads_to_a_port_of_the_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    led: list[tuple[int, int]] = []

    async def known(*_: Any) -> Any:
        return SimpleNamespace(customer=BOB)

    @asynccontextmanager
    async def entered(*_: Any) -> AsyncIterator[Any]:
        ended = asyncio.Event()
        ended.set()
        yield SimpleNamespace(ended=ended)

    async def forward(_: Any, local: int, remote: int, *__: Any) -> asyncio.Server:
        led.append((local, remote))
        return await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)

    monkeypatch.setattr(shell, "known_task", known)
    monkeypatch.setattr(shell, "_require_declared", known)
    monkeypatch.setattr(shell, "entered", entered)
    monkeypatch.setattr(shell, "forward", forward)
    with chain(tmp_path) as url:
        done = ogpu(tmp_path, url, "port-forward", TASK, *OF_BOB, "8080:80", "9000", "0:22")
        foreign = ogpu(tmp_path, url, "port-forward", TASK, "--key", "//Alice", "8080:80")
    assert led == [(8080, 80), (9000, 9000), (0, 22)]
    assert [json.loads(line)["remote"] for line in done.stdout.splitlines()] == [80, 9000, 22]
    assert (ended_code(done), ended_code(foreign)) == ("tunnel_closed", "not_owner")


@pytest.mark.parametrize("words", [["--json", "unit", "post"], ["unit", "post", "--json"]])
def test_errors_are_json_for_programs_with_their_exit_code(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "prompts").write_text("def f():\n")
    for more, code in (([str(tmp_path / "prompts"), *OF_BOB, "--yes"], 2), ([*OF_BOB], 2), (["--no-such"], 2)):
        done = ogpu(tmp_path, "ws://127.0.0.1:1", *words, *more, as_json=False)
        said = json.loads(done.stderr)
        assert (done.exit_code, said["exit_code"], done.stdout) == (code, code, "")
        assert said["error"]


def test_the_words_of_a_program_are_its_own(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        path = tmp_path / "task.yaml"
        words = ["run", *OF_BOB, "--image", IMAGE, "--max-price", "2", "--anyway", "--dry-run", "--save", str(path)]
        done = ogpu(tmp_path, url, *words, "prog", "--json", as_json=False)
        assert done.exit_code == 0, done.output
        assert '"--json"' in path.read_text()
        assert not done.stdout.startswith("{")


@pytest.mark.parametrize(
    ("blocks", "left"),
    [(0, "0 blocks, about 0 s"), (1, "1 block, about 2 s"), (20, "20 blocks, about 40 s"),
     (60, "60 blocks, about 2 min"), (9_000, "9000 blocks, about 5 h")],
)  # fmt: skip
def test_blocks_have_a_time_beside_them(blocks: int, left: str) -> None:
    now = ChainTime(height=100, now_ms=0, passed_ms=96_000, passed_blocks=48, epoch_blocks=10, era_epochs=2)
    assert time_left(now, 100 + blocks) == left


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["unit", "post", MINIMAL, *OF_BOB, "--class", "datacentre"], "'datacenter'"),
        (["task", "schema", "--kind", "job"], "'Job'"),
        (["task", "history", *OF_BOB, "--state", "canceled"], "'cancelled'"),
        (["run", *RUN, "--network", "outbond", "true"], "'outbound'"),
        (["run", *RUN, "--gpu", "H100", "true"], "ogpu offer search"),
    ],
)
def test_a_mistyped_choice_is_answered_with_the_one_that_was_meant(words: list[str], meant: str) -> None:
    refused = CliRunner().invoke(main, words)
    assert (refused.exit_code, meant in refused.stderr.splitlines()[-1]) == (2, True), refused.stderr
