"""The task of a scene: a file as people write it, and the run that it comes to where nobody cheats."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from devnet.demo.task_sale import EXAMPLES
from gpu_tasks.client.task_files import load, load_input
from gpu_tasks.tasks.canonical import prepare
from gpu_tasks.traces.trace import state_hash
from gpu_tasks.workloads.stepwise import states
from gpu_tasks.workloads.train_int8.backends import arithmetic
from gpu_tasks.workloads.train_int8.service import IntegerTraining
from runtime.cryptography.hashing import blake2_256

TEXT = "verses.txt"
FILE = """\
apiVersion: ogpu/v1
kind: TrainingTask
metadata: {{name: {name}}}
spec:
  run:
    input: {text}
    length: {steps}
    options: {{segment: {segment}}}
    milestones: {milestones}
    seed: "0x{seed}"
  market: {{maxPrice: 1 oGPU}}
  limits: {{deadline: {blocks} blocks}}
"""


@dataclass(frozen=True, slots=True)
class TaskSize:
    """How much is computed, and in which parts."""

    steps: int = 40
    segment: int = 10
    milestones: int = 2
    blocks: int = 40
    """Judges who wait for states wait by it."""


def write(folder: Path, name: str, size: TaskSize) -> Path:
    """The file of a task, with its input beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / TEXT).write_bytes((EXAMPLES / TEXT).read_bytes())
    path, seed = folder / f"{name}.yaml", blake2_256(name.encode()).hex()
    path.write_text(FILE.format(name=name, text=TEXT, seed=seed, **asdict(size)), encoding="utf-8")
    return path


def right_digests(path: Path) -> list[bytes]:
    """The hashes of all states of the run, computed here."""
    file = load(path)
    assert file.task.seed is not None, "each file has its own"
    prepared = prepare(file, load_input(path, file), file.task.seed)
    return [state_hash(state) for state in states(IntegerTraining(arithmetic("numpy")).begin(prepared.request))]
