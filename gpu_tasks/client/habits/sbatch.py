"""Batch scripts of Slurm as jobs: the script goes along as an input, what its #SBATCH lines ask for is carried over.

The options are those of sbatch's manual page (https://slurm.schedmd.com/sbatch.html). Always: the script is not run,
nor any part of it, to find out what it asks for.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from gpu_tasks.client.habits.amounts import cores_of, size_for_cores, size_of, slurm_time
from gpu_tasks.client.habits.drafts import ProgramDraft
from gpu_tasks.client.habits.foreign import Carrying, Foreign, ForeignFileError, image_for

SCRIPT_BYTES_MAX = 192 * 1024
LINES_MAX = 10_000
SHORT = {
    "J": "job-name", "t": "time", "G": "gpus", "c": "cpus-per-task", "a": "array", "d": "dependency", "o": "output",
    "e": "error", "D": "chdir", "N": "nodes", "n": "ntasks", "p": "partition", "A": "account", "q": "qos",
    "C": "constraint", "i": "input", "w": "nodelist", "x": "exclude",
}  # fmt: skip
FLAGS = ("exclusive", "requeue", "no-requeue", "overcommit", "hold", "parsable", "verbose", "quiet", "wait")
"""Options that take no value, or can do without."""
UNNEEDED = {
    "partition": "there are no partitions: whoever bids and fits may run it",
    "account": "the key pays",
    "qos": "the price decides",
    "output": "`ogpu logs` shows what it writes, and /out comes back",
    "error": "`ogpu logs` shows what it writes, and /out comes back",
    "mail-type": "`ogpu watch` says how it goes",
    "mail-user": "`ogpu watch` says how it goes",
    "requeue": "the runner-up or the next auction takes over by itself",
    "no-requeue": "the runner-up or the next auction takes over by itself",
    "parsable": "`--json` prints for programs",
    "verbose": "nothing depends on it",
    "quiet": "nothing depends on it",
    "wait": "`ogpu submit --watch` waits",
    "priority": "the price decides",
    "nice": "the price decides",
    "comment": "nothing depends on it",
}
CLUSTER_COMMANDS = re.compile(
    r"\s*(srun|mpirun|mpiexec|module|ml|sbatch|squeue|scontrol|sacct|scancel)(?:\s|$)", re.ASCII
)
CLUSTER_VARIABLES = re.compile(r"SLURM_[A-Z0-9_]+", re.ASCII)
CLUSTER_GIVEN = ("SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT", "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_MAX")
"""Variables that the members of an array find."""
_GPUS = re.compile(
    r"(?:gpu:)?(?:([A-Za-z][A-Za-z0-9_.-]{0,40})[:=])?([0-9]{1,4})|gpu(?::([A-Za-z][A-Za-z0-9_.-]{0,40}))?", re.ASCII
)
_AFTER = re.compile(r"(afterok|afterany|after):(0x[0-9a-f]{64})", re.ASCII)


@dataclass(slots=True)
class _Found:
    carrying: Carrying = field(default_factory=Carrying)
    fields: dict[str, str] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    hints: list[str] = field(default_factory=list)
    memory_per_core: str = ""
    seen: set[str] = field(default_factory=set)
    """What of a cluster the script was found to use."""


def from_sbatch(script: bytes, file_name: str, image: str | None, max_price: str, network: str = "") -> Foreign:
    """A job that runs the script; ForeignFileError."""
    if len(script) > SCRIPT_BYTES_MAX:
        raise ForeignFileError(f"the script has more than {SCRIPT_BYTES_MAX:,} bytes: nothing so long is an input")
    try:
        text = script.decode()
    except UnicodeDecodeError:
        raise ForeignFileError("the script is not UTF-8") from None
    if "\r" in text:
        raise ForeignFileError(
            "the lines of the script end as in Windows, which no shell reads: save it with Unix ends"
        )
    # The one end of a line to a shell and to Slurm: what an editor shows as one line is one here too.
    lines = text.split("\n")[:LINES_MAX]
    found = _Found()
    for name, value in _options(lines, found.carrying):
        _take(found, name, value)
    asked = found.fields
    if found.memory_per_core:
        asked["memory"] = size_for_cores(found.memory_per_core, asked.get("cpu", "1"))
    _note_cluster(lines, found)
    draft = ProgramDraft(
        name=asked.get("name", file_name.rpartition(".")[0] or file_name),
        image=image_for(image, ""),
        max_price=max_price,
        command=(*_interpreter(lines), f"/in/{file_name}"),
        env=found.env,
        inputs=(file_name,),
        network=network,
        gpus=asked.get("gpus", ""),
        cpu=asked.get("cpu", ""),
        memory=asked.get("memory", ""),
        disk=asked.get("disk", ""),
        time=asked.get("time", ""),
    )
    return Foreign(draft, found.carrying, tuple(found.hints))


def _note_cluster(lines: list[str], found: _Found) -> None:
    """What the script uses of a cluster: it goes along as it is, and finds none of it."""
    for line in lines:
        if line.lstrip().startswith("#"):
            continue
        command = CLUSTER_COMMANDS.match(line)
        names = [command[1]] if command is not None else []
        for name in (*names, *CLUSTER_VARIABLES.findall(line)):
            if name not in found.seen and name not in CLUSTER_GIVEN and name not in found.env:
                found.seen.add(name)
                why = "the script uses it, and there is no Slurm in the container"
                found.carrying.leave(name, why)


def _interpreter(lines: list[str]) -> list[str]:
    """What the first line names; the shell where it names nothing."""
    first = lines[0] if lines else ""
    try:
        words = shlex.split(first[2:]) if first.startswith("#!") else []
    except ValueError:
        words = []
    return words or ["/bin/sh"]


def _options(lines: list[str], carrying: Carrying) -> Iterator[tuple[str, str]]:
    """What #SBATCH lines say, up to the first command."""
    for line in lines[1:] if lines and lines[0].startswith("#!") else lines:
        if line.strip() and not line.startswith("#"):
            return
        if not line.startswith(("#SBATCH ", "#SBATCH\t")):
            continue
        try:
            words = shlex.split(line.removeprefix("#SBATCH"), comments=True)
        except ValueError:
            carrying.leave(line[:80], "its quotes do not match")
            continue
        yield from _pairs(words, carrying)


def _pairs(words: list[str], carrying: Carrying) -> Iterator[tuple[str, str]]:
    rest = list(reversed(words))
    while rest:
        word = rest.pop()
        if word.startswith("--"):
            name, is_set, value = word[2:].partition("=")
        elif word.startswith("-") and len(word) > 1:
            name, value = SHORT.get(word[1], word[1]), word[2:]
            is_set = value
        else:
            carrying.leave(word, "is no option")
            continue
        if not is_set and name not in FLAGS and rest and not rest[-1].startswith("-"):
            value = rest.pop()
        yield name, value


def _take(found: _Found, name: str, value: str) -> None:
    """One option, carried over or left out."""
    if name in _CARRIED:
        _CARRIED[name](found, value)
    elif name in UNNEEDED:
        found.carrying.leave(f"--{name}", UNNEEDED[name], matters=False)
    else:
        found.carrying.leave(f"--{name}", "a task has nothing like it")


def _gres(found: _Found, value: str) -> None:
    """Generic resources, of which GPUs are one kind."""
    for part in value.split(","):
        kind = part.partition(":")[0]
        if kind in {"gpu", "gres/gpu"}:
            _gpus(found, part.removeprefix("gres/"))
        elif part not in {"", "none"}:
            found.carrying.leave(f"--gres={part}", "only a GPU goes into a container")


def _gpus(found: _Found, value: str) -> None:
    match = _GPUS.fullmatch(value)
    if match is None:
        found.carrying.leave(f"--gpus={value}", "is no number of GPUs")
        return
    kind = match[1] or match[3]
    if kind:
        found.carrying.leave(f"GPUs of type {kind}", "devices are chosen by class: --class consumer or datacenter")
    count = int(match[2] or 1)
    if count > 1:
        found.carrying.leave(f"{count} GPUs", "a device is one GPU: one goes in")
    found.fields["gpus"] = str(min(count, 1))


def _only(what: str) -> Callable[[_Found, str], None]:
    def take(found: _Found, value: str) -> None:
        if value != "1":
            found.carrying.leave(f"--{what}={value}", "a job runs on one device; for many of them submit an --array")

    return take


def _array(found: _Found, value: str) -> None:
    found.hints.append(f"--array {shlex.quote(value)}" + " --watch" * ("%" in value))


def _dependency(found: _Found, value: str) -> None:
    match = _AFTER.fullmatch(value)
    if match is None:
        why = "name the task that it waits for: `ogpu submit --after-ok 0x…`, or --after-any"
        found.carrying.leave(f"--dependency={value}", why)
        return
    found.hints.append(f"--{'after-ok' if match[1] == 'afterok' else 'after-any'} {match[2]}")


def _export(found: _Found, value: str) -> None:
    for each in value.split(","):
        name, is_set, content = each.partition("=")
        if is_set:
            found.env[name] = content
        elif name in {"ALL", ""}:
            found.carrying.leave("--export=ALL", "your environment stays with you: name variables in spec.run.env")
        elif name != "NONE":
            found.carrying.leave(f"--export={name}", "its value is not in the script: give it with --env NAME=VALUE")


def _set(key: str, read: Callable[[str], str]) -> Callable[[_Found, str], None]:
    def take(found: _Found, value: str) -> None:
        found.fields[key] = read(value)

    return take


def _memory(found: _Found, value: str) -> None:
    found.fields["memory"] = _size(found, "--mem", value)


def _memory_per_core(found: _Found, value: str) -> None:
    found.memory_per_core = _size(found, "--mem-per-cpu", value)


def _size(found: _Found, option: str, value: str) -> str:
    size = size_of(value, option, unit="m")
    if not size:
        found.carrying.leave(f"{option}={value}", "nobody sells all of a machine: say how much it takes")
    return size


def _scratch(found: _Found, value: str) -> None:
    found.fields["disk"] = _size(found, "--tmp", value)


_CARRIED: dict[str, Callable[[_Found, str], None]] = {
    "job-name": _set("name", str),
    "time": _set("time", slurm_time),
    "mem": _memory,
    "tmp": _scratch,
    "mem-per-cpu": _memory_per_core,
    "cpus-per-task": _set("cpu", lambda value: cores_of(value, "--cpus-per-task")),
    "gres": _gres,
    "gpus": _gpus,
    "gpus-per-node": _gpus,
    "gpus-per-task": _gpus,
    "nodes": _only("nodes"),
    "ntasks": _only("ntasks"),
    "array": _array,
    "dependency": _dependency,
    "export": _export,
}
