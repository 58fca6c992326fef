"""Trees of several subtrees: shown in two steps, also after a restart between them or beside other units."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gpu_tasks.batches.outcomes import Completed, encode_outcomes
from gpu_tasks.batches.sum_tree import batch_root, totals_of
from gpu_tasks.data.unit_output import output_of
from gpu_tasks.market.attestations.usage import Usage
from gpu_tasks.market.claims.dispute_events import DisputeEnded
from gpu_tasks.market.inference.events import ProviderSlashed, UnitSettled
from gpu_tasks.market.leaf_disputes.events import LeafDisputed, NodesAsked, NodesShown, TreeWithheld
from gpu_tasks.provider.chain.port import ChainError
from gpu_tasks.provider.duties.batch_disputes import revealed_leaves
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.execution.executor import Execution, ExecutionError
from gpu_tasks.provider.journal.journal import Journal
from gpu_tasks.provider.journal.records import RaceEntry, UnitResult
from provider_chain import INPUT_SALT, Miner, Village
from runtime.frame.call import Call
from simulation.chains.market_chain import GENESIS_HASH, MarketChain, named_keys
from staged import Scene, staged

SIZE = 8
ASKED = [b"complete %d" % number for number in range(140)]
BENT = 70
"""The place of the wrong answer: in the second subtree of three."""
NUMBERS = {"LeafDisputes.show_blocks": 40}
BLOCKS_MAX = 200


def in_village(size: int = SIZE) -> Callable[[Scene], Callable[..., None]]:
    return staged(lambda folder: Village(folder, size, chain=MarketChain(named_keys(size), [], NUMBERS)))


async def asked_of_trees(village: Village) -> tuple[bytes, Miner, Miner]:
    """Return a batch with requested trees before any provider noticed: the unit, the liar, the other."""
    unit = await village.post(ASKED, tokens_max=32 * len(ASKED))
    liar, honest = village.drawn(unit)
    real = liar.executor.run

    async def wrong_once(request: bytes) -> Execution:
        done = await real(request)
        return replace(done, output=done.output + b"!") if request == ASKED[BENT] else done

    liar.executor.run = wrong_once  # type: ignore[method-assign]
    while True:
        village.node.block()
        if village.happened(NodesAsked):
            return unit, liar, honest
        for miner in list(village.miners):
            await miner.step()


async def until_settled(village: Village, unit: bytes, each_block: Callable[[], Awaitable[None]]) -> UnitSettled:
    for _ in range(BLOCKS_MAX):
        await village.block()
        await each_block()
        settled: list[UnitSettled] = [event for event in village.happened(UnitSettled) if event.unit == unit]
        if settled:
            return settled[0]
    raise AssertionError("never settled")


async def nothing() -> None:
    """Do nothing after a block of the scene."""


def check_outcome(village: Village, settled: UnitSettled, liar: Miner, honest: Miner) -> None:
    """Check that both showed both steps, voters judged the one leaf, and only the liar lost."""
    asked, shown = village.happened(NodesAsked), village.happened(NodesShown)
    assert [event.subtree for event in asked] == [None, BENT // 64]
    assert sorted(event.provider for event in shown) == sorted(2 * [liar.keys.stash, honest.keys.stash])
    assert [event.leaf for event in village.happened(LeafDisputed)] == [BENT]
    assert [event.provider for event in village.happened(ProviderSlashed)] == [liar.keys.stash]
    assert settled.winner == honest.keys.stash
    assert not village.node.failed, "nobody paid for a call that failed"


@in_village()
async def test_who_is_started_anew_before_each_step_shows_its_tree_and_computes_nothing_for_it(
    village: Village,
) -> None:
    unit, liar, honest = await asked_of_trees(village)
    starts: list[Miner] = [await village.restart(honest)]

    async def start_again() -> None:
        if len(village.happened(NodesAsked)) == 2 and len(starts) == 1:
            starts.append(await village.restart(starts[0]))

    settled = await until_settled(village, unit, start_again)
    assert len(starts) == 2
    check_outcome(village, settled, liar, starts[1])
    assert not [request for miner in starts for request in miner.executor.runs]


@in_village()
async def test_whose_device_computes_another_unit_by_now_shows_its_tree_all_the_same(village: Village) -> None:
    """Its node refuses the nodes until the device has moved on. The duty tries again, from the journal."""
    unit, liar, honest = await asked_of_trees(village)
    before, submit = len(honest.executor.runs), honest.chain.submit
    refused: list[Call] = []

    async def submit_later(call: Call) -> None:
        if call.name == "LeafDisputes.show_nodes" and len(honest.executor.runs) == before:
            refused.append(call)
            raise ChainError("the node is away")
        await submit(call)

    honest.chain.submit = submit_later  # type: ignore[method-assign]
    for number in range(6):
        await village.post(b"complete another %d" % number, racers=2)
    settled = await until_settled(village, unit, nothing)
    assert refused
    assert honest.heard.names().count("tree_asked") == 2, "once for each step, however often it was tried"
    assert honest.heard.names().count("tree_not_shown") == len(refused)
    check_outcome(village, settled, liar, honest)


@in_village()
async def test_who_shows_the_upper_nodes_and_no_leaves_loses_without_a_vote(village: Village) -> None:
    unit, liar, honest = await asked_of_trees(village)

    async def leave() -> None:
        shown = [event.provider for event in village.happened(NodesShown)]
        if liar.keys.stash in shown and liar in village.miners:
            village.miners.remove(liar)

    settled = await until_settled(village, unit, leave)
    village.miners.append(liar)
    assert settled.winner == honest.keys.stash
    assert len(village.happened(TreeWithheld)) == 1
    assert [event.provider for event in village.happened(ProviderSlashed)] == [liar.keys.stash]
    assert not village.happened(DisputeEnded)


def test_of_two_results_of_a_batch_that_one_is_shown_which_it_answered_with(tmp_path: Path) -> None:
    """Its first race ended without a result, and its device has computed something else since."""
    unit, journal, roots = b"u" * 32, Journal(tmp_path / "journal"), []
    for attempt, text in ((1, b"first"), (2, b"second")):
        outcomes = (Completed(text, 0, 3), Completed(text, 0, 4))
        output = output_of(GENESIS_HASH, unit, INPUT_SALT, outcomes)
        content, usage, zeros = encode_outcomes(outcomes), Usage(0, 0, 0, 0, 0, 0), bytes(32)
        result = UnitResult(content, output.root, zeros, output.totals, zeros, usage, 20, 21)
        journal.races.put((unit, attempt), RaceEntry(b"d" * 32, result, input_salt=INPUT_SALT))
        roots.append(output.root)
    parts = cast("Parts[Any]", SimpleNamespace(journal=journal, identity=SimpleNamespace(genesis=GENESIS_HASH)))
    shown = [revealed_leaves(parts, unit, root) for root in roots]
    assert [batch_root(totals_of(leaves)) for leaves in shown] == roots
    with pytest.raises(ExecutionError, match="lacks this result"):
        revealed_leaves(parts, unit, bytes(32))
    journal.close()
