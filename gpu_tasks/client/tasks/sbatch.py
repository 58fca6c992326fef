"""Batch scripts of Slurm as jobs: the script becomes an input, and its #SBATCH lines are carried over.

The options are those of sbatch's manual page (https://slurm.schedmd.com/sbatch.html). Invariant: no part of the script
is run to learn its options.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from gpu_tasks.client.tasks.arrays import MEMBERS_MAX, ArrayError, index_set
from gpu_tasks.client.tasks.drafts import ProgramDraft
from gpu_tasks.client.tasks.foreign import (
    Carrying,
    Foreign,
    ForeignFileError,
    cores_of,
    image_for,
    looks_secret,
    size_for_cores,
    size_of,
    slurm_seconds,
    written_time,
)

SCRIPT_BYTES_MAX = 192 * 1024
LINES_MAX = 10_000
DIRECTIVE = "#SBATCH"
BLANKS = " \t\v\f\r"
COMPONENTS = ("hetjob", "packjob")
"""Words that begin another component of a heterogeneous job. The script runs in the first component."""
TIME_SECONDS_MAX = 21 * 3_600
"""The longest time that a task can buy on every chain with slots of up to six seconds."""
SHORT = {
    "J": "job-name", "t": "time", "G": "gpus", "c": "cpus-per-task", "a": "array", "d": "dependency", "o": "output",
    "e": "error", "D": "chdir", "N": "nodes", "n": "ntasks", "p": "partition", "A": "account", "q": "qos",
    "C": "constraint", "i": "input", "w": "nodelist", "x": "exclude",
}  # fmt: skip
FLAGS = ("exclusive", "requeue", "no-requeue", "overcommit", "hold", "parsable", "verbose", "quiet", "wait")
"""Options whose value is missing or optional."""
UNNEEDED = {
    "partition": "there are no partitions. Any suitable provider may bid",
    "account": "the key pays",
    "qos": "the price decides",
    "output": "`ogpu logs` shows the program's output, and /out is returned",
    "error": "`ogpu logs` shows the program's output, and /out is returned",
    "mail-type": "`ogpu task watch` reports progress",
    "mail-user": "`ogpu task watch` reports progress",
    "requeue": "the runner-up, or a new auction, takes over automatically",
    "no-requeue": "the runner-up, or a new auction, takes over automatically",
    "parsable": "`--json` prints for programs",
    "verbose": "it has no effect on a task",
    "quiet": "it has no effect on a task",
    "wait": "`ogpu task submit --watch` waits",
    "open-mode": "`ogpu logs` shows the program's output, and /out is returned",
    "priority": "the price decides",
    "nice": "the price decides",
    "comment": "it has no effect on a task",
}
CLUSTER_COMMANDS = re.compile(
    r"\s*(srun|mpirun|mpiexec|module|ml|sbatch|squeue|scontrol|sacct|scancel)(?:\s|$)", re.ASCII
)
CLUSTER_VARIABLES = re.compile(r"SLURM_[A-Z0-9_]+", re.ASCII)
CLUSTER_GIVEN = ("SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT", "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_MAX")
"""Variables that the members of an array receive."""
_GPUS = re.compile(
    r"(?:gpu:)?(?:([A-Za-z][A-Za-z0-9_.-]{0,40})[:=])?([0-9]{1,4})|gpu(?::([A-Za-z][A-Za-z0-9_.-]{0,40}))?", re.ASCII
)
PARTS_SHOWN = 3
_RANGE = re.compile("([0-9]{1,6})-([0-9]{1,6})(?::([0-9]{1,6}))?(?:%[0-9]+)?", re.ASCII)
_ASSIGNMENT = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=([^$`\s;|&]+)", re.ASCII)
_AFTER = re.compile(r"(afterok|afterany|after):(0x[0-9a-f]{64})", re.ASCII)


@dataclass(slots=True)
class _Found:
    carrying: Carrying = field(default_factory=Carrying)
    fields: dict[str, str] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    hints: list[str] = field(default_factory=list)
    memory_per_core: str = ""
    line: int | None = None
    """The line of the current directive."""
    seen: set[str] = field(default_factory=set)
    """The cluster commands and variables found in the script."""


def from_sbatch(
    script: bytes, file_name: str, image: str | None, max_price: str, network: str = "", *, is_archived: bool = False
) -> Foreign:
    """Return a job that runs the script. Raise ForeignFileError if it cannot be carried over."""
    if len(script) > SCRIPT_BYTES_MAX:
        why = f"the script has more than {SCRIPT_BYTES_MAX:,} bytes, the limit of an input"
        raise ForeignFileError(why, code="script_too_long")
    try:
        text = script.decode()
    except UnicodeDecodeError:
        raise ForeignFileError("the script is not UTF-8. Save it as UTF-8", code="not_utf8") from None
    if text.startswith("\ufeff"):
        why = "the script begins with a byte order mark, which no shell accepts. Remove it"
        raise ForeignFileError(why, code="byte_order_mark")
    if "\r" in text:
        raise ForeignFileError(
            "the script has Windows line endings, which no shell accepts. Save it with Unix line endings",
            code="line_endings",
        )
    # A line ends at a line feed only, as for a shell and for Slurm. An editor shows the same lines.
    lines = text.split("\n")[:LINES_MAX]
    found = _Found()
    for name, value in _options(lines, found):
        try:
            _take(found, name, value)
        except ForeignFileError as error:
            raise ForeignFileError(str(error), found.line, code=error.code) from None
    asked = found.fields
    if found.memory_per_core:
        asked["memory"] = size_for_cores(found.memory_per_core, asked.get("cpu") or "1")
    _note_body(lines, found)
    with found.carrying.named_beside_errors():
        named = image_for(image, "", is_archived=is_archived)
    draft = ProgramDraft(
        name=asked.get("name", file_name.rpartition(".")[0] or file_name),
        image=named,
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


def _note_body(lines: list[str], found: _Found) -> None:
    """Note commands and variables of a cluster, which a container lacks, and secrets, which bidders read."""
    for line in lines:
        if line.lstrip().startswith("#"):
            continue
        if (set_here := _ASSIGNMENT.match(line)) is not None and looks_secret(set_here[1], set_here[2].strip("'\"")):
            why = "every bidder can read the script. Read it from /secrets, and name it in spec.run.secrets"
            found.carrying.leave(f"{set_here[1]} as a secret", why)
        command = CLUSTER_COMMANDS.match(line)
        names = [command[1]] if command is not None else []
        for name in (*names, *CLUSTER_VARIABLES.findall(line)):
            if name not in found.seen and name not in CLUSTER_GIVEN and name not in found.env:
                found.seen.add(name)
                why = "the script uses it, but the container has no Slurm"
                found.carrying.leave(name, why)


def _interpreter(lines: list[str]) -> list[str]:
    """Return the interpreter in the first line, or the shell without one."""
    first = lines[0] if lines else ""
    try:
        words = shlex.split(first[2:]) if first.startswith("#!") else []
    except ValueError:
        words = []
    return words or ["/bin/sh"]


def _options(lines: list[str], found: _Found) -> Iterator[tuple[str, str]]:
    """Yield the options of the directives, by Slurm's own rule (src/sbatch/opt.c).

    Any line that begins with the word counts, with any text after it. The first command ends the directives. Slurm
    ignores later ones. So does this program, with a warning, because their author meant them.
    """
    carrying, is_over, is_divided = found.carrying, False, False
    for number, line in enumerate(lines, 1):
        content = line.lstrip(BLANKS)
        if not content.startswith("#"):
            is_over |= bool(content)
        elif not content.startswith(DIRECTIVE):
            continue
        elif is_over:
            carrying.leave(line[:80], "Slurm ignores directives below the first command. Move it up, or remove it")
        elif not line.startswith(DIRECTIVE):
            carrying.leave(line[:80], "Slurm ignores directives after blanks. Start the line with it, or remove it")
        elif not is_divided:
            try:
                words = shlex.split(line.removeprefix(DIRECTIVE), comments=True)
            except ValueError:
                carrying.leave(line[:80], "its quotes do not match")
                continue
            found.line = number
            end = next((place for place, word in enumerate(words) if word in COMPONENTS), None)
            yield from _pairs(words[:end], carrying)
            if end is not None:
                is_divided = True
                carrying.leave(
                    "other components",
                    "the script runs in the first component. Submit each other one as a job of its own",
                )


def _pairs(words: list[str], carrying: Carrying) -> Iterator[tuple[str, str]]:
    # The forms of getopt_long(3): `-n4`, `-n 4`, `--ntasks=4` and `--ntasks 4`.
    rest = list(reversed(words))
    while rest:
        word = rest.pop()
        if word.startswith("--"):
            name, is_set, value = word[2:].partition("=")
        elif word.startswith("-") and len(word) > 1:
            name, value = SHORT.get(word[1], word[1]), word[2:]
            is_set = value
        else:
            carrying.leave(word, "it is not an option")
            continue
        if not is_set and name not in FLAGS and rest and not rest[-1].startswith("-"):
            value = rest.pop()
        yield name, value


PLACED = {
    "job-name": "name", "time": "time", "mem": "memory", "mem-per-gpu": "memory", "mem-per-cpu": "memory",
    "tmp": "disk", "cpus-per-task": "cpu", "cpus-per-gpu": "cpu", "gres": "gpus", "gpus": "gpus",
    "gpus-per-node": "gpus", "gpus-per-task": "gpus", "gpus-per-socket": "gpus",
}  # fmt: skip
"""The field of the draft that an option sets."""


def _take(found: _Found, name: str, value: str) -> None:
    """Carry over one option, or note its omission."""
    if name in _CARRIED:
        _CARRIED[name](found, value)
        if (field_name := PLACED.get(name)) is not None:
            found.carrying.place(field_name, f"--{name}", found.line)
    elif name in UNNEEDED:
        found.carrying.leave(f"--{name}", UNNEEDED[name], matters=False)
    else:
        found.carrying.leave(f"--{name}", "tasks have no equivalent")


def _gres(found: _Found, value: str) -> None:
    """Carry over generic resources: only GPUs."""
    for part in value.split(","):
        kind = part.partition(":")[0]
        if kind in {"gpu", "gres/gpu"}:
            _gpus(found, part.removeprefix("gres/"))
        elif part not in {"", "none"}:
            found.carrying.leave(f"--gres={part}", "containers get GPUs only")


def _gpus(found: _Found, value: str) -> None:
    match = _GPUS.fullmatch(value)
    if match is None:
        found.carrying.leave(f"--gpus={value}", "it is not a number of GPUs")
        return
    kind = match[1] or match[3]
    if kind:
        found.carrying.leave(
            f"GPUs of type {kind}", "a task chooses devices by class. Use --class consumer or --class datacenter"
        )
    count = int(match[2] or 1)
    if count > 1:
        found.carrying.leave(f"{count} GPUs", "a device is one GPU, so the task gets one")
    found.fields["gpus"] = str(min(count, 1))


def _only(what: str) -> Callable[[_Found, str], None]:
    def take(found: _Found, value: str) -> None:
        # Slurm also writes nodes as the least and the most.
        if value not in {"1", "1-1"}:
            found.carrying.leave(f"--{what}={value}", "a job runs on one device. For several, submit an --array")

    return take


def _array(found: _Found, value: str) -> None:
    try:
        index_set(value)
    except ArrayError:
        why = f"`ogpu task submit --array` takes at most {MEMBERS_MAX} tasks. {_parts_of(value)}"
        found.carrying.leave(f"--array={value}", why)
    else:
        found.hints.append(f"--array {shlex.quote(value)}" + " --watch" * ("%" in value))


def _parts_of(value: str) -> str:
    """Name the first parts of an array that is too large."""
    match = _RANGE.fullmatch(value)
    if match is None:
        return "Submit parts of it, such as `--array 0-63`"
    first, last, step = int(match[1]), int(match[2]), int(match[3] or 1)
    parts = range(first, last + 1, MEMBERS_MAX * max(step, 1))[:PARTS_SHOWN]
    tail = f":{step}" if step > 1 else ""
    shown = [f"`--array {start}-{min(last, start + (MEMBERS_MAX - 1) * step)}{tail}`" for start in parts]
    is_all = parts[-1] + MEMBERS_MAX * step > last if parts else True
    return f"Submit {', '.join(shown)}{'' if is_all else ' and so on'}, one after the other"


def _dependency(found: _Found, value: str) -> None:
    match = _AFTER.fullmatch(value)
    if match is None:
        why = "name the earlier task with `ogpu task submit --after-ok 0x…`, or --after-any"
        found.carrying.leave(f"--dependency={value}", why)
        return
    found.hints.append(f"--{'after-ok' if match[1] == 'afterok' else 'after-any'} {match[2]}")


def _export(found: _Found, value: str) -> None:
    given: dict[str, str] = {}
    for each in value.split(","):
        name, is_set, content = each.partition("=")
        if is_set:
            given[name] = content
        elif name in {"ALL", ""}:
            found.carrying.leave("--export=ALL", "your environment is not sent. Name variables in spec.run.env")
        elif name != "NONE":
            why = "the script has no value for it. Pass --env NAME=VALUE"
            found.carrying.leave(f"--export={name}", why, variable=name)
    found.env |= found.carrying.variables(given, "--export", dict.fromkeys(given, found.line))


def _time(found: _Found, value: str) -> None:
    seconds = slurm_seconds(value)
    if not 0 < seconds <= TIME_SECONDS_MAX:
        longest = written_time(TIME_SECONDS_MAX)
        more = "To buy more, use `ogpu task submit --watch --requeue N`"
        why = f"a task buys at most {longest}, so the limit is {longest}. {more}"
        found.carrying.leave(f"--time={value}", why)
        seconds = TIME_SECONDS_MAX
    found.fields["time"] = written_time(seconds)


def _set(key: str, read: Callable[[str], str]) -> Callable[[_Found, str], None]:
    def take(found: _Found, value: str) -> None:
        found.fields[key] = read(value)

    return take


def _memory(found: _Found, value: str) -> None:
    found.fields["memory"] = _size(found, "--mem", value)


def _memory_per_core(found: _Found, value: str) -> None:
    found.memory_per_core = _size(found, "--mem-per-cpu", value)


def _size(found: _Found, option: str, value: str) -> str:
    # Slurm counts a bare number in megabytes.
    size = size_of(value, option, unit="m")
    if not size:
        found.carrying.leave(
            f"{option}={value}", "a task cannot ask for a whole machine. Give the size that the program needs"
        )
    return size


def _scratch(found: _Found, value: str) -> None:
    found.fields["disk"] = _size(found, "--tmp", value)


_CARRIED: dict[str, Callable[[_Found, str], None]] = {
    "job-name": _set("name", str),
    "time": _time,
    "mem": _memory,
    "tmp": _scratch,
    "mem-per-cpu": _memory_per_core,
    "mem-per-gpu": _memory,
    "cpus-per-gpu": _set("cpu", lambda value: cores_of(value, "--cpus-per-gpu")),
    "cpus-per-task": _set("cpu", lambda value: cores_of(value, "--cpus-per-task")),
    "gres": _gres,
    "gpus": _gpus,
    "gpus-per-node": _gpus,
    "gpus-per-task": _gpus,
    "gpus-per-socket": _gpus,
    "nodes": _only("nodes"),
    "ntasks": _only("ntasks"),
    "ntasks-per-node": _only("ntasks-per-node"),
    "tasks-per-node": _only("tasks-per-node"),
    "ntasks-per-gpu": _only("ntasks-per-gpu"),
    "ntasks-per-socket": _only("ntasks-per-socket"),
    "array": _array,
    "dependency": _dependency,
    "export": _export,
}
