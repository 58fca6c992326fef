"""Computers of roll-call chains for tests: in this process, right, wrong or missing."""

from dataclasses import dataclass, field

from gpu_tasks.provider.execution.chain_worker import ChainRows, ChainWork
from gpu_tasks.provider.execution.executor import ExecutionError
from gpu_tasks.provider.execution.gpu import Hardware
from gpu_tasks.workloads.matmul_chain.arithmetic import NumpyChain
from gpu_tasks.workloads.matmul_chain.prover import row_hashes, rows_root


@dataclass
class HereComputer:
    """Computes right rows in this process. Counts the computed chains, and notes the single rows."""

    chains: int = 0
    looked: list[int] = field(default_factory=list)

    def make(self, hardware: Hardware) -> "HereComputer":
        return self

    async def start(self) -> None:
        """Start at once."""

    async def rows(self, work: ChainWork) -> ChainRows:
        if work.rows:
            self.looked += work.rows
            return ChainRows(bytes(32), b"", NumpyChain().ends(work.challenge, work.rows))
        self.chains += 1
        digests = self.digests(work)
        return ChainRows(rows_root(digests), b"".join(digests))

    def digests(self, work: ChainWork) -> list[bytes]:
        return row_hashes(NumpyChain(), work.challenge)

    async def close(self) -> None:
        """Close without a process."""


@dataclass
class LyingComputer(HereComputer):
    """States rows that it never computed. It computes single rows honestly."""

    def digests(self, work: ChainWork) -> list[bytes]:
        return [number.to_bytes(32, "little") for number in range(work.challenge.shape.rows)]


@dataclass
class BrokenComputer(HereComputer):
    """Computes nothing."""

    asked: list[ChainWork] = field(default_factory=list)

    async def rows(self, work: ChainWork) -> ChainRows:
        self.asked.append(work)
        raise ExecutionError("broken")
