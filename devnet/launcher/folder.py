"""Where a devnet's files are; apart from the layout, so that the help of the command line needs nothing else."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from wallet.errors import CodedError

DEFAULT_FOLDER = Path("out") / "devnet"
FOLDER_VARIABLE = "OGPU_DEVNET"


class DevnetError(CodedError):
    """Something that the person at the terminal can put right; the message says how."""


def chosen_folder(given: Path | None) -> Path:
    """The devnet's folder: what was asked for, else what the environment names, else out/devnet."""
    return given or Path(os.environ.get(FOLDER_VARIABLE) or DEFAULT_FOLDER)


def named_command(folder: Path) -> str:
    """How a person calls `ogpu-devnet` for this folder, in the shell and place in which this one was called."""
    return "ogpu-devnet" if folder == chosen_folder(None) else f"ogpu-devnet --folder {shlex.quote(str(folder))}"
