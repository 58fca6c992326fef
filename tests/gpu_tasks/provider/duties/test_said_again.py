"""Repeated messages about leaves, without new computation or fetching: shown from the journal, passed again."""

import time

import pytest

from checked_village import ASKED, in_checked_village, until_checked, until_settled
from gpu_tasks.market.inference.events import ProviderSlashed
from gpu_tasks.market.leaf_checks.checks import CheckOutcome
from gpu_tasks.market.leaf_checks.events import LeavesPassed, LeavesShown
from gpu_tasks.provider.blobs.store import Quota
from gpu_tasks.provider.duties.checks import CheckDuty
from provider_chain import Village


@pytest.mark.parametrize("is_restarted", [False, True])
@in_checked_village()
async def test_leaves_are_shown_from_the_journal_alone(village: Village, *, is_restarted: bool) -> None:
    """The input is in no store any longer, by its customer's will or for lack of room."""
    unit = await village.post(ASKED, tokens_max=128)
    await until_settled(village, unit)
    for miner in village.miners:
        miner.daemon.parts.store.sweep(time.time() + 2 * Quota().life_seconds)
    for miner in village.racers(unit) if is_restarted else []:
        await village.restart(miner)
    assert await until_checked(village, unit) is CheckOutcome.UNLOOKED, "no auditor has the input"
    assert len(village.happened(LeavesShown)) == 1
    assert not village.happened(ProviderSlashed)


@in_checked_village()
async def test_what_an_auditor_found_is_said_again_and_not_computed_again(village: Village) -> None:
    """Its call was lost twice, and a leaf may take its device for the whole window."""
    unit = await village.post(ASKED, tokens_max=128)
    lost: list[bytes] = []

    def lose() -> None:
        said = [account for account, call in village.node.calls if call.name == "LeafChecks.pass_leaves"]
        if said and len(lost) < 2:
            lost.extend(said)
            village.node.calls = [each for each in village.node.calls if each[1].name != "LeafChecks.pass_leaves"]

    async def step() -> None:
        for miner in list(village.miners):
            await miner.step()
        lose()

    for _ in range(80):
        village.node.block()
        await step()
        if village.happened(LeavesPassed):
            break
    (passed,) = village.happened(LeavesPassed)
    auditor = village.miner(passed.auditor)
    assert (len(lost), set(lost)) == (2, {auditor.keys.provider})
    assert auditor.heard.names().count("leaves_passed") == 3
    assert len(auditor.executor.runs) == 1
    assert not village.node.failed, "no copy was sent beside one that arrived"
    assert await until_checked(village, unit) is CheckOutcome.PASSED
    assert not auditor.daemon.duty(CheckDuty)._found
