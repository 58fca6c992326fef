"""Unusable inputs: missing, different from the commitment, or not sealed to all possible checkers."""

from dataclasses import replace

from gpu_tasks.data.sealing import SealKey
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.inference.events import RaceMissed
from gpu_tasks.market.inference.gpu_tasks_api import InputReader
from gpu_tasks.market.inference.units import UnitState
from gpu_tasks.provider.chain.port import ChainError
from gpu_tasks.provider.duties.race_steps import GIVE_BACK_BLOCKS
from provider_chain import Miner, Village, in_village
from simulation.chains.market_chain import signed


@in_village(7)
async def test_who_may_check_only_since_the_input_was_sealed_need_not_read_it(village: Village) -> None:
    chain = village.node.chain
    *others, last = chain.validators
    known = chain.now()[Devices].providers[last.stash]
    assert known is not None
    sealed_at = chain.height
    other_key = SealKey.from_seed(b"another key of the last one's".ljust(32)).public
    anew = Devices.register_provider(seal_key=other_key, endpoint=known.endpoint)
    chain.block(signed(last.stash, anew))
    status = await village.run(await village.post(readers=others, sealed_at=sealed_at))
    assert status.unit.state is UnitState.SETTLED


def hide_checkers_once(miner: Miner) -> list[str]:
    """Hide the possible checkers in a node's first answer. Return the number of hidden answers."""
    honest, refused = miner.chain.checking_readers, list[str]()

    async def hidden() -> tuple[InputReader, ...]:
        if refused:
            return await honest()
        refused.append(miner.keys.name)
        raise ChainError("I do not believe the node")

    miner.chain.checking_readers = hidden  # type: ignore[method-assign]  # the node lies
    return refused


@in_village(4)
async def test_who_is_not_shown_who_may_check_asks_again_and_declines_nothing(village: Village) -> None:
    refused = [hide_checkers_once(miner) for miner in village.miners]
    status = await village.run(await village.post())
    assert any(refused)
    assert status.unit.state is UnitState.SETTLED
    assert not status.unit.declined_by
    assert not village.happened(RaceMissed)


@in_village(4)
async def test_a_checker_whose_key_is_none_keeps_nobody_from_working(village: Village) -> None:
    """The chain accepts no such key, but its first block may hold anything."""
    chain = village.node.chain
    *others, last = chain.validators
    bound = chain.now()
    known = bound[Devices].providers[last.stash]
    assert known is not None
    bound[Devices].providers[last.stash] = replace(known, seal_key=bytes(32))
    chain.state = chain.state.updated(bound.overlay.changes())
    status = await village.run(await village.post(readers=others))
    assert status.unit.state is UnitState.SETTLED


@in_village(2)
async def test_it_is_given_back_so_many_blocks_before_commits_close_and_not_sooner(village: Village) -> None:
    unit = await village.post(racers=1, is_stored=False)
    until = 0
    while not any("declined" in miner.heard.names() for miner in village.miners):
        village.node.block()
        status = village.unit(unit)
        until = status.commits_until or until
        for miner in village.miners:
            await miner.step()
    assert village.node.chain.height + GIVE_BACK_BLOCKS == until
