"""The bare engine beside the chats: the same requests in the lanes of one process, without a network.

`python -m devnet.proofs.chats.bare MODEL PLACES` loads the model. Then it answers each line of standard input, a JSON
list of encoded requests, with a line of figures.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Self

from devnet.launcher.folder import DevnetError
from devnet.launcher.processes import source_path
from gpu_tasks.provider.execution.executor import ONE_THREAD
from gpu_tasks.workloads.model_forms import open_workload
from gpu_tasks.workloads.streamed import Lanes, streamed


@dataclass(frozen=True, slots=True)
class EngineRun:
    """Requests that were answered side by side."""

    first_seconds: list[float]
    """The time to the first token of each answer."""
    tokens: int
    seconds: float
    cpu_seconds: float

    @property
    def tokens_per_second(self) -> float:
        """The tokens of all answers together, from the requests to the last token."""
        return self.tokens / self.seconds


class BareEngine:
    """A process with the model and some lanes. It computes as a provider's worker does, with the same threads."""

    def __init__(self, model: str, places: int) -> None:
        """Start the process. It loads the model meanwhile."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "devnet.proofs.chats.bare", model, str(places)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**source_path(), **ONE_THREAD},
        )  # fmt: skip

    def __enter__(self) -> Self:
        """Return the engine once the model is loaded."""
        self._next_line()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()

    def run(self, requests: Sequence[bytes]) -> EngineRun:
        """Answer requests side by side."""
        assert self._process.stdin is not None, "a pipe"
        self._process.stdin.write(json.dumps([request.hex() for request in requests]) + "\n")
        self._process.stdin.flush()
        return EngineRun(**json.loads(self._next_line()))

    def _next_line(self) -> str:
        assert self._process.stdout is not None, "a pipe"
        line = self._process.stdout.readline()
        if not line:
            raise DevnetError("the bare engine failed: its message is above")
        return line


def _serve(model: str, places: int) -> None:
    lanes = streamed(open_workload(model)).live(places)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        found = answer(lanes, [bytes.fromhex(request) for request in json.loads(line)])
        sys.stdout.write(json.dumps(asdict(found)) + "\n")
        sys.stdout.flush()


def answer(lanes: Lanes, requests: Sequence[bytes]) -> EngineRun:
    """Answer requests in the lanes of this process."""
    began, cpu_began = time.perf_counter(), time.process_time()
    going, first, tokens_out = {lanes.begin(request) for request in requests}, dict[int, float](), 0
    while going:
        for lane, tokens, finish in lanes.step():
            tokens_out += len(tokens)
            if tokens:
                first.setdefault(lane, time.perf_counter() - began)
            if finish is not None:
                going.discard(lane)
    return EngineRun(
        list(first.values()), tokens_out, time.perf_counter() - began, time.process_time() - cpu_began
    )  # fmt: skip


if __name__ == "__main__":
    os.environ |= ONE_THREAD
    _serve(sys.argv[1], int(sys.argv[2]))
