"""What runs in one process without a network: LiteSVM, py-evm, and beside them this node while it syncs.

They do different parts of a node's work (see docs/benchmarks.md), so they are reported and nothing is judged by them.
What is not installed is named, and the rest goes on.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.figures import Figures

PROGRAMS = Path(__file__).parent / "libraries"
LIBRARIES = {"LiteSVM": ("litesvm.py", "20000", "500"), "py-evm": ("py_evm.py", "4", "500")}
"""Each with its arguments: it runs some seconds."""
NATIVE = {"ETH_HASH_BACKEND": "pysha3"}  # py-evm would take the slower of the two hashes that it finds
Said = dict[str, object]


def measure_libraries(python: Path) -> dict[str, Said]:
    """Each library's figures, or why it has none."""
    return {
        name: _of_library(name, [str(python), str(PROGRAMS / words[0]), *words[1:]])
        for name, words in LIBRARIES.items()
    }


def measure_sync() -> Said:
    """The benchmark `sync` of this node, in the libraries' words."""
    answer = subprocess.run(
        [sys.executable, "-m", "benchmarks", "sync", "--json"], stdout=subprocess.PIPE, check=True, text=True
    )
    figures: Figures = json.loads(answer.stdout.splitlines()[-1])
    return {"per_second": figures["per_second"], "cpu_us": figures["cpu_us"], **figures}


def _of_library(name: str, command: list[str]) -> Said:
    try:
        answer = subprocess.run(command, capture_output=True, check=True, text=True, env={**os.environ, **NATIVE})
    except FileNotFoundError:
        return _left_out(name, f"there is no {command[0]}")
    except subprocess.CalledProcessError as error:
        lines = error.stderr.strip().splitlines() or [f"it ended with status {error.returncode}"]
        return _left_out(name, lines[-1])
    found: Said = json.loads(answer.stdout.splitlines()[-1])
    return found


def _left_out(name: str, reason: str) -> Said:
    print(f"{name} NOT RUN: {reason}", flush=True)
    return {"not run": reason}
