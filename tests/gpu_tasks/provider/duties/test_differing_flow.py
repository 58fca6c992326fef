"""Racers of a batch that differ: voters get the answers of each, compute where these differ, and the liar loses."""

from collections.abc import Callable
from dataclasses import replace

from gpu_tasks.market.claims.dispute_events import DisputeEnded, VoterCharged
from gpu_tasks.market.claims.findings import Verdict
from gpu_tasks.market.inference.events import ProviderSlashed, UnitRequeued, UnitSettled
from gpu_tasks.market.inference.units import UnitState
from gpu_tasks.provider.blobs.deliveries import RefusedDeliveryError
from gpu_tasks.provider.execution.executor import Execution
from gpu_tasks.provider.tasks.policy_file import set_draining
from provider_chain import Miner, Village
from simulation.chains.market_chain import MarketChain, named_keys
from staged import Scene, staged

SIZE = 8
ASKED = [b"complete %d" % number for number in range(20)]
BLOCKS_MAX = 200


def in_village(size: int = SIZE) -> Callable[[Scene], Callable[..., None]]:
    return staged(lambda folder: Village(folder, size, chain=MarketChain(named_keys(size))))


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


def deliver_only(miner: Miner, may_have: Callable[[bytes], bool] = lambda _: False) -> None:
    """Let a racer answer only some questions for its deliveries; by default, none."""
    deliverer = miner.daemon.server._deliverer
    assert deliverer is not None
    answer = deliverer.answer

    async def chosen(data: bytes) -> bytes:
        if not may_have(data):
            raise RefusedDeliveryError("not for you")
        return await answer(data)

    deliverer.answer = chosen  # type: ignore[method-assign]


def slashed(village: Village) -> list[bytes]:
    return [event.provider for event in village.happened(ProviderSlashed)]


@in_village()
async def test_voters_compute_two_requests_and_the_liar_loses(village: Village) -> None:
    unit, liar, honest = await raced(village)
    before = {miner.keys.name: len(miner.executor.runs) for miner in village.miners}
    settled = await until_settled(village, unit)
    assert settled.winner == honest.keys.stash
    assert slashed(village) == [liar.keys.stash]
    computed = {miner.keys.name: len(miner.executor.runs) - before[miner.keys.name] for miner in village.miners}
    voters = {name for name, runs in computed.items() if runs}
    assert len(voters) == SIZE - 2
    assert {computed[name] for name in voters} <= {1, 2}, "where the answers differ, and a drawn one, of twenty"
    assert not {liar.keys.name, honest.keys.name} & voters
    assert not village.node.failed, "nobody paid for a call that failed"


@in_village()
async def test_a_racer_that_was_stopped_delivers_from_its_journal(village: Village) -> None:
    unit, _, honest = await raced(village)
    again = await village.restart(honest)
    settled = await until_settled(village, unit)
    assert settled.winner == again.keys.stash
    assert not again.executor.runs, "nothing is computed again"


@in_village()
async def test_a_racer_that_delivers_nothing_loses_like_a_liar(village: Village) -> None:
    unit, liar, honest = await raced(village)
    deliver_only(liar)
    settled = await until_settled(village, unit)
    assert settled.winner == honest.keys.stash
    assert slashed(village) == [liar.keys.stash]
    (ended,) = village.happened(DisputeEnded)
    assert ended.vote is not None
    assert ended.vote.verdict is Verdict.RIGHT
    assert not village.happened(VoterCharged)


@in_village()
async def test_a_racer_that_delivers_late_in_the_first_half_of_the_window_is_still_heard(village: Village) -> None:
    unit, liar, honest = await raced(village)
    until = village.node.chain.height + 14
    deliver_only(honest, lambda _: village.node.chain.height >= until)
    settled = await until_settled(village, unit)
    assert settled.winner == honest.keys.stash
    assert slashed(village) == [liar.keys.stash]


@in_village(size=10)
async def test_a_liar_that_delivers_to_some_voters_splits_no_votes(village: Village) -> None:
    unit, liar, honest = await raced(village)
    without = [miner.keys.provider for miner in village.miners if miner not in (liar, honest)][:4]
    deliver_only(liar, lambda question: not any(key in question for key in without))
    settled = await until_settled(village, unit)
    assert settled.winner == honest.keys.stash
    assert slashed(village) == [liar.keys.stash]
    assert not village.happened(VoterCharged)


@in_village()
async def test_without_any_delivery_both_lose_and_the_batch_is_drawn_again(village: Village) -> None:
    unit, liar, honest = await raced(village)
    deliver_only(liar)
    deliver_only(honest)
    for _ in range(BLOCKS_MAX):
        await village.block()
        if village.happened(UnitRequeued):
            break
    assert sorted(slashed(village)) == sorted([liar.keys.stash, honest.keys.stash])
    assert village.unit(unit).unit.attempt == 1
    assert not village.happened(VoterCharged)


@in_village(size=10)
async def test_two_that_agree_are_winner_and_witness(village: Village) -> None:
    unit, (liar, first, second) = await drawn(village, 3)
    liar.executor.spoil = True
    await until_disputed(village, unit)
    liar.executor.spoil = False
    settled = await until_settled(village, unit)
    assert {settled.winner, settled.witness} == {first.keys.stash, second.keys.stash}
    assert not village.node.failed, "nobody paid for a call that failed"


@in_village()
async def test_a_draining_racer_is_not_done_while_its_answers_are_disputed(village: Village) -> None:
    _, _, honest = await raced(village)
    races = honest.daemon.parts.journal.races
    races.remove(races)
    set_draining(honest.daemon.settings.base_path, drains=True)
    await honest.step()
    assert "drained" not in honest.heard.names()


@in_village(size=10)
async def test_of_three_answers_the_right_one_is_found_request_by_request(village: Village) -> None:
    unit, (liar, errs, honest) = await drawn(village, 3)
    real = errs.executor.run

    async def wrong_once(request: bytes) -> Execution:
        done = await real(request)
        return replace(done, output=done.output + b"!") if request == ASKED[7] else done

    liar.executor.spoil, errs.executor.run = True, wrong_once  # type: ignore[method-assign]
    await until_disputed(village, unit)
    liar.executor.spoil, errs.executor.run = False, real  # type: ignore[method-assign]
    settled = await until_settled(village, unit)
    assert settled.winner == honest.keys.stash
    assert slashed(village) == [liar.keys.stash, errs.keys.stash]
    assert not village.happened(VoterCharged)
    assert not village.node.failed


@in_village()
async def test_the_last_result_loses_too_if_its_drawn_request_is_wrong(village: Village) -> None:
    """One is wrong about the first request alone, the other about all others. The seed draws one of those."""
    unit, both = await drawn(village, 2)
    first, others = both
    real = {miner.keys.name: miner.executor.run for miner in both}

    def wrong_at(miner: Miner, false: list[bytes]) -> None:
        async def run(request: bytes) -> Execution:
            done = await real[miner.keys.name](request)
            return replace(done, output=done.output + b"!") if request in false else done

        miner.executor.run = run  # type: ignore[method-assign]

    wrong_at(first, ASKED[:1])
    wrong_at(others, ASKED[1:])
    await until_disputed(village, unit)
    for miner in both:
        miner.executor.run = real[miner.keys.name]  # type: ignore[method-assign]
    for _ in range(BLOCKS_MAX):
        await village.block()
        if village.happened(UnitRequeued):
            break
    assert sorted(slashed(village)) == sorted(miner.keys.stash for miner in both)
    (ended,) = village.happened(DisputeEnded)
    assert ended.vote is not None
    assert (ended.vote.verdict, ended.vote.answer) == (Verdict.RIGHT, unit)
    assert not village.happened(VoterCharged)
