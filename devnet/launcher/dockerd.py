"""A private container engine: a `dockerd` in a folder, on a socket there, beside any engine of the machine.

Invariant: it ends with the program that started it. Without a network it does not change the machine's network. With
one it creates bridges and firewall rules in the kernel, so it needs a network namespace of its own (`unshare --net`).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

from devnet.launcher.folder import DevnetError
from devnet.launcher.processes import dying_with, until

START_SECONDS = 60.0
STOP_SECONDS = 30.0
_NEEDED = ("dockerd", "containerd", "runc")
FOLDER_LETTERS_MAX = 70
"""The kernel limits a socket's path to 107 characters, and containerd's socket is in a nested folder."""
ADDRESS_POOL = "base=10.213.0.0/16,size=24"


def why_no_engine() -> str:
    """Return the reason why no engine can be started here, or an empty text."""
    if os.geteuid() != 0:
        return "only root can start a container engine"
    missing_programs = [name for name in _NEEDED if shutil.which(name) is None]
    if missing_programs:
        return f"not installed: {', '.join(missing_programs)} (apt-get install docker.io iptables)"
    return ""


@contextlib.contextmanager
def own_engine(folder: Path, *, has_network: bool = False) -> Iterator[str]:
    """Yield the address of an engine that runs during the block. Its folder is emptied before and removed after."""
    if reason := why_no_engine():
        raise DevnetError(f"no container engine: {reason}")
    if len(str(folder)) > FOLDER_LETTERS_MAX:
        raise DevnetError(f"no container engine: {folder} is too long for the sockets in it; name a shorter folder")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    address = f"unix://{folder / 'engine.sock'}"
    # By default dockerd changes forwarding and firewall rules of the whole machine.
    closed_options = ["--ip-forward=false", "--iptables=false", "--ip6tables=false", "--ip-masq=false"]
    with (folder / "engine.log").open("ab") as log_file:
        engine = subprocess.Popen(  # the machine's own program, from PATH
            [  # noqa: S607
                "dockerd",
                f"--data-root={folder / 'data'}",
                f"--exec-root={folder / 'run'}",
                f"--pidfile={folder / 'engine.pid'}",
                f"--host={address}",
                "--storage-driver=overlay2",
                "--bridge=none",
                f"--default-address-pool={ADDRESS_POOL}",
                *([] if has_network else closed_options),
            ],
            stdin=subprocess.DEVNULL,
            stdout=log_file,
            stderr=log_file,
            start_new_session=True,
            preexec_fn=dying_with(os.getpid(), signal.SIGTERM),  # noqa: PLW1509  # no thread exists yet
        )
    try:
        _wait_for(engine, folder)
        yield address
    finally:
        _end(engine)
        _unmount(folder)
        shutil.rmtree(folder, ignore_errors=True)


def _wait_for(engine: subprocess.Popen[bytes], folder: Path) -> None:
    log = folder / "engine.log"
    until(lambda: b"API listen on" in log.read_bytes() or engine.poll() is not None, START_SECONDS)
    if b"API listen on" not in log.read_bytes():
        last_lines = log.read_text(errors="replace").strip().splitlines()[-3:]
        raise DevnetError(f"the container engine does not start: {' / '.join(last_lines)[-600:]}")


def _end(engine: subprocess.Popen[bytes]) -> None:
    engine.terminate()
    try:
        engine.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        engine.kill()
        engine.wait()


def _unmount(folder: Path) -> None:
    """Unmount the leftovers of a killed engine, the deepest mount first."""
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for mount in sorted((mount for mount in mounts if mount.startswith(f"{folder.resolve()}/")), reverse=True):
        subprocess.run(["umount", "--lazy", mount], check=False, capture_output=True)  # noqa: S607 as above
