"""Copies of the tree to plant bugs in: the files that git knows or would take, with what is not committed yet.

Always: the working tree is never written to; copies are gone when their folder is closed.
"""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scripts.mutants.planted import Mutant


def copy_tree(source: Path, target: Path) -> None:
    """Copy what belongs to the project; times are kept, so that compiled files stay valid."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=source, capture_output=True, text=True, check=True).stdout.split("\0")
    for name in filter(None, names):
        if (source / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / name, target / name)


@contextmanager
def planted_in(root: Path, mutant: Mutant) -> Iterator[None]:
    """A copy with one bug in it. MutantError if it does not apply."""
    path = root / mutant.file
    sound = path.read_text(encoding="utf-8")
    try:
        _write(path, mutant.applied(sound))
        yield
    finally:
        _write(path, sound)


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    # Python trusts a compiled file of the same second and size: it would go on running the text before.
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
        compiled.unlink()
