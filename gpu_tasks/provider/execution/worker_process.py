"""A child process that answers over its pipes, in a session of its own. It starts when needed.

Invariants:

* The process sees no key, address or proxy of the daemon.
* It is killed together with every process that it started.
* Only the end of its error output is kept, so that a flood costs no memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping, Sequence
from pathlib import Path

import gpu_tasks
from gpu_tasks.provider.execution.worker_wire import LENGTH_BYTES, framed

ERROR_TAIL_BYTES = 2_000
STOP_SECONDS = 5.0
SPENT_CPU = (-signal.SIGXCPU, 128 + signal.SIGXCPU)
"""Exit statuses of a process that used up its CPU time: direct, and as reported by a sandbox around it."""
ENVIRONMENT_KEPT = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")
CODE = Path(gpu_tasks.__file__).parent.parent


class NoAnswerError(Exception):
    """The process has ended or sent no valid message. The text states the cause."""


class WorkerProcess:
    """A child process with its messages. A caller that abandons an answer must kill the process."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Nothing runs yet. The process sees `environment` beside the kept variables."""
        self._worker_command = tuple(command)
        self._environment = dict(environment)
        self._process: Process | None = None
        self._complaints = b""
        self._reader: asyncio.Task[None] | None = None

    @property
    def is_running(self) -> bool:
        """True if a process runs."""
        return self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        """Start the process, after killing an earlier one."""
        await self.kill()
        kept_variables = {name: os.environ[name] for name in ENVIRONMENT_KEPT if name in os.environ}
        process = await asyncio.create_subprocess_exec(
            *self._worker_command,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            start_new_session=True,
            env=kept_variables | {"PYTHONPATH": str(CODE), "HOME": "/nonexistent"} | self._environment,
        )
        self._process, self._complaints = process, b""
        self._reader = asyncio.create_task(self._listen(process))

    def write(self, body: bytes) -> None:
        """Send a message to the running process."""
        assert self._process is not None
        assert self._process.stdin is not None  # asked for as a pipe
        self._process.stdin.write(framed(body))

    async def drain(self) -> None:
        """Wait until the process has read most of the messages to it. Raise ConnectionError if it has ended."""
        assert self._process is not None
        assert self._process.stdin is not None  # asked for as a pipe
        await self._process.stdin.drain()

    async def read(self, bytes_max: int, cpu_seconds: int) -> bytes:
        """Return the next message. Raise NoAnswerError if there is none.

        `cpu_seconds` is the limit of one answer. It only appears in the error's text.
        """
        process = self._process
        assert process is not None
        assert process.stdout is not None  # asked for as a pipe
        try:
            body_length = int.from_bytes(await process.stdout.readexactly(LENGTH_BYTES), "little")
            # The length comes from a process that ran a customer's data, so it is checked before memory is taken.
            if body_length > bytes_max:
                raise NoAnswerError("the worker's output is not an answer")
            return await process.stdout.readexactly(body_length)
        except (asyncio.IncompleteReadError, ConnectionError):
            raise NoAnswerError(await self._cause_of_death(process, cpu_seconds)) from None

    async def kill(self) -> None:
        """End the process and all processes that it started."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            # The process leads a session of its own, so its group contains every child that did not leave it.
            os.killpg(process.pid, signal.SIGKILL)
        transport = getattr(process, "_transport", None)
        answers_pipe = None if transport is None else transport.get_pipe_transport(1)
        if answers_pipe is not None:
            answers_pipe.close()  # an unread answer pauses its pipe, and `wait` would await that pipe's end for ever
        await process.wait()
        if self._reader is not None:
            await asyncio.gather(self._reader, return_exceptions=True)
        if transport is not None:
            transport.close()

    async def _listen(self, process: Process) -> None:
        """Keep the end of the error output."""
        assert process.stderr is not None  # asked for as a pipe
        while complaint_part := await process.stderr.read(4096):
            self._complaints = (self._complaints + complaint_part)[-ERROR_TAIL_BYTES:]

    async def _cause_of_death(self, process: Process, cpu_seconds: int) -> str:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), STOP_SECONDS)
            if self._reader is not None:
                await asyncio.wait_for(self._reader, STOP_SECONDS)
        exit_status = process.returncode
        if exit_status in SPENT_CPU:
            return f"stopped after more than {cpu_seconds} s of CPU"
        complaint_text = self._complaints.decode(errors="replace").strip().rpartition("\n")[2]
        return f"the worker ended with status {exit_status}: {complaint_text or 'it left no message'}"
