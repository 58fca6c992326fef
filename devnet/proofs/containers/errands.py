"""Customers' use of containers: enter a running one, and run a command, an array or a picture with one command.

Invariant: all actions use `ogpu`, as customers do. The judgement uses its output, and compares returned files by byte.
"""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from devnet.launcher.folder import DevnetError
from devnet.launcher.programs import ProgramFailedError
from devnet.stage.actors.task_sale import EXAMPLES, files_of, record
from devnet.stage.network import CUSTOMER_KEY, Stage
from genesis import dev_accounts
from runtime.cryptography.ss58 import encode as ss58

SENT_BYTES = 3 * 1024 * 1024
SERVICE_PORT = 8_080
SERVED_PAGE = "served from the container"
SERVE_COMMAND = f"mkdir -p /workspace/www; echo {SERVED_PAGE} > /workspace/www/index.html; "
SERVE_COMMAND += f"busybox httpd -f -p 127.0.0.1:{SERVICE_PORT} -h /workspace/www"
HTTP_SECONDS = 10


def visit_container(stage: Stage, text: str) -> list[str]:
    """Enter the container of a task, and return failures."""
    try:
        return [*_shell_failures(stage, text), *_copy_failures(stage, text), *_port_failures(stage, text)]
    except (DevnetError, OSError) as error:
        return [f"the container is not entered: {error}"]


def _shell_failures(stage: Stage, text: str) -> Iterator[str]:
    arguments = (text, "--key", CUSTOMER_KEY, "--", "sh", "-c")
    output = stage.ogpu("exec", *arguments, "id -u; hostname")
    # 65534 is nobody: a program that runs as root needs only one hole to own the machine.
    if output.split() != ["65534", "container"]:
        yield f"a shell says {output[:80]!r}"
    try:
        stage.ogpu("exec", *arguments, "exit 5", is_shown=False)
        yield "a program that fails there does not fail here"
    except ProgramFailedError as error:
        if error.status != 5:
            yield f"the exit code is not the program's: {error}"
    try:
        stage.ogpu("exec", text, "--key", "//Dave", "--", "id", is_shown=False)
        yield "another key is let in"
    except DevnetError:
        pass


def _copy_failures(stage: Stage, text: str) -> Iterator[str]:
    sent_file, fetched_folder = stage.devnet.folder / "sent.bin", stage.devnet.folder / "back"
    sent_file.write_bytes(os.urandom(SENT_BYTES))
    container_folder = f"{text}:workspace/data"
    stage.ogpu("cp", str(sent_file), container_folder, "--key", CUSTOMER_KEY)
    stage.ogpu("cp", f"{container_folder}/sent.bin", str(fetched_folder), "--key", CUSTOMER_KEY)
    if (
        not (fetched_folder / "sent.bin").exists()
        or (fetched_folder / "sent.bin").read_bytes() != sent_file.read_bytes()
    ):
        yield "a file comes back as another"


def _port_failures(stage: Stage, text: str) -> Iterator[str]:
    for forward_row in stage.ogpu_lines("port-forward", text, f"0:{SERVICE_PORT}", "--key", CUSTOMER_KEY):
        with urllib.request.urlopen(f"http://{forward_row['local']}/", timeout=HTTP_SECONDS) as answer:
            if answer.read().decode().strip() != SERVED_PAGE:
                yield "a service of the container says something else through its port"
        return
    yield "no port was forwarded"


SECRET_TEXT = "of-nobody-else"  # noqa: S105  # a test's
EXIT_CODE = 3
ARRAY_INDICES = (3, 5)
TILE_COUNT = 6
TILE_PROVIDERS = ("Alice", "Bob", "Charlie")


@dataclass(frozen=True, slots=True)
class ErrandPlace:
    """The devnet and the image of an errand."""

    stage: Stage
    image: str

    @property
    def folder(self) -> Path:
        """The devnet's folder."""
        return self.stage.devnet.folder

    def run_ogpu(self, command: str, *arguments: str) -> tuple[int, str]:
        """Return the exit code and the output of `ogpu COMMAND`."""
        return self.stage.ogpu_tried(command, "--key", CUSTOMER_KEY, *arguments)


def job_file(place: ErrandPlace, job: str, shell_command: str, seconds: int) -> Path:
    """Write the file of a small job, paid in intervals of ten seconds, and return its path."""
    job_file_path = place.folder / f"{job}.yaml"
    job_file_path.write_text(
        f"apiVersion: ogpu/v1\nkind: Job\nmetadata: {{name: {job}}}\nspec:\n  run:\n"
        f"    image: {place.image}\n    command: [sh, -c, {json.dumps(shell_command)}]\n"
        "  resources: {cpu: 0.2, memory: 32Mi, disk: 8Mi}\n  market: {maxPrice: 0.2 oGPU}\n"
        f"  limits: {{time: {seconds}s, interval: 10s}}\n"
    )
    return job_file_path


def run_command(place: ErrandPlace) -> Iterator[str]:
    """Judge `ogpu run`: lines, outputs, a secret, the exit code."""
    run_folder = place.folder / "run"
    run_folder.mkdir()
    (run_folder / "words.txt").write_text("three small words\n")
    (run_folder / "token").write_text(SECRET_TEXT)
    script = f"cat /secrets/TOKEN; echo; wc -w < /in/words.txt > /out/count; echo oops >&2; exit {EXIT_CODE}"
    exit_code, output = place.run_ogpu(
        "run", "--image", place.image, "--max-price", "0.2 oGPU", "--time", "60s", "--memory", "32Mi",
        "--disk", "8Mi",
        "--in", str(run_folder / "words.txt"), "--secret", f"TOKEN={run_folder / 'token'}", "--out",
        str(run_folder / "out.tar"),
        "--postings", str(place.folder / "postings"), "--yes", "--", "sh", "-c", script,
    )  # fmt: skip
    if exit_code != EXIT_CODE:
        yield f"`ogpu run` ends with {exit_code}, not with its program's {EXIT_CODE}"
    if output.splitlines() != [SECRET_TEXT]:
        yield f"`ogpu run` prints {output[:80]!r}, not what its program wrote"
    if files_of(run_folder / "out.tar").get("count") != b"3\n":
        yield "its outputs are others"


def run_array(place: ErrandPlace) -> Iterator[str]:
    """`ogpu task submit --array`: at once on two devices, none twice; then one more behind them."""
    job_file_path = job_file(place, "array", "echo $OGPU_ARRAY_INDEX > /out/index; sleep 45", 60)
    options = ("--postings", str(place.folder / "postings"), "--yes")
    arguments = (
        str(job_file_path),
        "--array",
        f"{','.join(map(str, ARRAY_INDICES))}%{len(ARRAY_INDICES)}",
        "--watch",
        *options,
    )
    exit_code, output = place.run_ogpu("task submit", *arguments)
    rows = json.loads(output) if output else []
    if exit_code or [row["index"] for row in rows] != list(ARRAY_INDICES) or any(row["exit_code"] != 0 for row in rows):
        yield f"the array ends with {exit_code}: {rows}"
        return
    first_slots = [record(place.stage, bytes.fromhex(row["task"][2:])).slots[0] for row in rows]
    if first_slots[0].device == first_slots[1].device:
        yield "both ran on one device"
    if max(slot.started_at for slot in first_slots) >= min(slot.finished_at for slot in first_slots):
        yield "one ran after the other"
    for row in rows:
        outputs = place.folder / f"array-{row['index']}.tar"
        place.run_ogpu("task result", row["task"], "--out", str(outputs))
        if files_of(outputs).get("index") != f"{row['index']}\n".encode():
            yield f"member {row['index']} found another index"
    # A customer repeats a command after an interruption. That must not buy the array twice.
    _, second_output = place.run_ogpu("task submit", *arguments)
    if [row["task"] for row in json.loads(second_output)] != [row["task"] for row in rows]:
        yield "the same command again submits others"
    exit_code, _ = place.run_ogpu(
        "task submit", str(job_file_path), "--after-ok", rows[0]["task"], "--dry-run", *options
    )
    if exit_code:
        yield "the task that waited for a successful one does not start"
    _, history_json = place.run_ogpu("task history")
    states_by_task = {row["task"]: (row["state"], row["exit_code"]) for row in json.loads(history_json)}
    if any(states_by_task.get(row["task"]) != ("completed", 0) for row in rows):
        yield f"`ogpu task history` says otherwise: {states_by_task}"


def requeue_job(place: ErrandPlace) -> Iterator[str]:
    """`ogpu task submit --requeue`: a job that its time limit cut off becomes one further task, and no third one."""
    job_file_path = job_file(place, "endless", "echo begun > /out/state; sleep 600", 20)
    options = ("--postings", str(place.folder / "postings"), "--yes")
    exit_code, output = place.run_ogpu("task submit", str(job_file_path), "--watch", "--requeue", "1", *options)
    task_texts = list(dict.fromkeys(json.loads(line)["task"] for line in output.splitlines()))
    if exit_code or len(task_texts) != 2:
        yield f"`ogpu task submit --requeue 1` ends with {exit_code}, after {len(task_texts)} tasks"
        return
    for text in task_texts:
        outputs = place.folder / f"{text[:10]}-endless.tar"
        place.run_ogpu("task result", text, "--out", str(outputs))
        if files_of(outputs).get("state") != b"begun\n":
            yield f"{text} left no outputs"


def buy_picture(place: ErrandPlace) -> Iterator[str]:
    """`ogpu unit picture`: tiles from three providers, put together."""
    outputs = place.folder / "still-life.png"
    exit_code, output = place.run_ogpu(
        "offer create-service", "--workload", "render-tile", "--name", "tiles", "--price-min", "0.001",
        "--price-max", "0.1", "--ramp", "20", "--commit-window", "60", "--max-tokens", "4000000000", "--yes",
    )  # fmt: skip
    if exit_code:
        yield "no service is created"
        return
    service = json.loads(output)["service"]
    for name in TILE_PROVIDERS:
        device_text = _device_text(place.stage, name)
        place.stage.provider(name, "offer", device_text, "--service", str(service), "--ask", "0.001")
    exit_code, output = place.run_ogpu(
        "unit picture", "--scene", str(EXAMPLES / "still-life.txt"), "--size", "96x64", "--tiles",
        str(TILE_COUNT), "--out", str(outputs), "--postings", str(place.folder / "postings"), "--yes",
    )  # fmt: skip
    if exit_code or not outputs.exists():
        yield f"the picture is not bought: {exit_code}"
        return
    tile_providers = {picture_tile["provider"] for picture_tile in json.loads(output)["tiles"]}
    if len(tile_providers) < len(TILE_PROVIDERS):
        yield f"its tiles come from {len(tile_providers)} providers"


def _device_text(stage: Stage, name: str) -> str:
    stash = ss58(dev_accounts.stash(name))
    rows = json.loads(stage.ogpu("offer providers", is_shown=False))
    return next(str(row["device"]) for row in rows if row["provider"] == stash)


ERRANDS = (
    ("run", "A command line: `ogpu run`, with a secret, lines, outputs and its exit code", run_command),
    ("array", "An array of two, at once on two devices; the same command again; a task behind it", run_array),
    ("requeued", "A job that its time limit cuts off, submitted again once", requeue_job),
    ("picture", "A picture out of tiles from three providers", buy_picture),
)
"""The name, the title and the function of each errand. The function yields failures."""
