"""One run: start a fresh node, send everything, wait until all is final, and measure.

Also the protocol of such a node.
"""

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
    """A ready node: its URL, and its processes by role."""

    url: str
    pids: Mapping[str, int]


class Contestant(Protocol):
    """One kind of node. Every `running` is the same chain afresh, so transfers signed once are valid in each run."""

    name: str
    submit_method: str

    def running(self, folder: Path) -> AbstractContextManager[Running]:
        """Run a fresh node with its files in an empty folder. Stop it at the end of the `with`."""

    def sign(self, transfers: Sequence[Transfer], folder: Path) -> Mapping[Transfer, str]:
        """Return the signed transfers in hexadecimal. `folder` is an empty folder for temporary files."""

    async def wait_until_final(self, client: Client, shape: Shape) -> None:
        """Return as soon as a client can know that every transfer is final."""

    async def check(self, client: Client, shape: Shape) -> None:
        """Raise an error unless every receiver has the sent amount."""


MICROSECONDS = 1e6


@dataclass(frozen=True, slots=True)
class Result:
    """The figures of a run.

    Times begin with the first request. CPU is each process's time from then until all is final.
    """

    final_per_second: float
    handed_in_per_second: float
    handed_in_again: int
    refusal: str
    cpu_us: Mapping[str, float]
    client_cpu_us: float
    peak_mib: Mapping[str, float]

    @property
    def cpu_us_of_all(self) -> float:
        """The CPU microseconds of a transfer in all of the node's processes."""
        return sum(self.cpu_us.values())

    @property
    def peak_mib_of_all(self) -> float:
        """The sum of the processes' peaks in MiB: an upper bound, because peaks can come at different times."""
        return sum(self.peak_mib.values())


def race(contestant: Contestant, shape: Shape, hands: Sequence[Sequence[bytes]]) -> Result:
    """Start a node, send, wait, check and stop."""
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
