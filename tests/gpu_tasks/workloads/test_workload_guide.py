"""`docs/workloads/README.md`, followed to the letter in a copy of the house: the tests there pass with its workload."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
GUIDE = ROOT / "docs" / "workloads" / "README.md"
PACKAGE = "gpu_tasks/workloads/square_sum"
REGISTRY, SAMPLES = "gpu_tasks/workloads/registry.py", "tests/support/workload_samples.py"
FILE = re.compile(r"`([\w/]+\.py)`:\n\n```python\n(.*?)```", re.DOTALL)


@pytest.mark.nightly
def test_the_example_of_the_guide_is_a_workload(tmp_path: Path) -> None:
    """Its own test, and those that every workload has to pass: form, conformance, worker processes, judging."""
    house = House(tmp_path)
    text = GUIDE.read_text()
    files = dict(FILE.findall(text))
    assert set(files) == {
        *(f"{PACKAGE}/{name}.py" for name in ("request", "service", "form")),
        "tests/gpu_tasks/workloads/test_square_sum.py",
    }
    for path, code in files.items():
        house.write(path, code)
    house.write(f"{PACKAGE}/__init__.py", '"""Sums of squares."""\n')
    house.change(REGISTRY, "TileForm())", "TileForm(), SquareSumForm())")
    house.change(REGISTRY, "\nFORMS", "from gpu_tasks.workloads.square_sum.form import SquareSumForm\n\nFORMS")
    (sample,) = re.findall(r'^ +"square-sum": .*\n', text, re.MULTILINE)
    house.change(SAMPLES, "}\n", sample + "}\n")

    assert "3 passed" in house.tested("test_square_sum.py", "test_workload_trial.py", only="square")
    assert "failed" not in house.tested("test_forms.py", only="square-sum or distinct or name_no_workload")


class House:
    """A copy of the repository: links to its files, and what was written in it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for name in (
            "runtime",
            "consensus",
            "gpu_tasks",
            "genesis",
            "wallet",
            "http_server",
            "node",
            "devnet",
            "tests",
        ):
            (folder / name).symlink_to(ROOT / name)
        (folder / "pyproject.toml").write_bytes((ROOT / "pyproject.toml").read_bytes())

    def write(self, path: str, text: str) -> None:
        """A file; the folders above it become folders of the copy."""
        folder = self._folder
        for name in Path(path).parent.parts:
            folder /= name
            self._open(folder)
        file = folder / Path(path).name
        file.unlink(missing_ok=True)  # a link, behind which the original is
        file.write_text(text)

    def change(self, path: str, old: str, new: str) -> None:
        """Replace a text that is there once."""
        text = (self._folder / path).read_text()
        assert text.count(old) == 1, (path, old)
        self.write(path, text.replace(old, new))

    def tested(self, *files: str, only: str) -> str:
        """What pytest says of tests of workloads whose names match, all of which pass."""
        paths = [f"tests/gpu_tasks/workloads/{file}" for file in files]
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *paths, "-k", only]
        done = subprocess.run(
            command,
            cwd=self._folder,
            env={"PYTHONPATH": str(self._folder)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

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
