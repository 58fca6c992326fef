"""`make conformance`: the exact workloads give the same hashes on every backend and Python of this machine.

The backends are plain Python integers (`train-int8`, its small shapes, and `render-tile`), the integer reference and
NumPy, each under Python 3.11 and 3.12. PyTorch runs on the CPU and on a CUDA device, under this Python, if available.
NumPy and PyTorch run the transformers again on each set of instructions of this processor (`instructions`), and with
`--model` a model of this machine too. Skipped backends are named in the line of figures and in out/conformance.json.
With `--need torch-cuda:0`, a skip is a failure. A backend with one wrong bit is always included, and must be detected.
Exit 1 on a difference, or if a Python version is missing.
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

from gpu_tasks.workloads.decoder_int8.conformance import LOGITS
from gpu_tasks.workloads.embed_int8.conformance import ANSWERS
from gpu_tasks.workloads.integer_transformer.conformance import OPERATIONS as TRANSFORMER_OPERATIONS
from gpu_tasks.workloads.matmul_hash.service import CONFORMANCE
from gpu_tasks.workloads.model_forms import PACKAGE_FORMS
from gpu_tasks.workloads.registry import MODEL_WORKLOADS, workload_names
from gpu_tasks.workloads.render_tile.conformance import HASHES as TILE_HASHES
from gpu_tasks.workloads.train_int8.conformance import HASHES
from scripts.conformance import verdict
from scripts.conformance.answers import PLAIN, PLANTED
from scripts.conformance.instructions import InstructionSet, usable_sets
from simulation.replay.interpreters import ROOT, interpreters
from simulation.runs import ended

TRUTH = "reference"
EVERYWHERE = (TRUTH, "numpy", PLAIN)
HERE = ("torch-cpu", "torch-cuda:0", PLANTED)
"""Backends that run under this Python only: PyTorch belongs to its environment, and one planted backend is enough."""
ON_INSTRUCTIONS = ("numpy", "torch-cpu")
"""Backends that run again on each set of instructions."""
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
    instructions: str = ""
    """The set of instructions, or empty for the libraries' own choice of instructions and all workloads."""
    model: str = ""
    """The model of this machine that answered in place of the built-in ones, or empty."""

    @property
    def name(self) -> str:
        """The answer's name for people."""
        on = f" on {self.instructions}" if self.instructions else ""
        of = f" of {self.model}" if self.model else ""
        return f"{self.backend}{of}{on} under Python {self.python}"


def main() -> int:
    """Query all backends, compare, write, and summarise."""
    options, started = _options(), time.monotonic()
    pythons = interpreters("conformance", ("numpy",))
    answers = [
        asked(python, backend)
        for version, python in pythons.items()
        if python
        for backend in (*EVERYWHERE, *(HERE if python == Path(sys.executable) else ()))
    ]
    answers += [
        asked(Path(sys.executable), backend, instructions, model)
        for model in ("", options.model)[: 1 + bool(options.model)]
        for instructions in usable_sets()
        for backend in ON_INSTRUCTIONS
    ]
    problems = [
        f"no Python {version} on this machine: nothing shown for it" for version, at in pythons.items() if not at
    ]
    problems += judged(answers, frozenset(options.need))
    seconds = round(time.monotonic() - started)
    return ended(OUT, content(answers, problems, seconds), problems, line(answers, len(problems), seconds))


def asked(python: Path, backend: str, instructions: InstructionSet | None = None, model: str = "") -> Answer:
    """Return the answer of a backend, in its own process.

    With `instructions`, the backend computes only the transformers, or only the model of this machine.
    """
    on = "" if instructions is None else instructions.name
    print("== " + ", ".join(filter(None, (backend, on, model, str(python)))), flush=True)
    command = [str(python), "-m", "scripts.conformance.answers", backend]
    # No workload is named "", so only the model remains.
    command += ["--only", "", "--model", model] if model else ["--only", ",".join(MODEL_WORKLOADS)] if on else []
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", **(instructions.variables if instructions else {})}
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    about: dict[str, Any] = {"instructions": on, "model": model}
    if ran.returncode:
        problem = f"ended with {ran.returncode}: {ran.stderr.strip()[-500:]}"
        return Answer(python.name, backend, failed=problem, **about)
    said: dict[str, Any] = json.loads(ran.stdout)
    libraries: dict[str, str] = {name: said[name] for name in ("numpy", "torch", "kernels") if name in said}
    return Answer(said["python"], backend, said.get("hashes", {}), libraries, said.get("skipped", ""), **about)


def judged(answers: list[Answer], needed: frozenset[str]) -> list[str]:
    """Return the problems."""
    truth = _truth(answers)
    problems = [f"{answer.name} {answer.failed}" for answer in answers if answer.failed]
    problems += [f"{name} is needed, and was not compared" for name in sorted(needed - _compared(answers))]
    problems += [f"nothing was computed of {name}" for name in workload_names().values() if not _of({name}, truth)]
    problems += [f"{TRUTH}: {name} is not as published" for name in verdict.unpublished(published(), truth)]
    problems += [f"the planted bit is not seen: {name}" for name in _unseen(answers)]
    for answer in answers:
        if answer.skipped or answer.failed or answer.backend == PLANTED:
            continue
        # Plain integers are too slow for all cases, so they may lack some.
        is_part = answer.backend == PLAIN
        base = truth if is_part else _of(_workloads(answer), truth)
        if answer.model:
            # The reference would take hours for it.
            base = next(each.hashes for each in answers if each.model and each.hashes)
        wrong = verdict.differences(base, answer.hashes, is_part=is_part)
        wrong += [f"{name}: another result than undisturbed" for name in verdict.other_ways(answer.hashes)]
        problems += [f"{answer.name}: {name}" for name in wrong]
    return problems


def published() -> dict[str, str]:
    """Return the published vectors, by the names in the answers."""
    return {
        **{f"train-int8 vector {name}": digest for name, digest in HASHES.items()},
        **{f"render-tile vector {name}": digest for name, digest in TILE_HASHES.items()},
        **{f"decoder-int8 vector {name}": digest for name, digest in TRANSFORMER_OPERATIONS.items()},
        "decoder-int8 vector LOGITS": LOGITS,
        "embed-int8 vector ANSWERS": ANSWERS,
        "matmul-hash vector": CONFORMANCE,
    }


def content(answers: list[Answer], problems: list[str], seconds: int) -> dict[str, object]:
    """Return the content of out/conformance.json: each backend with its versions, and the hashes once."""
    truth = _truth(answers)
    told = [
        {
            "python": answer.python,
            "backend": answer.backend,
            **({"instructions": answer.instructions} if answer.instructions else {}),
            **({"model": answer.model} if answer.model else {}),
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
        "model_hashes": next((answer.hashes for answer in answers if answer.model and answer.hashes), {}),
    }


def line(answers: list[Answer], failed: int, seconds: int) -> str:
    """Return the line of figures."""
    truth = _truth(answers)
    pythons = list(dict.fromkeys(answer.python for answer in answers))
    backends = list(dict.fromkeys(answer.backend for answer in answers if answer.backend in _compared(answers)))
    resumed = sum(verdict.RESUMED in name for name in truth)
    batches, chunks = (sum(way in name for name in truth) for way in (verdict.BATCHED, verdict.CHUNKED))
    runs = sum(name.endswith(verdict.ROOT) for name in truth)
    skips = [
        f"{answer.backend} skipped: {answer.skipped}"
        for answer in answers
        if answer.skipped and not answer.instructions
    ]
    sets = list(dict.fromkeys(answer.instructions for answer in answers if answer.instructions and answer.hashes))
    models = list(dict.fromkeys(answer.model for answer in answers if answer.model and answer.hashes))
    parts = (
        f"{len(truth)} hashes {f'with {failed} FAILED' if failed else 'equal'} over {', '.join(backends)}",
        f"Python {', '.join(pythons)}",
        f"transformers on {', '.join(sets) or 'one set of instructions'}",
        *(f"the model {model} on the same" for model in models),
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


def _workloads(answer: Answer) -> set[str]:
    """Return the workloads of an answer. The first word of a backend's name tells which it has."""
    if answer.instructions:
        return set(MODEL_WORKLOADS)
    return {form.name for form in PACKAGE_FORMS if answer.backend.partition("-")[0] in form.backends} | set(
        MODEL_WORKLOADS
    )


def _of(workloads: set[str], hashes: dict[str, str]) -> dict[str, str]:
    return {name: digest for name, digest in hashes.items() if name.split()[0] in workloads}


def _compared(answers: list[Answer]) -> set[str]:
    """Return the backends with an answer, without the planted one."""
    return {answer.backend for answer in answers if answer.hashes and answer.backend != PLANTED}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m scripts.conformance", description=__doc__)
    parser.add_argument("--need", action="append", default=[], help="a backend that must not be skipped")
    parser.add_argument("--model", default="", help="also compare a model of this machine, by name or id")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
