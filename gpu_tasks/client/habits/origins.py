"""The origins of a draft's parts: errors name the user's own words, file and line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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
    """An option, or a key of the user's file with its line."""

    words: str
    line: int | None = None


DraftOrigins = Mapping[str, DraftOrigin]
"""By key of the task file."""


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
    more = len(error.problems) - len(lines)
    return "\n".join([*lines, f"and {more} more"] if more else lines)


def _origin_of(where: str, origins: DraftOrigins) -> DraftOrigin:
    """Return the origin of a key, or of the nearest key above it; a key without one stands for itself."""
    path = where
    while path:
        if path in origins:
            return origins[path]
        path = path.rpartition(".")[0]
    return DraftOrigin(where or "the task")
