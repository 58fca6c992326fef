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
PORT = 8_080
PAGE = "served from the container"
SERVE = f"mkdir -p /workspace/www; echo {PAGE} > /workspace/www/index.html; "
SERVE += f"busybox httpd -f -p 127.0.0.1:{PORT} -h /workspace/www"
HTTP_SECONDS = 10


def visit(stage: Stage, task: str) -> list[str]:
    """Enter the container of a task, and return failures."""
    try:
        return [*_shell(stage, task), *_files(stage, task), *_port(stage, task)]
    except (DevnetError, OSError) as error:
        return [f"the container is not entered: {error}"]


def _shell(stage: Stage, task: str) -> Iterator[str]:
    words = (task, "--key", CUSTOMER_KEY, "--", "sh", "-c")
    said = stage.ogpu("exec", *words, "id -u; hostname")
    if said.split() != ["65534", "container"]:
        yield f"a shell says {said[:80]!r}"
    try:
        stage.ogpu("exec", *words, "exit 5", is_shown=False)
        yield "a program that fails there does not fail here"
    except ProgramFailedError as error:
        if error.status != 5:
            yield f"the exit code is not the program's: {error}"
    try:
        stage.ogpu("exec", task, "--key", "//Dave", "--", "id", is_shown=False)
        yield "somebody else is let in"
    except DevnetError:
        pass


def _files(stage: Stage, task: str) -> Iterator[str]:
    sent, back = stage.net.folder / "sent.bin", stage.net.folder / "back"
    sent.write_bytes(os.urandom(SENT_BYTES))
    there = f"{task}:workspace/data"
    stage.ogpu("cp", str(sent), there, "--key", CUSTOMER_KEY)
    stage.ogpu("cp", f"{there}/sent.bin", str(back), "--key", CUSTOMER_KEY)
    if not (back / "sent.bin").exists() or (back / "sent.bin").read_bytes() != sent.read_bytes():
        yield "a file comes back as another"


def _port(stage: Stage, task: str) -> Iterator[str]:
    for row in stage.ogpu_lines("port-forward", task, f"0:{PORT}", "--key", CUSTOMER_KEY):
        with urllib.request.urlopen(f"http://{row['local']}/", timeout=HTTP_SECONDS) as answer:
            if answer.read().decode().strip() != PAGE:
                yield "a service of the container says something else through its port"
        return
    yield "no port was forwarded"


SECRET = "of-nobody-else"  # noqa: S105  # a test's
EXIT_CODE = 3
INDICES = (3, 5)
TILES = 6
MAKERS = ("Alice", "Bob", "Charlie")


@dataclass(frozen=True, slots=True)
class Place:
    """The devnet and the image of an errand."""

    stage: Stage
    image: str

    @property
    def folder(self) -> Path:
        """The devnet's folder."""
        return self.stage.net.folder

    def typed(self, command: str, *words: str) -> tuple[int, str]:
        """Return the exit code and the output of `ogpu COMMAND`."""
        return self.stage.ogpu_tried(command, "--key", CUSTOMER_KEY, *words)


def job_file(place: Place, name: str, command: str, seconds: int) -> Path:
    """Write the file of a small job, paid in intervals of ten seconds, and return its path."""
    path = place.folder / f"{name}.yaml"
    path.write_text(
        f"apiVersion: ogpu/v1\nkind: Job\nmetadata: {{name: {name}}}\nspec:\n  run:\n"
        f"    image: {place.image}\n    command: [sh, -c, {json.dumps(command)}]\n"
        "  resources: {cpu: 0.2, memory: 32Mi, disk: 8Mi}\n  market: {maxPrice: 0.2 oGPU}\n"
        f"  limits: {{time: {seconds}s, interval: 10s}}\n"
    )
    return path


def run_command(place: Place) -> Iterator[str]:
    """Judge `ogpu run`: lines, outputs, a secret, the exit code."""
    folder = place.folder / "run"
    folder.mkdir()
    (folder / "words.txt").write_text("three small words\n")
    (folder / "token").write_text(SECRET)
    program = f"cat /secrets/TOKEN; echo; wc -w < /in/words.txt > /out/count; echo oops >&2; exit {EXIT_CODE}"
    code, said = place.typed(
        "run", "--image", place.image, "--max-price", "0.2 oGPU", "--time", "60s", "--memory", "32Mi", "--disk", "8Mi",
        "--in", str(folder / "words.txt"), "--secret", f"TOKEN={folder / 'token'}", "--out", str(folder / "out.tar"),
        "--postings", str(place.folder / "postings"), "--yes", "--", "sh", "-c", program,
    )  # fmt: skip
    if code != EXIT_CODE:
        yield f"`ogpu run` ends with {code}, not with its program's {EXIT_CODE}"
    if said.splitlines() != [SECRET]:
        yield f"`ogpu run` prints {said[:80]!r}, not what its program wrote"
    if files_of(folder / "out.tar").get("count") != b"3\n":
        yield "its outputs are others"


def run_array(place: Place) -> Iterator[str]:
    """`ogpu task submit --array`: at once on two devices, none twice; then one more behind them."""
    path = job_file(place, "array", "echo $OGPU_ARRAY_INDEX > /out/index; sleep 45", 60)
    options = ("--postings", str(place.folder / "postings"), "--yes")
    words = (str(path), "--array", f"{','.join(map(str, INDICES))}%{len(INDICES)}", "--watch", *options)
    code, said = place.typed("task submit", *words)
    rows = json.loads(said) if said else []
    if code or [row["index"] for row in rows] != list(INDICES) or any(row["exit_code"] != 0 for row in rows):
        yield f"the array ends with {code}: {rows}"
        return
    slots = [record(place.stage, bytes.fromhex(row["task"][2:])).slots[0] for row in rows]
    if slots[0].device == slots[1].device:
        yield "both ran on one device"
    if max(slot.started_at for slot in slots) >= min(slot.finished_at for slot in slots):
        yield "one ran after the other"
    for row in rows:
        out = place.folder / f"array-{row['index']}.tar"
        place.typed("task result", row["task"], "--out", str(out))
        if files_of(out).get("index") != f"{row['index']}\n".encode():
            yield f"member {row['index']} found another index"
    _, again = place.typed("task submit", *words)
    if [row["task"] for row in json.loads(again)] != [row["task"] for row in rows]:
        yield "the same command again submits others"
    code, _ = place.typed("task submit", str(path), "--after-ok", rows[0]["task"], "--dry-run", *options)
    if code:
        yield "what waits for a task that ended well does not go on"
    _, told = place.typed("task history")
    found = {row["task"]: (row["state"], row["exit_code"]) for row in json.loads(told)}
    if any(found.get(row["task"]) != ("completed", 0) for row in rows):
        yield f"`ogpu task history` says otherwise: {found}"


def requeue_job(place: Place) -> Iterator[str]:
    """`ogpu task submit --requeue`: a job that its time limit cut off becomes one further task, and no third one."""
    path = job_file(place, "endless", "echo begun > /out/state; sleep 600", 20)
    options = ("--postings", str(place.folder / "postings"), "--yes")
    code, said = place.typed("task submit", str(path), "--watch", "--requeue", "1", *options)
    tasks = list(dict.fromkeys(json.loads(line)["task"] for line in said.splitlines()))
    if code or len(tasks) != 2:
        yield f"`ogpu task submit --requeue 1` ends with {code}, after {len(tasks)} tasks"
        return
    for task in tasks:
        out = place.folder / f"{task[:10]}-endless.tar"
        place.typed("task result", task, "--out", str(out))
        if files_of(out).get("state") != b"begun\n":
            yield f"{task} left no outputs"


def buy_picture(place: Place) -> Iterator[str]:
    """`ogpu unit picture`: tiles from three providers, put together."""
    out = place.folder / "still-life.png"
    code, said = place.typed(
        "offer create-service", "--workload", "render-tile", "--name", "tiles", "--price-min", "0.001",
        "--price-max", "0.1", "--ramp", "20", "--commit-window", "60", "--max-tokens", "4000000000", "--yes",
    )  # fmt: skip
    if code:
        yield "no service is created"
        return
    service = json.loads(said)["service"]
    for name in MAKERS:
        device = _device_of(place.stage, name)
        place.stage.provider(name, "offer", device, "--service", str(service), "--ask", "0.001")
    code, said = place.typed(
        "unit picture", "--scene", str(EXAMPLES / "still-life.txt"), "--size", "96x64", "--tiles", str(TILES), "--out",
        str(out), "--postings", str(place.folder / "postings"), "--yes",
    )  # fmt: skip
    if code or not out.exists():
        yield f"the picture is not bought: {code}"
        return
    makers = {tile["provider"] for tile in json.loads(said)["tiles"]}
    if len(makers) < len(MAKERS):
        yield f"its tiles come from {len(makers)} providers"


def _device_of(stage: Stage, name: str) -> str:
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
