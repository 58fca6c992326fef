"""What daemons say of leaves without computing or fetching anything again: shown from the journal, passed once more."""

import time
from pathlib import Path

import pytest

from checked_village import ASKED, play, racers_of, until_checked, until_settled
from gpu_tasks.market.inference.events import ProviderSlashed
from gpu_tasks.market.leaf_checks.checks import CheckOutcome
from gpu_tasks.market.leaf_checks.events import LeavesPassed, LeavesShown
from gpu_tasks.provider.blobs.store import Quota
from gpu_tasks.provider.duties.checks import CheckDuty
from provider_chain import Village


def without_salts(village: Village) -> None:
    """Daemons whose journals were written before salts stood in them."""
    for miner in village.miners:
        for entry in miner.daemon.parts.journal.races.values():
            entry.input_salt = None


@pytest.mark.parametrize("is_old", [False, True])
@pytest.mark.parametrize("is_restarted", [False, True])
def test_leaves_are_shown_from_the_journal_alone(tmp_path: Path, *, is_restarted: bool, is_old: bool) -> None:
    """The input is nowhere any more, by its customer's will or for want of room; an older journal has no salt."""

    async def scene(village: Village) -> None:
        unit = await village.post(ASKED, tokens_max=128)
        await until_settled(village, unit)
        for miner in village.miners:
            miner.daemon.parts.store.sweep(time.time() + 2 * Quota().life_seconds)
        for miner in racers_of(village, unit) if is_restarted else []:
            await village.restart(miner)
        if is_old:
            without_salts(village)
        outcome = await until_checked(village, unit)
        assert outcome is (CheckOutcome.WITHHELD if is_old else CheckOutcome.UNLOOKED), "no auditor has the input"
        assert len(village.node.chain.happened(LeavesShown)) == (not is_old)
        assert bool(village.node.chain.happened(ProviderSlashed)) == is_old

    play(tmp_path, scene)


def test_an_older_journal_has_the_salt_fetched_with_the_input(tmp_path: Path) -> None:
    async def scene(village: Village) -> None:
        unit = await village.post(ASKED, tokens_max=128)
        assert await until_checked(village, unit, lambda: without_salts(village)) is CheckOutcome.PASSED
        assert len(village.node.chain.happened(LeavesShown)) == 1

    play(tmp_path, scene)


def test_what_an_auditor_found_is_said_again_and_not_computed_again(tmp_path: Path) -> None:
    """Its call was lost on the way, twice; a leaf may take its device for the whole window."""

    async def scene(village: Village) -> None:
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
            if village.node.chain.happened(LeavesPassed):
                break
        (passed,) = village.node.chain.happened(LeavesPassed)
        auditor = village.miner(passed.auditor)
        assert (len(lost), set(lost)) == (2, {auditor.keys.provider})
        assert auditor.heard.names().count("leaves_passed") == 3
        assert len(auditor.executor.runs) == 1
        assert not village.node.failed, "no copy was sent beside one that arrived"
        assert await until_checked(village, unit) is CheckOutcome.PASSED
        assert not auditor.daemon.duty(CheckDuty)._found

    play(tmp_path, scene)
