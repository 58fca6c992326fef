"""A provider key that cannot pay the fees of its calls is reported once, until it can."""

from __future__ import annotations

from gpu_tasks.provider.duties.duty import ENDINGS_EVERY_BLOCKS
from gpu_tasks.provider.keys import PROVIDER_KEY_LEAST
from provider_chain import Miner, Village, in_village
from runtime.pallets.balances import Balances
from simulation.chains.market_chain import signed


async def reported(village: Village, miner: Miner) -> list[object]:
    """Return the balances that the daemon reported after some more blocks."""
    for _ in range(2 * ENDINGS_EVERY_BLOCKS):
        village.node.block()
        await miner.step()
    return [fields["grains"] for name, fields in miner.heard.events if name == "key_poor"]


@in_village(1)
async def test_a_poor_provider_key_is_reported_once_until_it_has_enough(village: Village) -> None:
    miner = village.miners[0]
    stash, key = miner.keys.stash, miner.keys.provider

    def pay(payer: bytes, payee: bytes, grains: int) -> None:
        village.node.chain.block(signed(payer, Balances.transfer_allow_death(dest=payee, value=grains)))

    if has := await miner.chain.key_balance():
        pay(key, stash, has)
    poor = PROVIDER_KEY_LEAST - 1
    pay(stash, key, poor)
    assert await reported(village, miner) == [poor]
    assert await reported(village, miner) == [poor]
    pay(stash, key, 1)
    assert await reported(village, miner) == [poor], "that is enough"
    pay(key, stash, 2)
    assert await reported(village, miner) == [poor, poor - 1]
