import asyncio
from pathlib import Path

import pytest

from gpu_tasks.data.sealing import SealKey
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.provider.duties.standing import StandingError, check_standing
from market_chain import signed
from provider_chain import Village, keypair


def test_a_daemon_that_is_not_the_registered_one_does_not_run(tmp_path: Path) -> None:
    async def main() -> None:
        async with Village(tmp_path, 2) as village:
            miner = village.miners[0]
            chain, identity, executor = miner.chain, miner.daemon.identity, miner.executor
            await check_standing(chain, identity, executor)
            executor.model_id = b"another model, another service..."[:32]
            with pytest.raises(StandingError, match="offers service 0, whose model"):
                await miner.daemon.run()
            executor.model_id = type(executor).model_id
            other = SealKey.of(keypair(village.miners[1].keys)).public
            call = Devices.register_provider(seal_key=other, endpoint=b"http://127.0.0.1:1")
            village.node.chain.block(signed(miner.keys.stash, call))
            with pytest.raises(StandingError, match="sealed to another key"):
                await miner.daemon.run()

    asyncio.run(main())
