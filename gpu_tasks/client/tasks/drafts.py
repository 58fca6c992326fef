"""A new job or lease: from values as a person writes them to the text of its file.

Invariants:

* Any value stands in the file as a text, and as nothing else.
* An omitted value has the format's default.
* Errors name the user's own words, file and line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpu_tasks.market.devices.records import CLASS_NAMES
from gpu_tasks.tasks.container_task import JOB, LEASE
from gpu_tasks.tasks.file_words import API_VERSION, NAME_MAX
from gpu_tasks.tasks.problems import PROBLEMS_SHOWN_MAX, TaskFileError

SPEC_KEYS = {
    "name": "metadata.name",
    "image": "spec.run.image",
    "archive": "spec.run.archive",
    "command": "spec.run.command",
    "env": "spec.run.env",
    "inputs": "spec.run.inputs",
    "secrets": "spec.run.secrets",
    "network": "spec.run.network",
    "ports": "spec.run.ports",
    "gpus": "spec.resources.gpus",
    "classes": "spec.resources.classes",
    "cpu": "spec.resources.cpu",
    "memory": "spec.resources.memory",
    "disk": "spec.resources.disk",
    "processes": "spec.resources.processes",
    "max_price": "spec.market.maxPrice",
    "time": "spec.limits.time",
    "interval": "spec.limits.interval",
    "copies": "spec.verify.copies",
}
"""The keys of a task file, by the fields of a draft."""
VARIABLE_LETTERS = 20
"""Letters of a variable's name in the place of a problem."""


@dataclass(frozen=True, slots=True)
class DraftOrigin:
    """The source of a value: an option, or a key of the user's file with its line."""

    words: str
    line: int | None = None


DraftOrigins = Mapping[str, DraftOrigin]
"""The origins by key of the task file."""


def option_origins(options: Mapping[str, str]) -> dict[str, DraftOrigin]:
    """Return the options by the fields of a draft that they set."""
    return {SPEC_KEYS[name]: DraftOrigin(option) for name, option in options.items()}


def variable_key(name: str) -> str:
    """Return the key of a variable, as problems name it."""
    return f"{SPEC_KEYS['env']}.{name[:VARIABLE_LETTERS]}"


def in_own_words(error: TaskFileError, origins: DraftOrigins, file: str = "") -> str:
    """List the problems of a draft, one a line; `file` is the user's file."""
    lines = []
    for problem in error.problems[:PROBLEMS_SHOWN_MAX]:
        origin = _origin_of(problem.where, origins)
        place = f"{file}:{origin.line}: " if origin.line is not None else ""
        lines.append(f"{place}{origin.words}: {problem.text}")
    hidden_count = len(error.problems) - len(lines)
    return "\n".join([*lines, f"and {hidden_count} more"] if hidden_count else lines)


def _origin_of(where: str, origins: DraftOrigins) -> DraftOrigin:
    """Return the origin of a key, or of the nearest key above it. A key without an origin names itself."""
    path = where
    while path:
        if path in origins:
            return origins[path]
        path = path.rpartition(".")[0]
    return DraftOrigin(where or "the task")


GPU_CLASSES = tuple(name for name in CLASS_NAMES if name != "cpu")
"""The classes of devices with a GPU."""
UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class ProgramDraft:
    """The values of the file. Empty ones are left out."""

    name: str
    image: str
    max_price: str
    is_lease: bool = False
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    network: str = ""
    ports: tuple[str, ...] = ()
    gpus: str = ""
    classes: tuple[str, ...] = ()
    cpu: str = ""
    memory: str = ""
    disk: str = ""
    processes: str = ""
    time: str = ""
    interval: str = ""
    keep: str = ""
    copies: str = ""
    archive: str = ""

    def text(self) -> str:
        """Return the text of the file."""
        lines = [
            f"apiVersion: {API_VERSION}",
            f"kind: {LEASE if self.is_lease else JOB}",
            "metadata:",
            f"  name: {quoted(plain_name(self.name))}",
            "spec:",
        ]
        for title, keys in self._sections():
            lines += [f"  {title}:", *(f"    {key}: {value}" for key, value in keys.items())]
        return "\n".join(lines) + "\n"

    def json_text(self) -> str:
        """Return the same file as JSON, which is also YAML."""
        sections = self._sections()
        task_file = {
            "apiVersion": API_VERSION,
            "kind": LEASE if self.is_lease else JOB,
            "metadata": {"name": plain_name(self.name)},
            "spec": {title: {key: json.loads(value) for key, value in keys.items()} for title, keys in sections},
        }
        return json.dumps(task_file, indent=2) + "\n"

    def _sections(self) -> list[tuple[str, dict[str, str]]]:
        """Return the sections below `spec` that have a value. Each value is JSON."""
        run_keys = [("image", quoted(self.image)), ("archive", quoted_if(self.archive)),
               ("command", listed(self.command)), ("env", table(self.env)),
               ("inputs", listed(self.inputs)), ("secrets", listed(self.secrets)), ("network", quoted_if(self.network)),
               ("ports", numbers(self.ports))]  # fmt: skip
        classes = self.classes or (GPU_CLASSES if self.gpus not in {"", "0"} else ())
        resources = [("gpus", number_if(self.gpus)), ("classes", listed(classes)), ("cpu", quoted_if(self.cpu)),
                     ("memory", quoted_if(self.memory)), ("disk", quoted_if(self.disk)),
                     ("processes", number_if(self.processes))]  # fmt: skip
        limits = [
            ("time", quoted_if(self.time)),
            ("interval", quoted_if(self.interval)),
            ("keep", quoted_if(self.keep)),
        ]
        sections = [
            ("run", run_keys),
            ("resources", resources),
            ("market", [("maxPrice", quoted(self.max_price))]),
            ("limits", limits),
            ("verify", [("copies", number_if(self.copies))]),
        ]
        filled_sections = [(title, {key: value for key, value in keys if value}) for title, keys in sections]
        return [(title, keys) for title, keys in filled_sections if keys]


def plain_name(text: str) -> str:
    """Return a valid name of a task file, as close to the text as possible."""
    name = re.sub("[^a-z0-9]+", "-", text.lower())[:NAME_MAX].strip("-")
    return name or "task"


def quoted(text: str) -> str:
    """Return a text in quotes that YAML reads literally."""
    # YAML allows these characters only as escapes, and JSON does not escape them.
    return UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(text, ensure_ascii=False))


def quoted_if(text: str) -> str:
    """Return the quoted text, or nothing for an empty one."""
    return quoted(text) if text else ""


def listed(words: tuple[str, ...]) -> str:
    """Return a list of texts."""
    return f"[{', '.join(map(quoted, words))}]" if words else ""


def number_if(text: str) -> str:
    """Return a number without quotes.

    A text that is no number keeps its quotes, so that the file's reader refuses it.
    """
    return text if text.isascii() and text.isdigit() else quoted_if(text)


def numbers(words: tuple[str, ...]) -> str:
    """Return a list of numbers."""
    return f"[{', '.join(map(number_if, words))}]" if words else ""


def table(words: Mapping[str, str]) -> str:
    """Return a table of texts."""
    return f"{{{', '.join(f'{quoted(name)}: {quoted(value)}' for name, value in words.items())}}}" if words else ""
