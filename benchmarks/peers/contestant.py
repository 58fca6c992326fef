"""What a node must do to be measured: come up with funded accounts, take signed transfers, say when all are final."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from benchmarks.peers.client import Client
from benchmarks.peers.workload import Shape, Transfer


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
