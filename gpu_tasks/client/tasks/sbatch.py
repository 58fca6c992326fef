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
class _Conversion:
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
        reason = f"the script has more than {SCRIPT_BYTES_MAX:,} bytes, the limit of an input"
        raise ForeignFileError(reason, code="script_too_long")
    try:
        text = script.decode()
    except UnicodeDecodeError:
        raise ForeignFileError("the script is not UTF-8. Save it as UTF-8", code="not_utf8") from None
    if text.startswith("\ufeff"):
        reason = "the script begins with a byte order mark, which no shell accepts. Remove it"
        raise ForeignFileError(reason, code="byte_order_mark")
    if "\r" in text:
        raise ForeignFileError(
            "the script has Windows line endings, which no shell accepts. Save it with Unix line endings",
            code="line_endings",
        )
    # A line ends at a line feed only, as for a shell and for Slurm. An editor shows the same lines.
    lines = text.split("\n")[:LINES_MAX]
    conversion = _Conversion()
    for name, value in _directive_options(lines, conversion):
        try:
            _carry_option(conversion, name, value)
        except ForeignFileError as error:
            raise ForeignFileError(str(error), conversion.line, code=error.code) from None
    draft_fields = conversion.fields
    if conversion.memory_per_core:
        draft_fields["memory"] = size_for_cores(conversion.memory_per_core, draft_fields.get("cpu") or "1")
    _note_body(lines, conversion)
    with conversion.carrying.named_beside_errors():
        image_name = image_for(image, "", is_archived=is_archived)
    draft = ProgramDraft(
        name=draft_fields.get("name", file_name.rpartition(".")[0] or file_name),
        image=image_name,
        max_price=max_price,
        command=(*_interpreter(lines), f"/in/{file_name}"),
        env=conversion.env,
        inputs=(file_name,),
        network=network,
        gpus=draft_fields.get("gpus", ""),
        cpu=draft_fields.get("cpu", ""),
        memory=draft_fields.get("memory", ""),
        disk=draft_fields.get("disk", ""),
        time=draft_fields.get("time", ""),
    )
    return Foreign(draft, conversion.carrying, tuple(conversion.hints))


def _note_body(lines: list[str], conversion: _Conversion) -> None:
    """Note commands and variables of a cluster, which a container lacks, and secrets, which bidders read."""
    for line in lines:
        if line.lstrip().startswith("#"):
            continue
        if (set_here := _ASSIGNMENT.match(line)) is not None and looks_secret(set_here[1], set_here[2].strip("'\"")):
            reason = "every bidder can read the script. Read it from /secrets, and name it in spec.run.secrets"
            conversion.carrying.leave(f"{set_here[1]} as a secret", reason)
        command = CLUSTER_COMMANDS.match(line)
        used_names = [command[1]] if command is not None else []
        for name in (*used_names, *CLUSTER_VARIABLES.findall(line)):
            if name not in conversion.seen and name not in CLUSTER_GIVEN and name not in conversion.env:
                conversion.seen.add(name)
                reason = "the script uses it, but the container has no Slurm"
                conversion.carrying.leave(name, reason)


def _interpreter(lines: list[str]) -> list[str]:
    """Return the interpreter in the first line, or the shell without one."""
    first = lines[0] if lines else ""
    try:
        words = shlex.split(first[2:]) if first.startswith("#!") else []
    except ValueError:
        words = []
    return words or ["/bin/sh"]


def _directive_options(lines: list[str], conversion: _Conversion) -> Iterator[tuple[str, str]]:
    """Yield the options of the directives, by Slurm's own rule (src/sbatch/opt.c).

    Any line that begins with the word counts, with any text after it. The first command ends the directives. Slurm
    ignores later ones. So does this program, with a warning, because their author meant them.
    """
    carrying, is_over, is_divided = conversion.carrying, False, False
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
            conversion.line = number
            component_end = next((place for place, word in enumerate(words) if word in COMPONENTS), None)
            yield from _option_pairs(words[:component_end], carrying)
            if component_end is not None:
                is_divided = True
                carrying.leave(
                    "other components",
                    "the script runs in the first component. Submit each other one as a job of its own",
                )


def _option_pairs(words: list[str], carrying: Carrying) -> Iterator[tuple[str, str]]:
    # The forms of getopt_long(3): `-n4`, `-n 4`, `--ntasks=4` and `--ntasks 4`.
    words_left = list(reversed(words))
    while words_left:
        word = words_left.pop()
        if word.startswith("--"):
            name, is_set, value = word[2:].partition("=")
        elif word.startswith("-") and len(word) > 1:
            name, value = SHORT.get(word[1], word[1]), word[2:]
            is_set = value
        else:
            carrying.leave(word, "it is not an option")
            continue
        if not is_set and name not in FLAGS and words_left and not words_left[-1].startswith("-"):
            value = words_left.pop()
        yield name, value


PLACED = {
    "job-name": "name", "time": "time", "mem": "memory", "mem-per-gpu": "memory", "mem-per-cpu": "memory",
    "tmp": "disk", "cpus-per-task": "cpu", "cpus-per-gpu": "cpu", "gres": "gpus", "gpus": "gpus",
    "gpus-per-node": "gpus", "gpus-per-task": "gpus", "gpus-per-socket": "gpus",
}  # fmt: skip
"""The field of the draft that an option sets."""


def _carry_option(conversion: _Conversion, name: str, value: str) -> None:
    """Carry over one option, or note its omission."""
    if name in _CARRIED:
        _CARRIED[name](conversion, value)
        if (field_name := PLACED.get(name)) is not None:
            conversion.carrying.place(field_name, f"--{name}", conversion.line)
    elif name in UNNEEDED:
        conversion.carrying.leave(f"--{name}", UNNEEDED[name], matters=False)
    else:
        conversion.carrying.leave(f"--{name}", "tasks have no equivalent")


def _carry_gres(conversion: _Conversion, value: str) -> None:
    """Carry over generic resources: only GPUs."""
    for part in value.split(","):
        kind = part.partition(":")[0]
        if kind in {"gpu", "gres/gpu"}:
            _carry_gpus(conversion, part.removeprefix("gres/"))
        elif part not in {"", "none"}:
            conversion.carrying.leave(f"--gres={part}", "containers get GPUs only")


def _carry_gpus(conversion: _Conversion, value: str) -> None:
    match = _GPUS.fullmatch(value)
    if match is None:
        conversion.carrying.leave(f"--gpus={value}", "it is not a number of GPUs")
        return
    kind = match[1] or match[3]
    if kind:
        conversion.carrying.leave(
            f"GPUs of type {kind}", "a task chooses devices by class. Use --class consumer or --class datacenter"
        )
    count = int(match[2] or 1)
    if count > 1:
        conversion.carrying.leave(f"{count} GPUs", "a device is one GPU, so the task gets one")
    conversion.fields["gpus"] = str(min(count, 1))


def _carry_only_one(subject: str) -> Callable[[_Conversion, str], None]:
    def take(conversion: _Conversion, value: str) -> None:
        # Slurm also writes nodes as the least and the most.
        if value not in {"1", "1-1"}:
            conversion.carrying.leave(
                f"--{subject}={value}", "a job runs on one device. For several, submit an --array"
            )

    return take


def _carry_array(conversion: _Conversion, value: str) -> None:
    try:
        index_set(value)
    except ArrayError:
        reason = f"`ogpu task submit --array` takes at most {MEMBERS_MAX} tasks. {_first_ranges(value)}"
        conversion.carrying.leave(f"--array={value}", reason)
    else:
        conversion.hints.append(f"--array {shlex.quote(value)}" + " --watch" * ("%" in value))


def _first_ranges(value: str) -> str:
    """Name the first parts of an array that is too large."""
    match = _RANGE.fullmatch(value)
    if match is None:
        return "Submit parts of it, such as `--array 0-63`"
    first, last, step = int(match[1]), int(match[2]), int(match[3] or 1)
    range_starts = range(first, last + 1, MEMBERS_MAX * max(step, 1))[:PARTS_SHOWN]
    step_text = f":{step}" if step > 1 else ""
    commands = [f"`--array {start}-{min(last, start + (MEMBERS_MAX - 1) * step)}{step_text}`" for start in range_starts]
    is_all = range_starts[-1] + MEMBERS_MAX * step > last if range_starts else True
    return f"Submit {', '.join(commands)}{'' if is_all else ' and so on'}, one after the other"


def _carry_dependency(conversion: _Conversion, value: str) -> None:
    match = _AFTER.fullmatch(value)
    if match is None:
        reason = "name the earlier task with `ogpu task submit --after-ok 0x…`, or --after-any"
        conversion.carrying.leave(f"--dependency={value}", reason)
        return
    conversion.hints.append(f"--{'after-ok' if match[1] == 'afterok' else 'after-any'} {match[2]}")


def _carry_export(conversion: _Conversion, value: str) -> None:
    given: dict[str, str] = {}
    for assignment in value.split(","):
        name, is_set, variable_value = assignment.partition("=")
        if is_set:
            given[name] = variable_value
        elif name in {"ALL", ""}:
            conversion.carrying.leave("--export=ALL", "your environment is not sent. Name variables in spec.run.env")
        elif name != "NONE":
            reason = "the script has no value for it. Pass --env NAME=VALUE"
            conversion.carrying.leave(f"--export={name}", reason, variable=name)
    conversion.env |= conversion.carrying.variables(given, "--export", dict.fromkeys(given, conversion.line))


def _carry_time(conversion: _Conversion, value: str) -> None:
    seconds = slurm_seconds(value)
    if not 0 < seconds <= TIME_SECONDS_MAX:
        longest = written_time(TIME_SECONDS_MAX)
        more = "To buy more, use `ogpu task submit --watch --requeue N`"
        reason = f"a task buys at most {longest}, so the limit is {longest}. {more}"
        conversion.carrying.leave(f"--time={value}", reason)
        seconds = TIME_SECONDS_MAX
    conversion.fields["time"] = written_time(seconds)


def _carry_text(key: str, read: Callable[[str], str]) -> Callable[[_Conversion, str], None]:
    def take(conversion: _Conversion, value: str) -> None:
        conversion.fields[key] = read(value)

    return take


def _carry_memory(conversion: _Conversion, value: str) -> None:
    conversion.fields["memory"] = _size_text(conversion, "--mem", value)


def _carry_memory_per_core(conversion: _Conversion, value: str) -> None:
    conversion.memory_per_core = _size_text(conversion, "--mem-per-cpu", value)


def _size_text(conversion: _Conversion, option: str, value: str) -> str:
    # Slurm counts a bare number in megabytes.
    size = size_of(value, option, unit="m")
    if not size:
        conversion.carrying.leave(
            f"{option}={value}", "a task cannot ask for a whole machine. Give the size that the program needs"
        )
    return size


def _carry_scratch(conversion: _Conversion, value: str) -> None:
    conversion.fields["disk"] = _size_text(conversion, "--tmp", value)


_CARRIED: dict[str, Callable[[_Conversion, str], None]] = {
    "job-name": _carry_text("name", str),
    "time": _carry_time,
    "mem": _carry_memory,
    "tmp": _carry_scratch,
    "mem-per-cpu": _carry_memory_per_core,
    "mem-per-gpu": _carry_memory,
    "cpus-per-gpu": _carry_text("cpu", lambda value: cores_of(value, "--cpus-per-gpu")),
    "cpus-per-task": _carry_text("cpu", lambda value: cores_of(value, "--cpus-per-task")),
    "gres": _carry_gres,
    "gpus": _carry_gpus,
    "gpus-per-node": _carry_gpus,
    "gpus-per-task": _carry_gpus,
    "gpus-per-socket": _carry_gpus,
    "nodes": _carry_only_one("nodes"),
    "ntasks": _carry_only_one("ntasks"),
    "ntasks-per-node": _carry_only_one("ntasks-per-node"),
    "tasks-per-node": _carry_only_one("tasks-per-node"),
    "ntasks-per-gpu": _carry_only_one("ntasks-per-gpu"),
    "ntasks-per-socket": _carry_only_one("ntasks-per-socket"),
    "array": _carry_array,
    "dependency": _carry_dependency,
    "export": _carry_export,
}
