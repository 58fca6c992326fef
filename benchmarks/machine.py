"""What figures were taken on."""

import os
import platform
from importlib.metadata import version
from pathlib import Path

VERSIONS = ("PyNaCl", "numpy", "plyvel", "trio", "libp2p")


def machine() -> dict[str, object]:
    """The machine, the versions, and how busy it is now: the load counts other programs, too."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    model = next((line.partition(":")[2].strip() for line in lines if "model name" in line), platform.machine())
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "load": [round(load, 1) for load in os.getloadavg()],
        "python": platform.python_version(),
        "packages": {name: version(name) for name in VERSIONS},
    }
