"""A copy of the repository to try a recipe in: links to its files, and the recipe's own files."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOMS = (
    "runtime", "consensus", "gpu_tasks", "genesis", "durable", "wallet", "cli", "http_server", "streams", "node",
    "devnet", "simulation", "scripts", "benchmarks", "docs", "tests",
)  # fmt: skip


class LinkedHouse:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.changed: list[str] = []
        """The changed files of the repository, in order."""
        for name in ROOMS:
            (folder / name).symlink_to(ROOT / name)
        for name in ("pyproject.toml", "CONTRIBUTING.md", "ARCHITECTURE.md"):
            (folder / name).write_bytes((ROOT / name).read_bytes())

    def write(self, path: str, text: str) -> None:
        """Write a file. The folders above it become folders of the copy."""
        folder = self.folder
        for name in Path(path).parent.parts:
            folder /= name
            self._open(folder)
        file = folder / Path(path).name
        file.unlink(missing_ok=True)  # a link, behind which the original is
        file.write_text(text)

    def copy(self, *paths: str) -> None:
        """Copy files that a program of the copy will write. Through a link it would write the original."""
        for path in paths:
            self.write(path, (self.folder / path).read_text())

    def change(self, path: str, old: str, new: str) -> None:
        """Replace a text that occurs once."""
        text = (self.folder / path).read_text()
        assert text.count(old) == 1, (path, old)
        self.write(path, text.replace(old, new))
        if path not in self.changed:
            self.changed.append(path)

    def python(self, *arguments: str) -> str:
        """Return the output of a Python program of the copy, which must succeed."""
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env={"PYTHONPATH": str(self.folder)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def tested(self, *paths: str, only: str = "") -> str:
        """Return pytest's output for the tests with matching names, which must all pass."""
        return self.python("-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", *paths, "-k", only)

    @staticmethod
    def _open(folder: Path) -> None:
        if folder.exists() and not folder.is_symlink():
            return
        entries = list(folder.resolve().iterdir()) if folder.is_symlink() else []
        folder.unlink(missing_ok=True)
        folder.mkdir()
        for entry in entries:
            if entry.name != "__pycache__":
                (folder / entry.name).symlink_to(entry)
