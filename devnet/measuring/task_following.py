"""The final chain read in a thread of its own while something else goes on: nodes forget the states of old blocks.

Always: what fails in the thread is raised where its results are read.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator

from devnet.measuring.ledger import final_height
from devnet.measuring.task_ledger import TaskLedger
from wallet.client import ChainClient

POLL_SECONDS = 1.0
CLOSE_SECONDS = 30.0


@contextlib.contextmanager
def following(url: str, first: int | None = None) -> Iterator[TaskLedger]:
    """The ledger of tasks from the newest final block on (or behind `first`); whole when the block ends."""
    ended, ledger, failed = threading.Event(), TaskLedger(0), list[BaseException]()
    ledger.height = asyncio.run(_height(url)) if first is None else first

    def follow() -> None:
        try:
            asyncio.run(_follow(url, ledger, ended))
        except BaseException as error:  # noqa: BLE001  # raised below, in the thread that asked
            failed.append(error)

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield ledger
    finally:
        ended.set()
        thread.join(CLOSE_SECONDS)
    if failed:
        raise failed[0]


async def _height(url: str) -> int:
    async with await ChainClient.connect(url) as chain:
        return await final_height(chain)


async def _follow(url: str, ledger: TaskLedger, ended: threading.Event) -> None:
    async with await ChainClient.connect(url) as chain:
        while not ended.is_set():
            await ledger.catch_up(chain)
            await asyncio.sleep(POLL_SECONDS)
        await ledger.catch_up(chain)
