"""The daemon of a provider that left ends and reports the rest."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any
from unittest.mock import AsyncMock

import pytest

from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.provider.chain.port import View
from gpu_tasks.provider.duties.duty import ENDINGS_EVERY_BLOCKS
from provider_chain import Miner, Village, in_village, keypair
from runtime.pallets.balances import Balances
from simulation.chains.market_chain import signed
from wallet.amounts import format_amount


def followed(village: Village, miner: Miner, *, leaves_after: int) -> None:
    """Show a daemon one block after the other. Its provider leaves after `leaves_after` of them."""
    chain, device = village.node.chain, miner.keys.device

    async def views() -> AsyncIterator[View]:
        for number in range(leaves_after + 2 * ENDINGS_EVERY_BLOCKS):
            if number == leaves_after:
                chain.block(
                    signed(miner.keys.stash, InferenceMarket.withdraw_offer(device=device, service=0)),
                    signed(miner.keys.stash, Devices.unregister_device(device=device)),
                    signed(miner.keys.stash, Devices.unregister_provider()),
                )
            village.node.block()
            yield miner.chain.view()
        yield View(0, ())  # one too many: it must not be requested

    miner.chain.views = views  # type: ignore[method-assign]


@in_village(2)
async def test_a_daemon_whose_provider_has_left_ends_and_says_what_stays(village: Village) -> None:
    miner = village.miners[0]
    followed(village, miner, leaves_after=6)
    village.node.chain.block(
        signed(miner.keys.stash, Balances.transfer_keep_alive(dest=miner.keys.provider, value=123_456_789))
    )
    stays = await miner.chain.key_balance()
    assert stays not in (0, await miner.chain.spendable())
    await miner.daemon.run()
    assert await miner.chain.provider(miner.keys.stash) is None
    (said,) = miner.heard.reasons("left")
    assert keypair(miner.keys).address in said
    assert f"{format_amount(stays)} oGPU" in said
    assert miner.heard.events[-1][0] == "left"


@pytest.mark.parametrize("field", ["duties", "claims", "ballots"])
@in_village(1)
async def test_what_is_under_way_is_ended_first(village: Village, field: str) -> None:
    miner = village.miners[0]
    height = village.node.chain.height + -village.node.chain.height % ENDINGS_EVERY_BLOCKS
    miner.chain.provider = AsyncMock(return_value=None)  # type: ignore[method-assign]
    under_way: dict[str, Any] = {field: (object(),)}
    assert not await miner.daemon._has_left(replace(View(height, ()), **under_way))
    assert not await miner.daemon._has_left(View(height + 1, ()))
    assert await miner.daemon._has_left(View(height, ()))
