"""The Python versions that must agree, each with the packages that execution needs (the wallet's lock)."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
VERSIONS = ("3.11", "3.12")
LOCK = ROOT / "locks" / "wallet.lock"


class NotPrepared(Exception):
    """The packages of the lock could not be installed for an interpreter."""


def interpreters() -> dict[str, Path | None]:
    """For each version a Python that can execute blocks; None where this machine has no such version."""
    return {version: _prepared(version) for version in VERSIONS}


def _prepared(version: str) -> Path | None:
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        return Path(sys.executable)
    folder = ROOT / f".venv-replay-{version}"
    python = folder / "bin" / "python"
    stamp = folder / "stamp"
    if stamp.exists() and stamp.read_bytes() == LOCK.read_bytes():
        return python
    found = _find(version)
    if found is None:
        return None
    print(f"preparing {folder.name} with {found}", flush=True)
    install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes", "-r", str(LOCK)]
    for command in ([str(found), "-m", "venv", "--clear", str(folder)], [str(python), *install]):
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if ran.returncode:
            raise NotPrepared(f"{' '.join(command[:4])}: {ran.stderr.strip()[-500:]}")
    stamp.write_bytes(LOCK.read_bytes())
    return python


def _find(version: str) -> Path | None:
    """`python3.12` on the path, else pyenv's newest of that version."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    on_path = shutil.which(f"python{version}")
    newest = sorted(pyenv.glob(f"{version}.*/bin/python{version}"), reverse=True)
    for candidate in [Path(on_path), *newest] if on_path else newest:
        ran = subprocess.run([candidate, "--version"], capture_output=True, text=True, check=False)
        if ran.returncode == 0 and ran.stdout.startswith(f"Python {version}."):  # a pyenv shim may stand for nothing
            return candidate
    return None
