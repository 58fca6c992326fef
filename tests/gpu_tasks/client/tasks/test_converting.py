"""`ogpu task convert`: settings and losses of each form, and the written file passes `ogpu task check`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from converted import IMAGE
from devnet.launcher.made_images import ImageFile, MadeImage
from error_codes import ended_code
from gpu_tasks.client.cli import main

COMPOSE = f"""services:
  web: {{image: '{IMAGE}', command: [serve, -p, "80"], ports: ["8080:80"], volumes: ["./a:/b"]}}
"""
SDL = f"""version: "2.0"
services: {{web: {{image: '{IMAGE}', args: [serve]}}}}
profiles:
  compute: {{web: {{resources: {{cpu: {{units: 2}}, gpu: {{units: 1}}}}}}}}
  placement: {{a: {{pricing: {{web: {{denom: uakt, amount: 1}}}}}}}}
deployment: {{web: {{a: {{profile: web, count: 1}}}}}}
"""
SCRIPT = (
    "#!/bin/bash\n#SBATCH --time=12:00:00 --array=0-9%4\n#SBATCH --gres=gpu:1 --mem=2G\necho $SLURM_ARRAY_TASK_ID\n"
)
OF_SCRIPT = ["--image", IMAGE]
PLAIN = f"services:\n  db:\n    image: {IMAGE}\n"
LIMITS = ["--time", "5h", "--cpu", "2", "--memory", "3Gi", "--disk", "4Gi", "--processes", "600"]


def convert(
    folder: Path, kind: str, text: str, *words: str, env: dict[str, str] | None = None, before: Sequence[str] = ()
) -> Result:
    file = folder / {"sbatch": "job.sh", "compose": "compose.yaml", "sdl": "deploy.yaml"}[kind]
    file.write_text(text)
    return CliRunner(env=env).invoke(main, [*before, "task", "convert", str(file), "--max-price", "2 oGPU", *words])


@pytest.mark.parametrize(
    ("kind", "text", "more"), [("compose", COMPOSE, []), ("sdl", SDL, []), ("sbatch", SCRIPT, OF_SCRIPT)]
)
def test_what_is_written_passes_the_check(tmp_path: Path, kind: str, text: str, more: list[str]) -> None:
    written = convert(tmp_path, kind, text, *more, "-o", str(tmp_path / "task.yaml"))
    assert written.exit_code == 0, written.output
    assert written.stdout == ""
    assert f"written to {tmp_path}/task.yaml" in written.stderr
    checked = CliRunner().invoke(main, ["task", "check", str(tmp_path / "task.yaml")])
    assert checked.exit_code == 0, checked.output
    shown = convert(tmp_path, kind, text, *more)
    assert shown.stdout == (tmp_path / "task.yaml").read_text()


@pytest.mark.parametrize(
    ("kind", "text", "more"), [("compose", COMPOSE, []), ("sdl", SDL, []), ("sbatch", SCRIPT, OF_SCRIPT)]
)
def test_as_json_it_is_the_same_task(tmp_path: Path, kind: str, text: str, more: list[str]) -> None:
    plain = convert(tmp_path, kind, text, *more)
    programs = convert(tmp_path, kind, text, *more, before=["--json"])
    assert json.loads(programs.stdout)["kind"] in {"Job", "Lease"}
    facts = []
    for written in (plain, programs):
        (tmp_path / "task.yaml").write_text(written.stdout)
        facts.append(CliRunner().invoke(main, ["--json", "task", "check", str(tmp_path / "task.yaml")]).stdout)
    assert facts[0] == facts[1] != ""


def test_no_file_is_written_over(tmp_path: Path) -> None:
    target = tmp_path / "task.yaml"
    target.write_text("mine")
    refused = convert(tmp_path, "compose", COMPOSE, "-o", str(target))
    assert refused.exit_code == 2
    assert "--force" in refused.stderr
    assert target.read_text() == "mine"
    assert convert(tmp_path, "compose", COMPOSE, "-o", str(target), "--force").exit_code == 0
    assert "kind: Lease" in target.read_text()


def test_strict_writes_nothing_where_something_would_be_lost(tmp_path: Path) -> None:
    target = tmp_path / "task.yaml"
    refused = convert(tmp_path, "compose", COMPOSE, "--strict", "-o", str(target))
    assert refused.exit_code == 2
    assert "! 'volumes': " in refused.stderr
    assert "error: --strict" in refused.stderr
    assert not target.exists()
    whole = COMPOSE.replace(', volumes: ["./a:/b"]', "")
    assert convert(tmp_path, "compose", whole, "--strict", *LIMITS).exit_code == 0
    assert convert(tmp_path, "sdl", SDL, "--strict", *LIMITS).exit_code == 0, "a price of another chain is no loss"


@pytest.mark.parametrize(
    ("kind", "text", "more"), [("compose", PLAIN, []), ("sdl", SDL, []), ("sbatch", "#!/bin/sh\n", OF_SCRIPT)]
)
def test_what_is_filled_in_is_said_and_can_be_given(tmp_path: Path, kind: str, text: str, more: list[str]) -> None:
    """A database without limits became one of an hour, with 64 MiB of disk."""
    said = [line for line in convert(tmp_path, kind, text, *more).stderr.splitlines() if line.startswith("! 'no ")]
    named = {"compose": {"time", "cpu", "memory", "disk", "processes"}, "sdl": {"time", "memory", "disk", "processes"},
             "sbatch": {"time", "memory", "disk", "processes"}}[kind]  # fmt: skip
    assert {line.split("'")[1].removeprefix("no ") for line in said} == named
    assert convert(tmp_path, kind, text, *more, "--strict").exit_code == 2
    given = convert(tmp_path, kind, text, *more, "--strict", *LIMITS)
    assert given.exit_code == 0, given.output
    for value in ('cpu: "2"', 'memory: "3Gi"', 'disk: "4Gi"', 'time: "5h"', "processes: 600"):
        assert value in given.stdout


def test_a_file_that_asks_for_your_secrets_does_not_get_them(tmp_path: Path) -> None:
    """The file's author can guess names of environment variables, and bidders read a task's environment."""
    text = COMPOSE.replace("command:", "environment: [CLOUD_SECRET_KEY], command:")
    secret = {"CLOUD_SECRET_KEY": "hidden"}
    found = convert(tmp_path, "compose", text, env=secret)
    assert (found.exit_code, "hidden" in found.output) == (0, False)
    assert "! 'environment CLOUD_SECRET_KEY': " in found.stderr
    given = convert(tmp_path, "compose", text, "--env", "CLOUD_SECRET_KEY", env=secret)
    assert '"CLOUD_SECRET_KEY": "hidden"' in given.stdout
    assert "- 'environment CLOUD_SECRET_KEY as a secret'" in given.stderr
    refused = convert(tmp_path, "compose", text, "--env", "NOBODY_HAS")
    assert (refused.exit_code, "NAME=VALUE" in refused.stderr) == (2, True)


def test_a_script_says_how_its_array_is_submitted(tmp_path: Path) -> None:
    found = convert(tmp_path, "sbatch", SCRIPT, *OF_SCRIPT)
    assert "submit it with `ogpu task submit --array 0-9%4 --watch FILE`" in found.stderr


def test_a_script_and_its_task_file_lie_side_by_side(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    refused = convert(tmp_path, "sbatch", SCRIPT, *OF_SCRIPT, "-o", str(tmp_path / "other" / "task.yaml"))
    assert refused.exit_code == 2
    assert "--out" in refused.stderr
    into = convert(tmp_path, "sbatch", SCRIPT, *OF_SCRIPT, "-o", str(tmp_path))
    assert into.exit_code == 0, into.output
    assert (tmp_path / "task.yaml").exists(), "a folder gets a file"


def test_more_time_than_a_task_can_buy_is_cut_and_said(tmp_path: Path) -> None:
    found = convert(tmp_path, "sbatch", SCRIPT.replace("12:00:00", "2-00:00:00"), *OF_SCRIPT)
    assert found.exit_code == 0
    assert 'time: "21h"' in found.stdout
    assert "--requeue" in found.stderr
    refused = convert(tmp_path, "sbatch", SCRIPT, *OF_SCRIPT, "--time", "2d")
    assert refused.exit_code == 2
    assert "error: --time: " in refused.stderr
    assert "21h 15m" in refused.stderr


@pytest.mark.parametrize(
    ("kind", "text", "place"),
    [
        ("compose", PLAIN + "    pids_limit: 9\n", "compose.yaml:4: pids"),
        ("compose", PLAIN + "    cpus: 999\n", "compose.yaml:4: cpus"),
        ("compose", PLAIN + "    cpus: many\n", "compose.yaml:4: cpus"),
        ("compose", PLAIN + "    mem_limit: 99999g\n", "compose.yaml:4: memory"),
        ("compose", PLAIN + "    environment:\n      A: 1\n      B: " + "x" * 4_097, "compose.yaml:6: environment.B"),
        ("compose", PLAIN + "    command: [" + "x" * 4_097 + "]\n", "compose.yaml:4: command"),
        ("compose", "services:\n  a:\n    image: Acme@sha256:" + "ab" * 32, "compose.yaml:3: image"),
        ("sdl", SDL.replace("cpu: {units: 2}", "cpu: {units: 2}, memory: {size: 9Ti}"), "deploy.yaml:4: memory.size"),
        ("sdl", SDL.replace("cpu: {units: 2}", "cpu: {units: x}"), "deploy.yaml:4: cpu.units"),
        ("sdl", SDL.replace("args: [serve]", "args: [" + "x" * 4_097 + "]"), "deploy.yaml:2: command"),
        ("sdl", SDL.replace("args:", "env: [A=1, B=" + "x" * 4_097 + "], args:"), "deploy.yaml:2: env.B"),
        ("sbatch", "#!/bin/sh\n\n#SBATCH --export=A=1,B=" + "x" * 4_097, "job.sh:3: --export.B"),
        ("sbatch", "#!/bin/sh\n#SBATCH --mem-per-cpu=9000G\n", "job.sh:2: --mem-per-cpu"),
        ("sbatch", "#!/bin/sh\n#SBATCH --mem-per-gpu=9000G\n", "job.sh:2: --mem-per-gpu"),
        ("sbatch", "#!/bin/sh\n#SBATCH --tmp=9000T\n", "job.sh:2: --tmp"),
        ("sbatch", "#!/bin/sh\n#SBATCH --gpus=1 --cpus-per-gpu=999\n", "job.sh:2: --cpus-per-gpu"),
        ("sbatch", "#!/bin/sh\n\n#SBATCH --mem=9000G\n", "job.sh:3: --mem"),
        ("sbatch", "#!/bin/sh\n#SBATCH --time=soon\n", "job.sh:2: --time"),
        ("sbatch", "#!/bin/sh\n#SBATCH -c 999\n", "job.sh:2: --cpus-per-task"),
    ],
)
def test_what_is_wrong_is_said_of_your_own_file(tmp_path: Path, kind: str, text: str, place: str) -> None:
    refused = convert(tmp_path, kind, text, *(OF_SCRIPT if kind == "sbatch" else []))
    assert refused.exit_code == 2
    assert f"{tmp_path}/{place}" in refused.stderr
    assert "spec.resources" not in refused.stderr


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["--memory", "2G"], "--memory"),
        (["--disk", "x"], "--disk"),
        (["--processes", "-1"], "--processes"),
        (["--env", "1A=x"], "--env 1A"),
        (["--env", f"{'A' * 30}={'x' * 4_097}"], f"--env {'A' * 30}"),
        (["--image", f"Acme@sha256:{'ab' * 32}"], "--image"),
    ],
)
def test_what_is_wrong_with_an_option_is_said_of_it(tmp_path: Path, words: list[str], option: str) -> None:
    refused = convert(tmp_path, "compose", PLAIN, *words)
    assert (refused.exit_code, f"error: {option}: " in refused.stderr) == (2, True), refused.stderr


def saved_image(folder: Path) -> tuple[Path, str]:
    """An archive as `docker save` writes it, and the id of its image."""
    archive, path = MadeImage((ImageFile("bin"),)).archive(is_packed=False), folder / "tool.tar"
    assert isinstance(archive.content, bytes)
    path.write_bytes(archive.content)
    return path, f"sha256:{archive.sha256}"


@pytest.mark.parametrize(
    ("kind", "text"), [("compose", "services: {web: {image: 'acme/tool:1'}}"), ("sdl", SDL), ("sbatch", SCRIPT)]
)
def test_an_image_may_be_an_archive(tmp_path: Path, kind: str, text: str) -> None:
    path, image = saved_image(tmp_path)
    archive = ["--archive", str(path)]
    target = tmp_path / "task.yaml"
    written = convert(tmp_path, kind, text, *archive, "--image", image, "-o", str(target))
    assert written.exit_code == 0, written.output
    assert CliRunner().invoke(main, ["task", "check", str(target)]).exit_code == 0
    assert 'archive: "tool.tar"' in target.read_text()
    for words in (archive, [*archive, "--image", IMAGE], ["--image", image]):
        refused = convert(tmp_path, kind, text, *words)
        assert (refused.exit_code, "imagetools" in refused.stderr) == (2, False), refused.output
        assert "--archive" in refused.stderr
    plain = convert(tmp_path, kind, text, *archive, "--image", image.removeprefix("sha256:"))
    assert plain.stdout == target.read_text()
    other = convert(tmp_path, kind, text, *archive, "--image", f"sha256:{'cd' * 32}")
    assert other.exit_code == 2
    (tmp_path / "deeper").mkdir()
    assert convert(tmp_path, kind, text, *archive, "--image", image, "-o", str(tmp_path / "deeper")).exit_code == 2


@pytest.mark.parametrize("kind", ["compose", "sdl"])
def test_a_file_of_another_kind_is_named(tmp_path: Path, kind: str) -> None:
    for text, name in (
        ("apiVersion: v1\nkind: Pod\n", "Kubernetes"),
        (SCRIPT, "a script"),
        (SDL, "Akash") if kind == "compose" else (COMPOSE, "Compose"),
    ):
        refused = convert(tmp_path, kind, text, "--from", kind)
        assert (refused.exit_code, name in refused.stderr) == (2, True)


@pytest.mark.parametrize(("kind", "text"), [("compose", COMPOSE), ("sdl", SDL), ("sbatch", SCRIPT)])
def test_the_form_is_recognised_by_content_or_named(tmp_path: Path, kind: str, text: str) -> None:
    named = convert(tmp_path, kind, text, "--image", IMAGE, "--from", kind)
    assert (named.exit_code, convert(tmp_path, kind, text, "--image", IMAGE).stdout) == (0, named.stdout)
    (tmp_path / "file").write_text(text)
    renamed = CliRunner().invoke(
        main, ["task", "convert", str(tmp_path / "file"), "--max-price", "2", "--image", IMAGE]
    )
    assert renamed.exit_code == 0, "the name of the file does not matter"


def test_a_file_of_no_known_form_is_refused_unless_it_is_named(tmp_path: Path) -> None:
    words = ["--image", IMAGE]
    unknown = convert(tmp_path, "sbatch", "echo hello\n", *words, before=["--json"])
    assert (unknown.exit_code, ended_code(unknown)) == (2, "form_unknown")
    assert convert(tmp_path, "sbatch", "echo hello\n", *words, "--from", "sbatch").exit_code == 0
    assert convert(tmp_path, "sbatch", "\n#SBATCH --mem=2G\necho hello\n", *words).exit_code == 0
    own = convert(tmp_path, "sdl", "apiVersion: ogpu/v1\nkind: Job\n", *words, before=["--json"])
    assert ended_code(own) == "form_unknown"
    assert "ogpu task submit" in own.stderr
    for more in (["--service", "web"], ["--job"]):
        assert convert(tmp_path, "sbatch", SCRIPT, *OF_SCRIPT, *more).exit_code == 2


def test_variables_and_classes_are_said_beside_the_file(tmp_path: Path) -> None:
    found = convert(
        tmp_path, "compose", COMPOSE, "--env", "A=x=y", "--class", "consumer", "--network", "outbound", "--job"
    )
    assert 'env: {"A": "x=y"}' in found.stdout
    own = COMPOSE.replace("command:", "environment: {A: file}, command:")
    assert 'env: {"A": "x=y"}' in convert(tmp_path, "compose", own, "--env", "A=x=y").stdout
    assert 'classes: ["consumer"]' in found.stdout
    assert 'network: "outbound"' in found.stdout
    assert "kind: Job" in found.stdout
    assert "NAME=VALUE" in convert(tmp_path, "compose", COMPOSE, "--env", "A").stderr


OTHER_SERVICE = {
    "compose": COMPOSE + "  db: {image: b}\n",
    "sdl": SDL.replace("services: {", "services: {db: {image: b}, "),
}


@pytest.mark.parametrize("kind", OTHER_SERVICE)
def test_service_kind_and_network_are_the_options(tmp_path: Path, kind: str) -> None:
    assert convert(tmp_path, kind, OTHER_SERVICE[kind]).exit_code == 2
    found = convert(tmp_path, kind, OTHER_SERVICE[kind], "--service", "web", "--job", "--network", "outbound")
    assert [word in found.stdout for word in ("kind: Job", 'network: "outbound"')] == [True, True], found.output
    assert "network" in convert(tmp_path, "sbatch", SCRIPT, *OF_SCRIPT, "--network", "outbound").stdout


UNSET = {
    "compose": COMPOSE.replace("command:", "environment: [MODE], command:"),
    "sdl": SDL.replace("args:", "env: [MODE], args:"),
    "sbatch": "#!/bin/sh\n#SBATCH --export=MODE\n",
}


@pytest.mark.parametrize("kind", UNSET)
def test_a_price_may_omit_its_unit(tmp_path: Path, kind: str) -> None:
    found = [
        convert(tmp_path, kind, UNSET[kind], "--image", IMAGE, "--max-price", text) for text in ("0.5", "0.5 oGPU")
    ]
    assert found[0].stdout == found[1].stdout
    assert 'maxPrice: "0.5 oGPU"' in found[0].stdout


@pytest.mark.parametrize("kind", UNSET)
def test_a_variable_that_is_given_is_no_loss(tmp_path: Path, kind: str) -> None:
    for words, is_lost in (((), True), (("--env", "MODE=1"), False)):
        found = convert(tmp_path, kind, UNSET[kind], "--image", IMAGE, *words)
        assert any(line.startswith("! ") and "MODE" in line for line in found.stderr.splitlines()) == is_lost


def test_a_script_is_read_whole_up_to_its_own_limit(tmp_path: Path) -> None:
    long = "#!/bin/sh\n" + f"{'#' * 99}\n" * 1_000 + "#SBATCH --time=7\n"
    assert 'time: "7m"' in convert(tmp_path, "sbatch", long, *OF_SCRIPT).stdout
    assert convert(tmp_path, "sbatch", "#!/bin/sh\n".ljust(192 * 1024 + 1, "#"), *OF_SCRIPT).exit_code == 2
    assert convert(tmp_path, "sbatch", "#!/bin/sh\n".ljust(192 * 1024, "#"), *OF_SCRIPT).exit_code == 0


@pytest.mark.parametrize("kind", ["compose", "sdl", "sbatch"])
def test_what_cannot_be_read_is_said(tmp_path: Path, kind: str) -> None:
    for path, code in ((tmp_path, "not_a_file"), (tmp_path / "none", "file_unreadable")):
        words = ["--json", "task", "convert", str(path), "--max-price", "1 oGPU", "--from", kind]
        assert ended_code(CliRunner().invoke(main, words)) == code
    odd = convert(tmp_path, kind, "\x1b]0;title\x07: [")
    assert odd.exit_code == 2
    assert "\x1b" not in odd.output
    assert "Traceback" not in odd.output


TAGGED = {
    "compose": "services: {web: {image: 'acme/tool:1', privileged: true, environment: [API_KEY=hunter2]}}",
    "sdl": SDL.replace(IMAGE, "acme/tool:1").replace("args:", "env: [API_KEY=hunter2], dependencies: [db], args:"),
    "sbatch": "#!/bin/sh\n#SBATCH --nodes=2\n#SBATCH --export=API_KEY=hunter2\n",
}


@pytest.mark.parametrize("kind", TAGGED)
def test_a_tagged_image_hides_nothing_else_that_is_to_be_set_right(tmp_path: Path, kind: str) -> None:
    refused = convert(tmp_path, kind, TAGGED[kind])
    assert (refused.exit_code, refused.stdout) == (2, "")
    lost = [line for line in refused.stderr.splitlines() if line.startswith("! ")]
    assert len([line for line in lost if "API_KEY" in line]) == 1
    assert len(lost) > 1
    assert "@sha256:" in refused.stderr.splitlines()[-1]


@pytest.mark.parametrize("kind", TAGGED)
def test_no_value_of_a_secret_is_written_unless_it_is_asked_for(tmp_path: Path, kind: str) -> None:
    written = convert(tmp_path, kind, TAGGED[kind], "--image", IMAGE)
    assert (written.exit_code, "hunter2" in written.output) == (0, False)
    asked = convert(tmp_path, kind, TAGGED[kind], "--image", IMAGE, "--env", "API_KEY=hunter3")
    assert "hunter3" in asked.stdout
    assert "hunter2" not in asked.output
    assert [line for line in asked.stderr.splitlines() if line.startswith("! ") and "API_KEY" in line] == []


def test_what_is_no_task_is_refused_after_all_that_is_left_out(tmp_path: Path) -> None:
    text = f"services: {{web: {{image: '{IMAGE}', privileged: true, environment: [API_KEY=hunter2]}}}}"
    refused = convert(tmp_path, "compose", text, "--memory", "1 GB of it")
    assert refused.exit_code == 2
    assert len([line for line in refused.stderr.splitlines() if line.startswith("! ")]) == 2
