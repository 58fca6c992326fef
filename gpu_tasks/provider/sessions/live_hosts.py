"""The live workers of sessions: one for each device and workload, with the places that the provider offers."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from gpu_tasks.provider.execution.device_times import Activity, DeviceTimes
from gpu_tasks.provider.execution.executor import ExecutionError
from gpu_tasks.provider.execution.gpu import Hardware
from gpu_tasks.provider.sessions.served_session import AnswerTokens
from gpu_tasks.workloads.form import WorkloadForm

IDLE_BLOCKS = 150
"""The blocks for which a model stays loaded after its last session, about ten minutes."""
HostName = tuple[bytes, bytes, bytes]
"""A device, a workload and a model."""


class Host(Protocol):
    """A live worker (`LiveHost`)."""

    def generate(self, request: bytes) -> AsyncGenerator[AnswerTokens, None]:
        """Yield the tokens of an answer. Closing the iterator frees its lane."""
        ...

    async def start(self) -> None:
        """Load the model. Raise ExecutionError."""
        ...

    async def close(self) -> None:
        """End the worker."""
        ...


MakeHost = Callable[[Hardware, WorkloadForm, int], Host]
"""Returns a live worker with so many places, which starts when needed."""


@dataclass(slots=True)
class _Kept:
    host: Host
    places: int
    used_at: int
    answers: int = 0
    """The open ones."""


class LiveHosts:
    """The live workers of this machine."""

    def __init__(self, make: MakeHost, times: DeviceTimes) -> None:
        """None runs. Answers count in `times`."""
        self.make = make
        self._times = times
        self._hosts: dict[HostName, _Kept] = {}

    async def host(
        self, device: bytes, hardware: Hardware, form: WorkloadForm, places: int, height: int, *, is_busy: bool
    ) -> Host:
        """Return the worker of a device for a workload. Raise ExecutionError if it cannot have one.

        A busy one gets no more places: a new worker would cut the answers of its sessions.
        """
        name = device, form.workload_id, form.model_id
        if not form.is_streamed:
            raise ExecutionError(f"{form.name} does not stream its answers", code="not_streamed")
        if name in self._hosts and self._hosts[name].places < places and not is_busy:
            await self._hosts.pop(name).host.close()
        if name not in self._hosts:
            self._hosts[name] = _Kept(self.make(hardware, form, places), places, height)
        self._hosts[name].used_at = height
        return self._hosts[name].host

    async def generate(self, name: HostName, request: bytes) -> AsyncGenerator[AnswerTokens, None]:
        """Yield the tokens of an answer, on a worker. Raise ExecutionError if no such worker runs."""
        if name not in self._hosts:
            raise ExecutionError("the model is not loaded yet", code="worker_not_ready")
        kept = self._hosts[name]
        kept.answers += 1
        try:
            with self._times.at(name[0], Activity.SESSIONS):
                async with contextlib.aclosing(kept.host.generate(request)) as pieces:
                    async for piece in pieces:
                        yield piece
        finally:
            kept.answers -= 1

    def at_work(self, device: bytes) -> int:
        """Return the number of workers of a device with an open answer."""
        return sum(name[0] == device and kept.answers > 0 for name, kept in self._hosts.items())

    async def end_idle(self, height: int, used: Iterable[HostName]) -> None:
        """End the workers whose last session ended some blocks ago."""
        for name in used:
            if name in self._hosts:
                self._hosts[name].used_at = height
        for name in [name for name, kept in self._hosts.items() if height >= kept.used_at + IDLE_BLOCKS]:
            await self._hosts.pop(name).host.close()

    async def close(self) -> None:
        """End all workers."""
        while self._hosts:
            await self._hosts.popitem()[1].host.close()
