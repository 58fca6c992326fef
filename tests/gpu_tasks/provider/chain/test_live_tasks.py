"""Tasks and bids as a daemon reads them: proved, from a real RPC server."""

import asyncio
from pathlib import Path

from gpu_tasks.market.training.bids import auction_id
from gpu_tasks.market.training.tasks import TaskState
from gpu_tasks.provider.chain.live import LiveChain
from gpu_tasks.provider.keys import provider_key
from planted_state import chain_with
from planted_tasks import ALICE, OFFER, PlantedTask
from wallet.trust import Trust

UNKNOWN = b"u" * 32


def test_what_a_daemon_asks_about_tasks_is_read_by_name(tmp_path: Path) -> None:
    planted = PlantedTask(TaskState.RUNNING, milestone=1)

    async def ask(url: str) -> None:
        chain = await LiveChain.connect(url, provider_key("//Alice//provider", None), Trust(tmp_path / "base"))
        try:
            for final in (False, True):
                known = await chain.tasks([planted.id, UNKNOWN], final=final)
                assert list(known) == [planted.id]
                task = known[planted.id]
                assert task.state is TaskState.RUNNING
                (slot,) = task.slots
                names = [(auction_id(planted.id, number), slot.device) for number in (1, 2)]
                bids = await chain.bids(names, final=final)
                assert list(bids) == names[:1]
                opened = bids[names[0]].opened
                assert opened is not None
                assert (opened.provider, opened.price) == (ALICE, OFFER.price)
            assert await chain.tasks([]) == {}
            assert await chain.bids([]) == {}
            assert await chain.auctions() == {}
            assert await chain.task_of_claim(UNKNOWN) is None
            assert await chain.spendable() > 0
            assert await chain.slot_ms() > 0
        finally:
            await chain.close()

    with chain_with(tmp_path, planted) as url:
        asyncio.run(ask(url))


def test_what_is_on_sale_is_listed(tmp_path: Path) -> None:
    planted = PlantedTask(TaskState.COMMITTING)

    async def ask(url: str) -> None:
        chain = await LiveChain.connect(url, provider_key("//Alice//provider", None), Trust(tmp_path / "base"))
        try:
            assert list(await chain.auctions()) == [planted.id]
        finally:
            await chain.close()

    with chain_with(tmp_path, planted) as url:
        asyncio.run(ask(url))
