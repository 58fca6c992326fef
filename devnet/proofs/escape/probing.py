"""The program that tries the kernel, as files of an image."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from pathlib import Path

from devnet.launcher.errors import DevnetError
from devnet.launcher.made_images import ImageFile

PROBE_SOURCE = Path(__file__).with_name("probe.c")


def probe_files(folder: Path) -> tuple[ImageFile, ...]:
    """The program that tries the kernel, compiled here; DevnetError without a C compiler."""
    compiler = shutil.which("gcc")
    if compiler is None:
        raise DevnetError("there is no gcc: apt-get install gcc libc6-dev")
    target = folder / "probe"
    done = subprocess.run(
        [compiler, "-static", "-O1", "-o", str(target), str(PROBE_SOURCE)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise DevnetError(f"the probe does not compile: {done.stderr[-500:]}")
    content = target.read_bytes()
    return (
        ImageFile("bin/probe", content),
        ImageFile("bin/probe-as-root", content, 0o6755),
        ImageFile("image-disk", mode=0o666, device=(tarfile.BLKTYPE, 254, 0)),
        ImageFile("image-memory", mode=0o666, device=(tarfile.CHRTYPE, 1, 1)),
    )
