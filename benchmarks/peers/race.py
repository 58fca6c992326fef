"""One run: a fresh node, everything handed in, everything final, and what that took; and what a node must do for it."""

import asyncio
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from benchmarks.peers.client import Client, Posted
from benchmarks.peers.workload import Shape, Transfer
from benchmarks.processes import cpu_seconds_of, peak_mib


@dataclass(frozen=True, slots=True)
class Running:
    """A node that is up: where it answers, and its processes by role."""

    url: str
    pids: Mapping[str, int]


class Contestant(Protocol):
    """One kind of node.  Every `running` is a fresh chain, so what was signed once is good for each of them."""

    name: str
    submit_method: str

    def running(self, folder: Path) -> AbstractContextManager[Running]:
        """A fresh node with its files in an empty folder, gone after the `with`."""

    def sign(self, transfers: Sequence[Transfer], folder: Path) -> Mapping[Transfer, str]:
        """The transfers, signed, in hexadecimal; an empty folder for whatever that needs."""

    async def wait_until_final(self, client: Client, shape: Shape) -> None:
        """Come back as soon as a client can know that every transfer is final."""

    async def check(self, client: Client, shape: Shape) -> None:
        """Raise unless every receiver has what was sent to it."""


MICROSECONDS = 1e6


@dataclass(frozen=True, slots=True)
class Result:
    """Times begin with the first request; CPU is of each process, from then until all was final."""

    final_per_second: float
    handed_in_per_second: float
    handed_in_again: int
    refusal: str
    cpu_us: Mapping[str, float]
    client_cpu_us: float
    peak_mib: Mapping[str, float]

    @property
    def cpu_us_of_all(self) -> float:
        """What a transfer costs the node's processes together."""
        return sum(self.cpu_us.values())

    @property
    def peak_mib_of_all(self) -> float:
        """Peaks need not have come at one time: the most that the processes can have had together."""
        return sum(self.peak_mib.values())


def race(contestant: Contestant, shape: Shape, hands: Sequence[Sequence[bytes]]) -> Result:
    """Start, send, wait, check, end."""
    temporary = tempfile.TemporaryDirectory(prefix=f"ogpu-race-{contestant.name}-")
    with temporary as folder, contestant.running(Path(folder)) as running:
        return asyncio.run(_measure(contestant, shape, hands, running))


async def _measure(contestant: Contestant, shape: Shape, hands: Sequence[Sequence[bytes]], running: Running) -> Result:
    async with Client(running.url) as client:
        before, own = _cpu(running), time.process_time()
        started = time.perf_counter()
        posted = await client.hand_in(hands)
        await contestant.wait_until_final(client, shape)
        seconds = time.perf_counter() - started
        own = time.process_time() - own
        spent = {role: after - before[role] for role, after in _cpu(running).items()}
        await contestant.check(client, shape)
    return _result(shape, posted, seconds, spent, own, running)


def _result(
    shape: Shape, posted: Posted, seconds: float, spent: Mapping[str, float], own: float, running: Running
) -> Result:
    each = MICROSECONDS / shape.transfers
    return Result(
        final_per_second=round(shape.transfers / seconds, 1),
        handed_in_per_second=round(shape.transfers / posted.seconds, 1),
        handed_in_again=posted.again,
        refusal=posted.refusal,
        cpu_us={role: round(used * each, 1) for role, used in spent.items()},
        client_cpu_us=round(own * each, 1),
        peak_mib={role: peak_mib(pid) for role, pid in running.pids.items()},
    )


def _cpu(running: Running) -> dict[str, float]:
    return {role: cpu_seconds_of(pid) for role, pid in running.pids.items()}
