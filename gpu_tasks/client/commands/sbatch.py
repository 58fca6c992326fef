"""Submit a Slurm batch script: convert it, then submit the job, in one step."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cli.session import WalletSession, note
from gpu_tasks.client.commands.converters import ForeignForm, converted, read_foreign
from gpu_tasks.client.commands.submit import submit_loaded
from gpu_tasks.client.tasks.orders import LoadedTask, look_at_image
from gpu_tasks.tasks.task_kinds import read_any_task

CONVERSION = (
    "image", "archive", "max_price", "classes", "variables", "time", "cpu", "memory", "disk", "processes", "network",
    "strict",
)  # fmt: skip
"""The options of the conversion; the others are those of the submission."""


def sbatch(session: WalletSession, /, file: Path, **given: Any) -> None:
    """Carry out `ogpu sbatch`."""
    conversion = {name: given.pop(name) for name in CONVERSION}
    loaded, hints = _loaded_script(file, conversion)
    asked = _hinted_options(hints)
    given["array_text"] = given["array_text"] or asked.get("--array")
    if given["after_ok"] is None and given["after_any"] is None:
        given |= {"after_ok": asked.get("--after-ok"), "after_any": asked.get("--after-any")}
    if "--watch" in hints and not given["is_watched"]:
        note("the script limits how many members of its array run at once, so this command follows them, as --watch")
        given["is_watched"] = True
    submit_loaded(session, loaded, secret_words=(), **given)


def _loaded_script(path: Path, conversion: dict[str, Any]) -> tuple[LoadedTask, Sequence[str]]:
    """Return the job of a script with the words of its hints; WalletError for a script that is no job."""
    data = read_foreign(path)  # Once: the checked bytes are the ones to send.
    draft, hints = converted(path, data, ForeignForm.SBATCH, conversion)
    source = read_any_task(draft.text().encode(), str(path))
    image = None if source.image is None else look_at_image(conversion["archive"], source.image.sha256)
    return LoadedTask(source, {path.name: data}, image), shlex.split(" ".join(hints))


def _hinted_options(words: Sequence[str]) -> dict[str, str]:
    """Return the options of `ogpu task submit` that the script asks for, with their values."""
    return {
        word: words[place + 1] for place, word in enumerate(words) if word in {"--array", "--after-ok", "--after-any"}
    }
