"""`ogpu sbatch`: a Slurm script is converted and submitted in one step, once."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from converted import IMAGE
from error_codes import ended_code, raises_code
from gpu_tasks.client.commands.sbatch import CONVERSION, _loaded_script
from gpu_tasks.client.input_files import InputFileError
from task_customer import OF_BOB, ogpu, refusal
from wallet_runner import answer, chain

pytestmark = pytest.mark.usefixtures("stored_nowhere", "nothing_final")

SCRIPT = "#!/bin/bash\n#SBATCH --time=2:00 --mem=64M --tmp=64M{more}\necho $SLURM_JOB_ID\n"
OPTIONS = ["--image", IMAGE, "--max-price", "0.5", "--anyway", *OF_BOB]


def script(folder: Path, more: str = "") -> list[str]:
    (folder / "job.sh").write_text(SCRIPT.format(more=more))
    return ["sbatch", str(folder / "job.sh"), *OPTIONS]


def test_a_dry_run_shows_the_cost_and_sends_nothing(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        words = script(tmp_path)
        dry = answer(ogpu(tmp_path, url, *words, "--dry-run"))
        assert (dry["task"], dry["inputs"], dry["sent"]) == ("job", "job.sh", False)
        assert (dry["memory"], dry["price_max"]["ogpu"]) == ("64 MiB", "0.5")
        assert "--yes" in refusal(ogpu(tmp_path, url, *words))
        longer = answer(ogpu(tmp_path, url, *words, "--memory", "128Mi", "--dry-run"))
        assert longer["memory"] == "128 MiB", "an option replaces the script's"


def test_a_script_is_submitted_once(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        words = [*script(tmp_path), "--yes"]
        task = answer(ogpu(tmp_path, url, *words))["task"]
        assert answer(ogpu(tmp_path, url, "task", "show", "last"))["task"] == task
        assert ended_code(ogpu(tmp_path, url, *words)) == "bought_before"
        assert answer(ogpu(tmp_path, url, *words, "--again"))["task"] != task


def test_the_array_and_the_dependency_of_the_script_are_asked_for(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        rows = json.loads(ogpu(tmp_path, url, *script(tmp_path, " --array=3,5"), "--yes").stdout)
        assert [row["index"] for row in rows] == [3, 5]
        other = json.loads(ogpu(tmp_path, url, *script(tmp_path, " --array=3,5"), "--array", "7", "--yes").stdout)
        assert [row["index"] for row in other] == [7]
        unknown = " --dependency=afterok:0x" + "ee" * 32
        assert ended_code(ogpu(tmp_path, url, *script(tmp_path, unknown), "--yes")) == "task_unknown"


def test_a_script_after_the_success_of_a_task_that_failed_is_not_submitted(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        failed = answer(ogpu(tmp_path, url, *script(tmp_path), "--yes"))["task"]
        assert answer(ogpu(tmp_path, url, "task", "cancel", failed, *OF_BOB, "--yes"))["success"]
        after_ok, after_any = (f" --dependency={kind}:{failed}" for kind in ("afterok", "afterany"))
        assert ended_code(ogpu(tmp_path, url, *script(tmp_path, after_ok), "--yes")) == "dependency_failed"
        assert answer(ogpu(tmp_path, url, *script(tmp_path, after_any), "--yes"))["task"] != failed


def test_a_limit_of_an_array_follows_it(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        dry = ogpu(tmp_path, url, *script(tmp_path, " --array=0-3%2"), "--dry-run")
        assert answer(dry)["tasks"] == 4
        assert "--watch" in dry.stderr


@pytest.mark.parametrize(
    ("more", "words", "code"),
    [
        (" --nodes=2", ["--strict"], "strict"),
        (" --mem=9000G", [], "foreign_file"),
        ("", ["--time", "x"], "foreign_file"),
    ],
)
def test_what_is_no_job_is_not_submitted(tmp_path: Path, more: str, words: list[str], code: str) -> None:
    done = ogpu(tmp_path, "ws://127.0.0.1:1", *script(tmp_path, more), *words, "--yes")
    assert (done.exit_code, ended_code(done)) == (2, code)


def test_a_script_is_read_once_and_a_pipe_is_refused_without_waiting_for_its_writer(tmp_path: Path) -> None:
    content = SCRIPT.format(more="").encode()
    file, pipe = tmp_path / "job.sh", tmp_path / "pipe.sh"
    file.write_bytes(content)
    os.mkfifo(pipe)
    given = dict.fromkeys(CONVERSION)
    options = {**given, "image": IMAGE, "max_price": "0.5 oGPU", "variables": (), "strict": False}
    loaded, _ = _loaded_script(file, dict(options))
    assert loaded.inputs == {"job.sh": content}
    with raises_code(InputFileError, "not_a_file"):
        _loaded_script(pipe, dict(options))
