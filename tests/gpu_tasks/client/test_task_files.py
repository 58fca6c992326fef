"""Task files on the disk: the examples, what an input may be, and the commands that need no node."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from a_task_file import SIX_LINES
from gpu_tasks.client.cli import main
from gpu_tasks.client.tasks.orders import load, load_input
from gpu_tasks.market.training.rules import DEFAULT_RULES
from gpu_tasks.tasks.canonical import INPUT_BYTES_MAX, prepare, terms_of
from gpu_tasks.tasks.problems import TaskFileError
from gpu_tasks.tasks.task_kinds import task_schema
from gpu_tasks.tasks.yaml_tree import FILE_BYTES_MAX
from wallet.errors import WalletError

EXAMPLES = Path(__file__).parents[3] / "examples"
HASHES = {
    "gang": "43668c1e32ece2f8f30d259a813a564bc2a0e15f9d8839ad689a60844aba0569",
    "minimal": "dd1e59b5f23d086f9ee36be10dd3d6ac3e17be2b2f3242e90ef925be60aa7d7b",
    "picture": "3be08b069f32e3f29079e753b16aa259da870d2b7232292c0cc05d6e489ae531",
    "pair": "1046227514d0859e10072154b8f98c41d13596b7c52300ecfc4fb4c43976d183",
    "relay": "f25af68e10ba856c57a9929c71b3b3762743bdbe9fd3d05e7757d8b5044ee440",
    "sizes": "7a897eaeeeff216d1aa096c9781744cb9cff9d05b6353e2aef6d8062e9a6e7be",
    "urgent": "ced891ca029999d584c053ef17cce3c6e9c626fbac5f61cb72361644ed9c6109",
}


@pytest.fixture
def task(tmp_path: Path) -> Path:
    (tmp_path / "corpus.txt").write_text("the quick brown fox\n" * 100)
    (tmp_path / "task.yaml").write_text(SIX_LINES)
    return tmp_path / "task.yaml"


def ogpu(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))


def facts(*words: str) -> Any:
    said = ogpu("--json", *words)
    assert said.exit_code == 0, said.output
    return json.loads(said.stdout)


def test_every_example_has_its_hash() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.yaml")} == set(HASHES)
    assert {path.suffix for path in EXAMPLES.iterdir() if path.is_file()} == {".yaml", ".txt"}


@pytest.mark.parametrize("name", HASHES)
def test_an_example_comes_to_its_canonical_bytes(name: str) -> None:
    path = EXAMPLES / f"{name}.yaml"
    file = load(path)
    assert file.task.name == name
    assert prepare(file, load_input(path, file), bytes(32)).task_hash.hex() == HASHES[name]
    blocks = {"pair": 600, "relay": 600, "gang": 5_400, "urgent": 5_400, "sizes": 7_200}.get(name, 21_600)
    assert terms_of(file, DEFAULT_RULES, 1_000).blocks_max == blocks


def test_check_says_what_a_file_comes_to(task: Path) -> None:
    said = facts("check", str(task))
    assert (said["task"], said["workload"], said["cost"], said["milestones"]) == (
        "haiku",
        "train-int8",
        "1000 steps",
        10,
    )
    assert said["price_max"] == {"grains": "250000000", "ogpu": "2.5"}
    assert (said["deadline"], said["classes"]) == ("6h", "cpu, consumer, datacenter")
    assert said["task_hash"] is None
    assert said["value_of_time"] == "a quarter of the greatest price over the deadline"
    assert said["loss_on_failure"]["ogpu"] == "0.625"
    assert said["collateral"] == "the least that the chain asks for"
    assert facts("check", str(EXAMPLES / "gang.yaml"))["collateral"]["ogpu"] == "25"
    assert facts("check", str(EXAMPLES / "urgent.yaml"))["task_hash"] == "0x" + HASHES["urgent"]
    assert "haiku" in ogpu("check", str(task)).output


def test_check_says_of_a_container_what_is_bought(tmp_path: Path) -> None:
    lease = facts("check", str(EXAMPLES / "containers" / "lease.yaml"))
    assert (lease["ports"], lease["keep"]) == ("8080", "30m after its end")
    assert lease["time"] == "1h: 3600 blocks in 30 intervals"
    (tmp_path / "words.txt").write_text("words")
    job = (EXAMPLES / "containers" / "job.yaml").read_text()
    copies = tmp_path / "copies.yaml"
    copies.write_text(job.replace(", interval: 1m", "") + "  verify: {copies: 3}\n")
    said = facts("check", str(copies))
    assert said["copies"] == "3, of several owners: who finds what most of them do is paid the price"
    assert said["time"] == "10m: 600 blocks at most, paid whole"
    secrets = tmp_path / "secrets.yaml"
    secrets.write_text(job.replace("    inputs:", "    secrets: [TOKEN]\n    inputs:"))
    assert facts("check", str(secrets))["secrets"] == "TOKEN: handed to who runs it"


def test_check_says_times_as_files_do() -> None:
    urgent, gang = facts("check", str(EXAMPLES / "urgent.yaml")), facts("check", str(EXAMPLES / "gang.yaml"))
    assert (urgent["deadline"], urgent["value_of_time"]) == ("1h 30m", "0.5 oGPU for 1h")
    assert (gang["deadline"], gang["classes"]) == ("5400 blocks", "consumer, datacenter, all the same")


def test_check_says_all_that_is_wrong(task: Path) -> None:
    task.write_text(SIX_LINES.replace("maxPrice", "maxprice"))
    said = ogpu("check", str(task))
    assert said.exit_code == 2
    assert said.stdout == ""
    assert f"error: {task}:6: spec.market: there is no key 'maxprice'; did you mean maxPrice?" in said.stderr
    assert f"{task}:6: spec.market: lacks maxPrice" in said.stderr
    assert "Traceback" not in said.output


def test_schema_is_printed() -> None:
    assert json.loads(ogpu("schema").stdout) == task_schema()


@pytest.mark.parametrize("name", ["nowhere.yaml", "."])
def test_a_task_file_that_cannot_be_read(tmp_path: Path, name: str) -> None:
    with pytest.raises(WalletError, match=r"cannot be read: .*; give the path of one"):
        load(tmp_path / name)


def test_a_large_file_is_not_read_to_its_end(task: Path) -> None:
    task.write_text(SIX_LINES + "#" * FILE_BYTES_MAX)
    with pytest.raises(TaskFileError, match="more than 32,768 bytes"):
        load(task)
    task.write_text(SIX_LINES)
    (task.parent / "corpus.txt").write_bytes(b"a" * (2 * INPUT_BYTES_MAX))
    assert len(load_input(task, load(task))) == INPUT_BYTES_MAX + 1


def test_a_stranger_s_task_file_sends_no_other_file_away(task: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    secret = tmp_path_factory.mktemp("home") / "secret"
    secret.write_text("secret\n" * 1_000)
    corpus = task.parent / "corpus.txt"
    corpus.unlink()
    corpus.symlink_to(secret)
    with pytest.raises(TaskFileError, match=r"task.yaml:5: spec.run.input: corpus.txt leads out of the task"):
        load_input(task, load(task))


@pytest.mark.parametrize(("name", "why"), [("gone.txt", "cannot be read: No such file"), ("folder", "is no file")])
def test_inputs_that_are_none(task: Path, name: str, why: str) -> None:
    (task.parent / "folder").mkdir()
    task.write_text(SIX_LINES.replace("corpus.txt", name))
    with pytest.raises(TaskFileError, match=f"task.yaml:5: spec.run.input: {name} {why}"):
        load_input(task, load(task))


def test_an_input_may_lie_below_and_be_linked_within(task: Path) -> None:
    (task.parent / "data").mkdir()
    (task.parent / "data" / "link").symlink_to(task.parent / "corpus.txt")
    task.write_text(SIX_LINES.replace("corpus.txt", "data/link"))
    assert load_input(task, load(task)) == (task.parent / "corpus.txt").read_bytes()
