"""Customers that try to profit from misses of honest racers, each in another way: all of them lose (finding B1).

Real pallets, real daemons, real blob stores. The customer's money is compared before and after.
"""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from gpu_tasks.data.sealing import address_of, seal
from gpu_tasks.data.unit_input import commitment_of, encode_input
from gpu_tasks.market.inference.events import ProviderSlashed, RaceMissed, UnitRefunded
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import Refund, UnitTerms, unit_id_of
from gpu_tasks.provider.duties.race import RaceDuty
from gpu_tasks.provider.duties.voting import VotingDuty
from provider_chain import CUSTOMER_SEAL, INPUT_SALT, REQUEST, Village, in_village, seal_key
from runtime.encoding.types import GRAINS_PER_OGPU
from runtime.pallets.balances import Balances
from simulation.chains.market_chain import CUSTOMER, GENESIS_HASH, signed

Attack = Callable[[Village], Awaitable[bytes]]
BLOCKS = 150


def worth(village: Village) -> int:
    """Return the customer's money, free and locked."""
    balances = village.node.chain.now()[Balances]
    return balances.free_balance(CUSTOMER.stash) + balances.reserved_balance(CUSTOMER.stash)


async def posted(village: Village, blob: bytes, commitment: bytes, tokens_max: int = 64) -> bytes:
    """Post a unit with any bytes as its input, stored where everyone finds them."""
    for miner in village.miners:
        await village.blobs.put(blob, [f"http://127.0.0.1:{miner.daemon.server.port}"])
    terms = UnitTerms(GRAINS_PER_OGPU, 2, address_of(blob), commitment, village.node.chain.height - 1, tokens_max)
    number = village.node.chain.now()[InferenceMarket].post_counts[CUSTOMER.stash]
    village.node.chain.block(signed(CUSTOMER.stash, InferenceMarket.post(service=0, units=(terms,))))
    return unit_id_of(GENESIS_HASH, CUSTOMER.stash, number)


def content(reply_key: bytes = CUSTOMER_SEAL.public, request: bytes = REQUEST) -> bytes:
    return encode_input(INPUT_SALT, reply_key, request)


def sealed_to_all(village: Village, inside: bytes) -> bytes:
    return seal(inside, [seal_key(reader).public for reader in village.node.chain.validators])


async def stored_nowhere(village: Village) -> bytes:
    return await village.post(is_stored=False)


async def behind_stores_that_drip(village: Village) -> bytes:
    async def hang(*_: object, **__: object) -> bytes:
        return await asyncio.Future()

    for miner in village.miners:
        miner.daemon.parts.blobs.get = hang  # type: ignore[method-assign]  # nobody gets a byte
    return await village.post(is_stored=False)


async def sealed_to_nobody(village: Village) -> bytes:
    return await village.post(readers=[])


async def sealed_to_some(village: Village) -> bytes:
    return await village.post(readers=village.node.chain.validators[:1])


async def sealed_to_all_but_one(village: Village) -> bytes:
    """The excluded reader would lose its fee if it voted, as a minority that cannot read."""
    return await village.post(readers=village.node.chain.validators[:-1])


async def another_input_than_committed(village: Village) -> bytes:
    return await village.post(input_commitment=b"x" * 32)


async def no_sealed_blob(village: Village) -> bytes:
    return await posted(village, b"garbage" * 100, bytes(32))


async def no_content(village: Village) -> bytes:
    return await posted(village, sealed_to_all(village, b"\xff" * 40), commitment_of(b"\xff" * 40))


async def no_request(village: Village) -> bytes:
    return await village.post(b"no request")


async def a_reply_key_that_nothing_can_be_sealed_to(village: Village) -> bytes:
    inside = content(reply_key=bytes(32))
    return await posted(village, sealed_to_all(village, inside), commitment_of(inside))


async def a_request_for_more_than_is_paid(village: Village) -> bytes:
    return await village.post(tokens_max=len(REQUEST) - 1)


async def an_input_that_goes_once_one_racer_has_it(village: Village) -> bytes:
    """The racer with the input commits. For all others, checkers too, only slow stores have it."""
    unit = await village.post()
    for miner in village.miners[1:]:

        async def hang(*_: object, **__: object) -> bytes:
            return await asyncio.Future()

        miner.daemon.parts.blobs.get = hang  # type: ignore[method-assign]  # these get nothing
    return unit


@pytest.mark.parametrize(
    "attack",
    [
        stored_nowhere, behind_stores_that_drip, sealed_to_nobody, sealed_to_some, sealed_to_all_but_one,
        another_input_than_committed, no_sealed_blob, no_content, no_request, a_reply_key_that_nothing_can_be_sealed_to,
        a_request_for_more_than_is_paid, an_input_that_goes_once_one_racer_has_it,
    ],
)  # fmt: skip
@in_village(6)
async def test_a_customer_who_wants_racers_to_miss_loses(village: Village, attack: Attack) -> None:
    """B1: a race is given back by the height of fresh views, independently of the search for its input."""
    before = worth(village)
    unit = await attack(village)
    for _ in range(BLOCKS):
        village.node.block()
        for miner in village.miners:
            await miner.daemon.step(miner.chain.view())
        await settled(village)
        if village.unit(unit).unit.ended_at:
            break
    is_had_once = attack is an_input_that_goes_once_one_racer_has_it
    refunds = [refunded.refund for refunded in village.happened(UnitRefunded)]
    # The racer with the input delivers it to a checker.
    assert refunds == ([] if is_had_once else [Refund.INPUT_BAD])
    assert len(village.unit(unit).unit.declined_by) == (0 if is_had_once else 2)
    assert any(miner.executor.runs for miner in village.miners) == is_had_once, "it is looked at before it is computed"
    assert any("hindered" in miner.heard.names() for miner in village.miners) == (attack is stored_nowhere)
    assert not village.happened(RaceMissed)
    assert not village.happened(ProviderSlashed)
    assert worth(village) < before
    for miner in village.miners:
        assert not (await miner.chain.own_devices())[0].device.is_paused


async def settled(village: Village) -> None:
    """Let all processes end without waiting for slow stores."""
    for _ in range(20):
        racing = [miner.daemon.duty(RaceDuty).book.tasks for miner in village.miners]
        voting = [miner.daemon.duty(VotingDuty).searches.tasks for miner in village.miners]
        if not any(tasks._tasks for tasks in (*racing, *voting)):
            return
        await asyncio.sleep(0.002)
