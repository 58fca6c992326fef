"""The folder of a devnet, apart from the layout, so that the command line's help imports nothing else."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from wallet.errors import CodedError

DEFAULT_FOLDER = Path("out") / "devnet"
FOLDER_VARIABLE = "OGPU_DEVNET"


class DevnetError(CodedError):
    """An error that the user can correct. The message says how."""


def chosen_folder(given: Path | None) -> Path:
    """Return the devnet's folder: the given one, else the environment's, else out/devnet."""
    return given or Path(os.environ.get(FOLDER_VARIABLE) or DEFAULT_FOLDER)


def named_command(folder: Path) -> str:
    """Return the `ogpu-devnet` command for this folder, as the user would type it in the current shell."""
    return "ogpu-devnet" if folder == chosen_folder(None) else f"ogpu-devnet --folder {shlex.quote(str(folder))}"
