"""`make conformance`: the exact workloads give the same hashes on every backend and Python of this machine.

The backends are plain Python integers (`train-int8`, its small shapes, and `render-tile`), the integer reference and
NumPy, each under Python 3.11 and 3.12. PyTorch runs on the CPU and on a CUDA device, under this Python, if available.
Skipped backends are named in the line of figures and in out/conformance.json. With `--need torch-cuda:0`, a skip is a
failure. A backend with one wrong bit is always included, and must be detected. Exit 1 on a difference, or if a Python
version is missing.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpu_tasks.workloads.matmul_hash.service import CONFORMANCE
from gpu_tasks.workloads.registry import FORMS
from gpu_tasks.workloads.render_tile.conformance import HASHES as TILE_HASHES
from gpu_tasks.workloads.textgen_int8.conformance import OPERATIONS
from gpu_tasks.workloads.textgen_int8.request import COMPLETIONS, MODEL_ID
from gpu_tasks.workloads.train_int8.conformance import HASHES
from scripts.conformance import verdict
from scripts.conformance.answers import PLAIN, PLANTED
from simulation.replay.interpreters import ROOT, interpreters
from simulation.runs import ended

TRUTH = "reference"
EVERYWHERE = (TRUTH, "numpy", PLAIN)
HERE = ("torch-cpu", "torch-cuda:0", PLANTED)
"""Backends that run under this Python only: PyTorch belongs to its environment, and one planted backend is enough."""
OUT = Path("out/conformance.json")


@dataclass(frozen=True)
class Answer:
    """The answer of a backend under a Python."""

    python: str
    backend: str
    hashes: dict[str, str] = field(default_factory=dict)
    libraries: dict[str, str] = field(default_factory=dict)
    skipped: str = ""
    failed: str = ""

    @property
    def name(self) -> str:
        """The answer's name for people."""
        return f"{self.backend} under Python {self.python}"


def main() -> int:
    """Query all backends, compare, write, and summarise."""
    needed, started = _needed(), time.monotonic()
    pythons = interpreters("conformance", ("numpy",))
    answers = [
        asked(python, backend)
        for version, python in pythons.items()
        if python
        for backend in (*EVERYWHERE, *(HERE if python == Path(sys.executable) else ()))
    ]
    problems = [
        f"no Python {version} on this machine: nothing shown for it" for version, at in pythons.items() if not at
    ]
    problems += judged(answers, needed)
    seconds = round(time.monotonic() - started)
    return ended(OUT, content(answers, problems, seconds), problems, line(answers, len(problems), seconds))


def asked(python: Path, backend: str) -> Answer:
    """Return the answer of a backend, in its own process."""
    print(f"== {backend}, {python}", flush=True)
    command = [str(python), "-m", "scripts.conformance.answers", backend]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if ran.returncode:
        return Answer(python.name, backend, failed=f"ended with {ran.returncode}: {ran.stderr.strip()[-500:]}")
    said: dict[str, Any] = json.loads(ran.stdout)
    libraries: dict[str, str] = {name: said[name] for name in ("numpy", "torch") if name in said}
    return Answer(said["python"], backend, said.get("hashes", {}), libraries, said.get("skipped", ""))


def judged(answers: list[Answer], needed: frozenset[str]) -> list[str]:
    """Return the problems."""
    truth = _truth(answers)
    problems = [f"{answer.name} {answer.failed}" for answer in answers if answer.failed]
    problems += [f"{name} is needed, and was not compared" for name in sorted(needed - _compared(answers))]
    problems += [f"nothing was computed of {form.name}" for form in FORMS if not _of({form.name}, truth)]
    problems += [f"{TRUTH}: {name} is not as published" for name in verdict.unpublished(published(), truth)]
    problems += [f"the planted bit is not seen: {name}" for name in _unseen(answers)]
    for answer in answers:
        if answer.skipped or answer.failed or answer.backend == PLANTED:
            continue
        # Plain integers are too slow for all cases, so they may lack some.
        is_part = answer.backend == PLAIN
        base = truth if is_part else _of(_workloads(answer.backend), truth)
        wrong = verdict.differences(base, answer.hashes, is_part=is_part)
        wrong += [f"{name}: another result than undisturbed" for name in verdict.other_ways(answer.hashes)]
        problems += [f"{answer.name}: {name}" for name in wrong]
    return problems


def published() -> dict[str, str]:
    """Return the published vectors, by the names in the answers."""
    text = OPERATIONS | {"MODEL_ID": MODEL_ID, "COMPLETIONS": COMPLETIONS}
    return {
        **{f"train-int8 vector {name}": digest for name, digest in HASHES.items()},
        **{f"textgen-int8 vector {name}": digest for name, digest in text.items()},
        **{f"render-tile vector {name}": digest for name, digest in TILE_HASHES.items()},
        "matmul-hash vector": CONFORMANCE,
    }


def content(answers: list[Answer], problems: list[str], seconds: int) -> dict[str, object]:
    """Return the content of out/conformance.json: each backend with its versions, and the hashes once."""
    truth = _truth(answers)
    told = [
        {
            "python": answer.python,
            "backend": answer.backend,
            **answer.libraries,
            "hashes": len(answer.hashes),
            **({"skipped": answer.skipped} if answer.skipped else {}),
            **({"failed": answer.failed} if answer.failed else {}),
        }
        for answer in answers
    ]
    return {
        "problems": problems,
        "seconds": seconds,
        "together": verdict.together(truth),
        "backends": told,
        "hashes": truth,
    }


def line(answers: list[Answer], failed: int, seconds: int) -> str:
    """Return the line of figures."""
    truth = _truth(answers)
    pythons = list(dict.fromkeys(answer.python for answer in answers))
    backends = list(dict.fromkeys(answer.backend for answer in answers if answer.backend in _compared(answers)))
    resumed = sum(verdict.RESUMED in name for name in truth)
    batches, chunks = (sum(way in name for name in truth) for way in (verdict.BATCHED, verdict.CHUNKED))
    runs = sum(name.endswith(verdict.ROOT) for name in truth)
    skips = [f"{answer.backend} skipped: {answer.skipped}" for answer in answers if answer.skipped]
    parts = (
        f"{len(truth)} hashes {f'with {failed} FAILED' if failed else 'equal'} over {', '.join(backends)}",
        f"Python {', '.join(pythons)}",
        f"{runs} roots of runs, the same from each of {resumed} milestones",
        f"texts, the same in {batches} sizes of batches and {chunks} of chunks",
        "NO PLANTED BIT SEEN" if _unseen(answers) else "a planted bit seen",
        *skips,
        f"together {verdict.together(truth)}",
        f"{seconds} s",
    )
    return "conformance: " + "; ".join(parts)


def _truth(answers: list[Answer]) -> dict[str, str]:
    """Return the reference's hashes under the first Python."""
    return next((answer.hashes for answer in answers if answer.backend == TRUTH), {})


def _unseen(answers: list[Answer]) -> list[str]:
    planted = next((answer.hashes for answer in answers if answer.backend == PLANTED), {})
    return verdict.unseen(_truth(answers), planted) if planted else ["nothing was planted"]


def _workloads(backend: str) -> set[str]:
    """Return the workloads of a backend, by the first word of its name."""
    return {form.name for form in FORMS if backend.partition("-")[0] in form.backends}


def _of(workloads: set[str], hashes: dict[str, str]) -> dict[str, str]:
    return {name: digest for name, digest in hashes.items() if name.split()[0] in workloads}


def _compared(answers: list[Answer]) -> set[str]:
    """Return the backends with an answer, without the planted one."""
    return {answer.backend for answer in answers if answer.hashes and answer.backend != PLANTED}


def _needed() -> frozenset[str]:
    parser = argparse.ArgumentParser(prog="python -m scripts.conformance", description=__doc__)
    parser.add_argument("--need", action="append", default=[], help="a backend that must not be skipped")
    return frozenset(parser.parse_args().need)


if __name__ == "__main__":
    sys.exit(main())
