"""What people type wrongly is said at once, in a dry run too, and the unit of an amount may be there or not."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest

from cli.options import AMOUNT, AMOUNT_OR_ALL, NodeUrl
from converted import IMAGE
from gpu_tasks.client.commands import shell
from gpu_tasks.client.commands.tasks import TASK_PRICE
from gpu_tasks.client.tasks.results import RunBlobError
from planted_tasks import BOB
from runtime.cryptography import ss58
from runtime.encoding.codec import DecodeError
from task_customer import OF_BOB, ogpu, refusal
from wallet_runner import answer, chain

pytestmark = pytest.mark.usefixtures("stored_nowhere")

MINIMAL = str(Path(__file__).parents[3] / "examples" / "minimal.yaml")


def run_words(*more: str, price: str = "2 oGPU") -> list[str]:
    return ["run", "--image", IMAGE, "--max-price", price, "--anyway", *more, "--", "true"]


def test_a_dry_run_of_what_cannot_be_paid_fails(tmp_path: Path) -> None:
    (tmp_path / "prompts").write_text("def f():\n")
    post = ["post", str(tmp_path / "prompts"), "--racers", "3", "--anyway"]
    with chain(tmp_path) as url:
        spendable = float(answer(ogpu(tmp_path, url, *post, *OF_BOB, "--dry-run"))["spendable"]["ogpu"])
        dear = f"{int(spendable)} oGPU"
        for words in (
            run_words(*OF_BOB, "--dry-run", price=dear),
            run_words("--key", "//Nobody", "--dry-run"),
            ["submit", MINIMAL, "--key", "//Nobody", "--dry-run", "--anyway"],
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
        said = ogpu(tmp_path, url, "submit", MINIMAL, "--key", key, "--dry-run", "--anyway").stderr
        assert said.count("another account than") == is_noted


def test_an_address_is_no_key(tmp_path: Path) -> None:
    address = ss58.encode(BOB)
    with chain(tmp_path) as url:
        for words in (["submit", MINIMAL, "--yes"], ["watch"], ["cancel", "0x" + "11" * 32, "--yes"]):
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
    assert [TASK_PRICE.convert(text, None, None) for text in ("1", "0.5", "1 oGPU", "x")] == [
        "1 oGPU", "0.5 oGPU", "1 oGPU", "x",
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
        assert answer(ogpu(tmp_path, url.replace("ws://", "http://"), "services"))


def test_a_prompt_in_place_of_a_file_is_told_how_it_is_asked(tmp_path: Path) -> None:
    said = refusal(ogpu(tmp_path, "ws://127.0.0.1:1", "post", "Hello there", *OF_BOB))
    assert "ogpu post -" in said


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


@pytest.mark.parametrize("words", [["--json", "post"], ["post", "--json"]])
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
