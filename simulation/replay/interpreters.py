"""The Python versions that must agree, each with the packages that a tool needs, from the lock files."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
VERSIONS = ("3.11", "3.12")
LOCK = ROOT / "locks" / "wallet.lock"
"""The packages that execution needs."""
WHOLE_LOCK = ROOT / "locks" / "all.lock"


class NotPrepared(Exception):
    """The packages of the lock could not be installed for an interpreter."""


def interpreters(tool: str = "replay", packages: tuple[str, ...] = ()) -> dict[str, Path | None]:
    """Return a Python for each version that can execute blocks, or None if this machine lacks the version.

    `packages` are installed beside the wallet's, as the whole lock pins them, in an environment named after the tool.
    """
    whole = WHOLE_LOCK.read_text(encoding="utf-8")
    lock = "".join([LOCK.read_text(encoding="utf-8"), *(pinned(whole, package) for package in packages)])
    return {version: _prepared(version, f".venv-{tool}-{version}", lock) for version in VERSIONS}


def pinned(lock: str, package: str) -> str:
    """Return the lines of a lock that pin a package, hashes included. Raise NotPrepared if there are none."""
    lines = lock.splitlines(keepends=True)
    start = next((number for number, line in enumerate(lines) if line.startswith(f"{package}==")), None)
    if start is None:
        raise NotPrepared(f"no lock names {package}")
    rest = range(start + 1, len(lines))
    return "".join(lines[start : next((number for number in rest if not lines[number].startswith(" ")), len(lines))])


def _prepared(version: str, name: str, lock: str) -> Path | None:
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        return Path(sys.executable)
    folder = ROOT / name
    python = folder / "bin" / "python"
    stamp, wanted = folder / "stamp", folder / "lock"
    if stamp.exists() and stamp.read_text(encoding="utf-8") == lock:
        return python
    found = _find(version)
    if found is None:
        return None
    print(f"preparing {folder.name} with {found}", flush=True)
    _run([str(found), "-m", "venv", "--clear", str(folder)])
    wanted.write_text(lock, encoding="utf-8")
    options = ["--quiet", "--disable-pip-version-check", "--require-hashes", "-r", str(wanted)]
    _run([str(python), "-m", "pip", "install", *options])
    stamp.write_text(lock, encoding="utf-8")
    return python


def _run(command: list[str]) -> None:
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise NotPrepared(f"{' '.join(command[:4])}: {ran.stderr.strip()[-500:]}")


def _find(version: str) -> Path | None:
    """Return `python3.12` from the path, else pyenv's newest of that version."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    on_path = shutil.which(f"python{version}")
    newest = sorted(pyenv.glob(f"{version}.*/bin/python{version}"), reverse=True)
    for candidate in [Path(on_path), *newest] if on_path else newest:
        ran = subprocess.run([candidate, "--version"], capture_output=True, text=True, check=False)
        if ran.returncode == 0 and ran.stdout.startswith(f"Python {version}."):  # a pyenv shim may lack a version
            return candidate
    return None
