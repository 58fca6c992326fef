"""What can be posted once: units of inference, and tasks. What the two have in common, and each in its own words.

Always: what was posted is known again by the hash of its sealed input, which no other posting has, whatever number the
chain gave it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from gpu_tasks.data import market_reads
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import UNITS_OPEN_MAX, UnitTerms, unit_id_of
from gpu_tasks.market.training.orders import TaskOrder
from gpu_tasks.market.training.tasks import Task, task_id_of
from gpu_tasks.market.training.training_market import TrainingMarket
from runtime.frame.call import Call
from runtime.frame.runtime import Runtime, constant_value
from runtime.frame.storage import StorageItem
from wallet.client import ChainClient

TASKS_LOOKED_AT = 64
"""Of an account's newest tasks, where a node has lied about how many there were."""

PostedInput = tuple[bytes, int]
"""The hash of an input, and the block in which it was posted."""


class SealedTerms(Protocol):
    """What is posted: whatever it asks, its input is sealed as of a height."""

    @property
    def input_root(self) -> bytes:
        """The hash by which it is known again."""

    @property
    def sealed_at(self) -> int:
        """Whoever had a key at that height reads it."""


class PostingKind(Protocol):
    """A kind of posting."""

    @property
    def noun(self) -> str:
        """What messages call one of them."""

    @property
    def counter(self) -> StorageItem:
        """How many of them an account has posted, ever."""

    @property
    def looked_at_max(self) -> int:
        """How many of the newest are looked through for one."""

    def sealed_age_max(self, runtime: Runtime) -> int:
        """How many blocks old a seal may be."""

    def id_of(self, genesis: bytes, account: bytes, number: int) -> bytes:
        """What the chain calls the one of this number."""

    def call(self, terms: Sequence[Any]) -> Call:
        """The call that posts them."""

    async def found(self, client: ChainClient, ids: Sequence[bytes], at: bytes) -> list[PostedInput | None]:
        """What the chain knows under these ids."""


@dataclass(frozen=True, slots=True)
class UnitPosting:
    """Units of a service. Implements `PostingKind`."""

    service: int

    @property
    def noun(self) -> str:
        """In the singular."""
        return "unit"

    @property
    def counter(self) -> StorageItem:
        """Of the market of units."""
        return InferenceMarket.posted

    @property
    def looked_at_max(self) -> int:
        """As many as can be open."""
        return UNITS_OPEN_MAX

    def sealed_age_max(self, runtime: Runtime) -> int:
        """A constant of the market."""
        age: int = constant_value(InferenceMarket, InferenceMarket.sealed_age_max, runtime)
        return age

    def id_of(self, genesis: bytes, account: bytes, number: int) -> bytes:
        """Counted from 0."""
        return unit_id_of(genesis, account, number)

    def call(self, terms: Sequence[UnitTerms]) -> Call:
        """Several in one call."""
        return InferenceMarket.post(service=self.service, units=tuple(terms))

    async def found(self, client: ChainClient, ids: Sequence[bytes], at: bytes) -> list[PostedInput | None]:
        """Their records, as long as the chain keeps these."""
        units = await market_reads.units(client, ids, at)
        return [None if unit is None else (unit.terms.input_root, unit.posted_at) for unit in units]


class TaskPosting:
    """Tasks that go to auction. Implements `PostingKind`."""

    @property
    def noun(self) -> str:
        """In the singular."""
        return "task"

    @property
    def counter(self) -> StorageItem:
        """Of the market of tasks."""
        return TrainingMarket.submitted

    @property
    def looked_at_max(self) -> int:
        """A task's record is a kibibyte or two."""
        return TASKS_LOOKED_AT

    def sealed_age_max(self, runtime: Runtime) -> int:
        """A constant of the market."""
        age: int = constant_value(TrainingMarket, TrainingMarket.sealed_age_max, runtime)
        return age

    def id_of(self, genesis: bytes, account: bytes, number: int) -> bytes:
        """Counted from 0."""
        return task_id_of(genesis, account, number)

    def call(self, terms: Sequence[TaskOrder]) -> Call:
        """One in a call."""
        (order,) = terms
        return TrainingMarket.submit(order=order)

    async def found(self, client: ChainClient, ids: Sequence[bytes], at: bytes) -> list[PostedInput | None]:
        """Their records, as long as the chain keeps these."""
        tasks: list[Task | None] = await client.read_many(TrainingMarket.tasks, ids, at=at)
        return [None if task is None else (task.order.input_root, task.submitted_at) for task in tasks]
