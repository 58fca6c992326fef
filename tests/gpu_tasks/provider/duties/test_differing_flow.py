"""Racers of a batch that differ: daemons show their trees, voters compute one leaf, the liar loses."""

from collections.abc import Callable
from dataclasses import replace

from gpu_tasks.market.claims.dispute_events import DisputeEnded, VoterCharged
from gpu_tasks.market.inference.events import ProviderSlashed, UnitSettled
from gpu_tasks.market.inference.units import UnitState
from gpu_tasks.market.leaf_disputes.events import LeafDisputed, NodesShown, TreeWithheld
from gpu_tasks.provider.execution.executor import Execution
from gpu_tasks.provider.tasks.policy_file import set_draining
from provider_chain import Miner, Village
from simulation.chains.market_chain import MarketChain, named_keys
from staged import Scene, staged

SIZE = 8
ASKED = [b"complete %d" % number for number in range(20)]
NUMBERS = {"LeafDisputes.show_blocks": 20}
BLOCKS_MAX = 200


def in_village(size: int = SIZE) -> Callable[[Scene], Callable[..., None]]:
    return staged(lambda folder: Village(folder, size, chain=MarketChain(named_keys(size), [], NUMBERS)))


async def raced(village: Village) -> tuple[bytes, Miner, Miner]:
    """Return a batch with two different answers: the unit, the liar, the other."""
    unit, (liar, honest) = await drawn(village, 2)
    liar.executor.spoil = True
    await until_disputed(village, unit)
    liar.executor.spoil = False
    return unit, liar, honest


async def drawn(village: Village, racers: int) -> tuple[bytes, list[Miner]]:
    """Return a batch and its racers."""
    unit = await village.post(ASKED, racers=racers, tokens_max=640)
    return unit, village.drawn(unit)


async def until_disputed(village: Village, unit: bytes) -> None:
    """Wait until its answers are in. No provider has seen that block yet."""
    while True:
        village.node.block()
        if village.unit(unit).unit.state is UnitState.DISPUTED:
            return
        for miner in village.miners:
            await miner.step()


async def until_settled(village: Village, unit: bytes) -> UnitSettled:
    for _ in range(BLOCKS_MAX):
        await village.block()
        settled: list[UnitSettled] = [event for event in village.happened(UnitSettled) if event.unit == unit]
        if settled:
            return settled[0]
    raise AssertionError("never settled")


@in_village()
async def test_voters_compute_one_leaf_and_the_liar_loses(village: Village) -> None:
    unit, liar, honest = await raced(village)
    before = {miner.keys.name: len(miner.executor.runs) for miner in village.miners}
    settled = await until_settled(village, unit)
    assert settled.winner == honest.keys.stash
    assert [event.leaf for event in village.happened(LeafDisputed)] == [0]
    assert [event.provider for event in village.happened(ProviderSlashed)] == [liar.keys.stash]
    assert len(village.happened(NodesShown)) == 2
    computed = {miner.keys.name: len(miner.executor.runs) - before[miner.keys.name] for miner in village.miners}
    voters = [name for name, runs in computed.items() if runs]
    assert len(voters) == SIZE - 2
    assert {computed[name] for name in voters} == {1}, "a request each, of twenty"
    assert not {liar.keys.name, honest.keys.name} & set(voters)
    assert not village.node.failed, "nobody paid for a call that failed"


@in_village()
async def test_who_is_stopped_with_its_result_in_the_journal_shows_its_tree_after(village: Village) -> None:
    unit, _, honest = await raced(village)
    again = await village.restart(honest)
    runs = len(again.executor.runs)
    settled = await until_settled(village, unit)
    assert settled.winner == again.keys.stash
    assert len(again.executor.runs) == runs == 0, "nothing is computed again to be shown"


@in_village()
async def test_who_shows_nothing_loses_and_nobody_votes(village: Village) -> None:
    unit, liar, honest = await raced(village)
    village.miners.remove(liar)
    settled = await until_settled(village, unit)
    assert settled.winner == honest.keys.stash
    assert len(village.happened(TreeWithheld)) == 1
    assert not village.happened(DisputeEnded)
    village.miners.append(liar)


@in_village(size=10)
async def test_of_two_who_answered_alike_one_shows_the_tree(village: Village) -> None:
    """If both did at once, the second would pay the fee of a failing call."""
    unit, (liar, first, second) = await drawn(village, 3)
    liar.executor.spoil = True
    await until_disputed(village, unit)
    liar.executor.spoil = False
    settled = await until_settled(village, unit)
    assert {settled.winner, settled.witness} == {first.keys.stash, second.keys.stash}
    shown = [event.provider for event in village.happened(NodesShown)]
    assert sorted(shown) == sorted([liar.keys.stash, first.keys.stash])
    assert not village.node.failed, "nobody paid for a call that failed"


@in_village()
async def test_who_drains_is_not_done_while_it_has_a_tree_to_show(village: Village) -> None:
    _, _, honest = await raced(village)
    view = honest.chain.view()
    assert [status.unit for status in view.disputes]
    honest.daemon.parts.journal.races.keep({})
    set_draining(honest.daemon.settings.base_path, drains=True)
    await honest.step()
    assert "drained" not in honest.heard.names()


@in_village(size=10)
async def test_who_votes_about_two_leaves_of_a_batch_computes_each(village: Village) -> None:
    unit, (liar, errs, honest) = await drawn(village, 3)
    real = errs.executor.run

    async def wrong_once(request: bytes) -> Execution:
        done = await real(request)
        return replace(done, output=done.output + b"!") if request == ASKED[7] else done

    liar.executor.spoil, errs.executor.run = True, wrong_once  # type: ignore[method-assign]
    await until_disputed(village, unit)
    liar.executor.spoil, errs.executor.run = False, real  # type: ignore[method-assign]
    settled = await until_settled(village, unit)
    assert [event.leaf for event in village.happened(LeafDisputed)] == [0, 7]
    assert settled.winner == honest.keys.stash
    slashed = [event.provider for event in village.happened(ProviderSlashed)]
    assert slashed == [liar.keys.stash, errs.keys.stash]
    assert not village.happened(VoterCharged), "nobody said of one leaf what it found of the other"
    assert not village.node.failed
