"""A pool of processes that runs its jobs in this process, so that monkeypatches apply."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from typing import Any


class InlinePool(Executor):
    """A substitute for `ProcessPoolExecutor`."""

    def __init__(self, processes: int) -> None: ...

    def map(self, fn: Callable[..., Any], *jobs: Iterable[Any], **options: Any) -> Iterator[Any]:
        return map(fn, *jobs)
