"""What customers do in one line: a command run, an array of tasks, a picture; each with what must come of it.

Always: everything is done by the programs that people run, and what they print is what is judged.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from devnet.demo.task_sale import EXAMPLES, TaskSale, record
from devnet.demo.telling import Narrator
from devnet.launcher import programs
from devnet.launcher.layout import Devnet
from genesis import dev_accounts
from runtime.cryptography.ss58 import encode as ss58

SECRET = "of-nobody-else"  # noqa: S105  # a test's
EXIT_CODE = 3
INDICES = (3, 5)
TILES = 6
MAKERS = ("Alice", "Bob", "Charlie")


@dataclass(frozen=True, slots=True)
class Place:
    """Where errands are run."""

    net: Devnet
    image: str
    key: str
    tell: Narrator

    def typed(self, command: str, *words: str) -> tuple[int, str]:
        """What `ogpu COMMAND` ends with, and prints."""
        options = ("--url", self.net.members[0].rpc_url, command, "--key", self.key, *words)
        return programs.tried("ogpu", *options, keyring=self.net.keyring, show=self.tell.command)


@dataclass(frozen=True, slots=True)
class Errand:
    """Something that a customer has done; `do` says what was not as it must be."""

    name: str
    title: str
    do: Callable[[Place], Iterator[str]]


def job_file(place: Place, name: str, command: str, seconds: int) -> Path:
    """The file of a small job, paid in intervals of ten seconds."""
    path = place.net.folder / f"{name}.yaml"
    path.write_text(
        f"apiVersion: ogpu/v1\nkind: Job\nmetadata: {{name: {name}}}\nspec:\n  run:\n"
        f"    image: {place.image}\n    command: [sh, -c, {json.dumps(command)}]\n"
        "  resources: {cpu: 0.2, memory: 32Mi, disk: 8Mi}\n  market: {maxPrice: 0.2 oGPU}\n"
        f"  limits: {{time: {seconds}s, interval: 10s}}\n"
    )
    return path


def run_command(place: Place) -> Iterator[str]:
    """`ogpu run`: lines, outputs, a secret, the exit code."""
    folder = place.net.folder / "run"
    folder.mkdir()
    (folder / "words.txt").write_text("three small words\n")
    (folder / "token").write_text(SECRET)
    program = f"cat /secrets/TOKEN; echo; wc -w < /in/words.txt > /out/count; echo oops >&2; exit {EXIT_CODE}"
    code, said = place.typed(
        "run", "--image", place.image, "--max-price", "0.2 oGPU", "--time", "60s", "--memory", "32Mi", "--disk", "8Mi",
        "--in", str(folder / "words.txt"), "--secret", f"TOKEN={folder / 'token'}", "--out", str(folder / "out.tar"),
        "--postings", str(place.net.folder / "postings"), "--yes", "--", "sh", "-c", program,
    )  # fmt: skip
    if code != EXIT_CODE:
        yield f"`ogpu run` ends with {code}, not with its program's {EXIT_CODE}"
    if said.splitlines() != [SECRET]:
        yield f"`ogpu run` prints {said[:80]!r}, not what its program wrote"
    if _content(folder / "out.tar", "count") != b"3\n":
        yield "its outputs are others"


def run_array(place: Place) -> Iterator[str]:
    """`ogpu submit --array`: at once on two devices, none twice; then one more behind them."""
    path = job_file(place, "array", "echo $OGPU_ARRAY_INDEX > /out/index; sleep 45", 60)
    options = ("--postings", str(place.net.folder / "postings"), "--yes")
    words = (str(path), "--array", f"{','.join(map(str, INDICES))}%{len(INDICES)}", "--watch", *options)
    code, said = place.typed("submit", *words)
    rows = json.loads(said) if said else []
    if code or [row["index"] for row in rows] != list(INDICES) or any(row["exit_code"] != 0 for row in rows):
        yield f"the array ends with {code}: {rows}"
        return
    slots = [record(place.net, TaskSale(bytes.fromhex(row["task"][2:]))).slots[0] for row in rows]
    if slots[0].device == slots[1].device:
        yield "both ran on one device"
    if max(slot.started_at for slot in slots) >= min(slot.finished_at for slot in slots):
        yield "one ran after the other"
    for row in rows:
        out = place.net.folder / f"array-{row['index']}.tar"
        place.typed("result", row["task"], "--out", str(out))
        if _content(out, "index") != f"{row['index']}\n".encode():
            yield f"member {row['index']} found another index"
    _, again = place.typed("submit", *words)
    if [row["task"] for row in json.loads(again)] != [row["task"] for row in rows]:
        yield "the same command again submits others"
    code, _ = place.typed("submit", str(path), "--after-ok", rows[0]["task"], "--dry-run", *options)
    if code:
        yield "what waits for a task that ended well does not go on"
    _, told = place.typed("history")
    found = {row["task"]: (row["state"], row["exit_code"]) for row in json.loads(told)}
    if any(found.get(row["task"]) != ("completed", 0) for row in rows):
        yield f"`ogpu history` says otherwise: {found}"


def requeue_job(place: Place) -> Iterator[str]:
    """`ogpu submit --requeue`: what its time limit cut off is another task, once and no more."""
    path = job_file(place, "endless", "echo begun > /out/state; sleep 600", 20)
    options = ("--postings", str(place.net.folder / "postings"), "--yes")
    code, said = place.typed("submit", str(path), "--watch", "--requeue", "1", *options)
    tasks = list(dict.fromkeys(json.loads(line)["task"] for line in said.splitlines()))
    if code or len(tasks) != 2:
        yield f"`ogpu submit --requeue 1` ends with {code}, after {len(tasks)} tasks"
        return
    for task in tasks:
        out = place.net.folder / f"{task[:10]}-endless.tar"
        place.typed("result", task, "--out", str(out))
        if _content(out, "state") != b"begun\n":
            yield f"{task} left no outputs"


def buy_picture(place: Place) -> Iterator[str]:
    """`ogpu picture`: tiles from three providers, put together."""
    net, out = place.net, place.net.folder / "still-life.png"
    code, said = place.typed(
        "create-service", "--workload", "render-tile", "--name", "tiles", "--price-min", "0.001", "--price-max", "0.1",
        "--ramp", "20", "--lease", "60", "--max-tokens", "4000000000", "--yes",
    )  # fmt: skip
    if code:
        yield "no service is created"
        return
    service = json.loads(said)["service"]
    for name in MAKERS:
        member = net.member(name)
        device = _device_of(net, name)
        words = ("--url", member.rpc_url, "--key", f"//{name}//provider", "offer", device)
        base = ("--base-path", str(net.home(member) / "provider"))
        asked = ("--service", str(service), "--ask", "0.001")
        programs.run("ogpu-provider", *base, *words, *asked, keyring=net.keyring, show=place.tell.command)
    code, said = place.typed(
        "picture", "--scene", str(EXAMPLES / "still-life.txt"), "--size", "96x64", "--tiles", str(TILES), "--out",
        str(out), "--postings", str(net.folder / "postings"), "--yes",
    )  # fmt: skip
    if code or not out.exists():
        yield f"the picture is not bought: {code}"
        return
    makers = {tile["provider"] for tile in json.loads(said)["tiles"]}
    if len(makers) < len(MAKERS):
        yield f"its tiles come from {len(makers)} providers"


def _device_of(net: Devnet, name: str) -> str:
    stash = ss58(dev_accounts.stash(name))
    rows = json.loads(programs.run("ogpu", "--url", net.members[0].rpc_url, "providers", keyring=net.keyring))
    return next(str(row["device"]) for row in rows if row["provider"] == stash)


def _content(path: Path, name: str) -> bytes | None:
    if not path.exists():
        return None
    with tarfile.open(path) as archive:
        content = archive.extractfile(name) if name in archive.getnames() else None
        return None if content is None else content.read()


ERRANDS = (
    Errand("run", "A command line: `ogpu run`, with a secret, lines, outputs and its exit code", run_command),
    Errand("array", "An array of two, at once on two devices; the same command again; a task behind it", run_array),
    Errand("requeued", "A job that its time limit cuts off, submitted again once", requeue_job),
    Errand("picture", "A picture out of tiles from three providers", buy_picture),
)
