"""Other programs' files, recognised by their top-level keys, for commands that expect another kind."""

from __future__ import annotations

import re
from enum import Enum

_KEY = re.compile(rb"^([A-Za-z]{1,20}):[ \t]*[\"']?([^\s\"'#]*)", re.MULTILINE)
_OWN = b"ogpu/"


class OtherFile(Enum):
    """A kind of file, and the remedy."""

    KUBERNETES = "a Kubernetes file, and no command converts it: write its container as a job (docs/tasks.md)"
    COMPOSE = "a Compose file: `ogpu from-compose` makes a task file of it"
    SDL = "an Akash deployment: `ogpu from-sdl` makes a task file of it"
    SCRIPT = "a script: `ogpu from-sbatch` makes a task file of it"


def other_file(data: bytes) -> OtherFile | None:
    """Return the kind of another program's file; None for task files and unknown files."""
    keys = {found[1]: found[2] for found in _KEY.finditer(data)}
    if b"apiVersion" in keys:
        is_other = b"kind" in keys and not keys[b"apiVersion"].startswith(_OWN)
        return OtherFile.KUBERNETES if is_other else None
    if b"services" in keys:
        return OtherFile.SDL if {b"profiles", b"deployment"} & keys.keys() else OtherFile.COMPOSE
    return OtherFile.SCRIPT if data.startswith(b"#!/") else None
