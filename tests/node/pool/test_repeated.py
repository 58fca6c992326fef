"""Replaced transactions that arrive again from any peer."""

from pathlib import Path

import pytest

from block_maker import Maker
from node.pool.refusal import PoolRefusalError
from played_pool import running
from runtime.pallets.balances import Balances
from runtime.pallets.system import System
from runtime.pallets.utility import Utility

LONG = Utility.batch(calls=(System.remark(remark=b"r" * 5_000),))
PAY = Balances.transfer_keep_alive(dest=b"d" * 32, value=10**12)


@pytest.mark.trio
async def test_a_stranger_who_repeats_what_was_replaced_bans_nobody(tmp_path: Path) -> None:
    maker = Maker(tmp_path)
    async with running(maker) as played:
        old = maker.transfer(LONG, 0, tip=100)
        await played.pool.submit(old)
        await played.pool.submit(maker.transfer(LONG, 0, tip=150))
        with pytest.raises(PoolRefusalError):
            await played.pool.submit(old)
        await played.pool.submit(maker.transfer(PAY, 1))
