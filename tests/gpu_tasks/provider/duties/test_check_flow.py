"""Checks of batches by daemons: leaves are shown and audited automatically, and a liar loses."""

import time
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from dataclasses import replace
from typing import Any

import pytest

from checked_village import ASKED, in_checked_village, until_checked
from fake_work import FakeForm
from gpu_tasks.batches.leaves import leaves_of
from gpu_tasks.batches.sum_tree import leaf_path, totals_of
from gpu_tasks.market.courts.events import CaseAppealed, CaseEnded
from gpu_tasks.market.courts.money import CaseOutcome
from gpu_tasks.market.inference.events import ProviderSlashed
from gpu_tasks.market.inference.gpu_tasks_api import InputReader, UnitStatus
from gpu_tasks.market.inference.units import UnitState
from gpu_tasks.market.leaf_checks.checks import LEAF_FEE, CheckOutcome, LeafStage
from gpu_tasks.market.leaf_checks.events import (
    AuditorDrawn,
    LeafDoubted,
    LeavesPassed,
    LeavesShown,
)
from gpu_tasks.market.leaf_checks.leaf_checks import LeafChecks
from gpu_tasks.provider.blobs.store import Quota
from gpu_tasks.provider.duties.checks import CheckDuty
from gpu_tasks.provider.duties.keyed_tasks import KeyedTasks
from gpu_tasks.provider.duties.side_earnings import AUDITING
from gpu_tasks.provider.earnings import EARNINGS_FILE, payments
from gpu_tasks.provider.tasks.policy_file import set_draining
from gpu_tasks.workloads.form import outcomes_of
from provider_chain import INPUT_SALT, Miner, Village
from runtime.pallets.staking.trust_lock import Paid
from simulation.chains.market_chain import CUSTOMER, GENESIS_HASH


class FullTasks(KeyedTasks):
    """Unlimited concurrent tasks."""

    def start(self, key: Hashable, work: Coroutine[Any, Any, None]) -> None:
        """Start without further effect."""
        work.close()


@in_checked_village()
async def test_who_is_elected_after_the_race_keeps_nobody_from_showing_what_it_answered(village: Village) -> None:
    """A customer seals to the active set but not to the next one. Racers open that, and must still show it."""
    unit = await village.post(ASKED, tokens_max=128)
    elected = InputReader(b"e" * 32, b"k" * 32, 0)
    for miner in village.miners:
        miner.chain.judging_readers = with_elected(miner.chain.judging_readers, village, unit, elected)  # type: ignore[assignment]
    assert await until_checked(village, unit) is CheckOutcome.UNLOOKED, "no auditor opens it"
    assert len(village.happened(LeavesShown)) == 1
    assert not village.happened(ProviderSlashed)


def with_elected(
    asked: Callable[[], Awaitable[Any]], village: Village, unit: bytes, elected: InputReader
) -> Callable[[], Awaitable[Any]]:
    """Change a node's list of possible judges: one more, once the unit is settled."""

    async def judging_readers() -> Any:
        readers = await asked()
        is_settled = village.unit(unit).unit.state is UnitState.SETTLED
        return (*readers, elected) if is_settled else readers

    return judging_readers


@in_checked_village()
async def test_an_input_that_was_brought_a_day_before_its_unit_is_there_until_its_leaves_are_shown(
    village: Village, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sent to every store at once, it was deleted after the race, and no racer could show its answer."""
    stores = [miner.daemon.parts.store for miner in village.miners]
    begun = time.time()
    with monkeypatch.context() as earlier:
        earlier.setattr(time, "time", lambda: begun + 60 - Quota().life_seconds)
        unit = await village.post(ASKED, tokens_max=128)
        blob = stores[0].get(village.unit(unit).unit.terms.input_root)
        assert blob is not None
        for store in stores:
            store.put(blob, stranger="203.0.113.7")
    settled: list[bool] = []

    def sweep() -> None:
        if village.unit(unit).unit.state is UnitState.SETTLED and not settled:
            settled.append(True)
            for store in stores:
                store.sweep(begun + 120)

    assert await until_checked(village, unit, sweep) is CheckOutcome.PASSED
    assert settled
    assert not village.happened(ProviderSlashed)


@in_checked_village()
async def test_audits_that_wait_for_a_device_keep_no_leaves_from_being_shown(village: Village) -> None:
    """A stranger's dust at its own service calls every validator for hundreds of audits, each of any length."""
    for miner in village.miners:
        miner.daemon.duty(CheckDuty).audits.tasks = FullTasks()
    unit = await village.post(ASKED, tokens_max=128)
    assert await until_checked(village, unit) is CheckOutcome.UNLOOKED, "nobody has room for one more audit"
    assert len(village.happened(LeavesShown)) == 1
    assert not village.happened(ProviderSlashed)


@in_checked_village()
async def test_honest_providers_show_and_pass_by_themselves(village: Village) -> None:
    unit = await village.post(ASKED, tokens_max=128)
    assert await until_checked(village, unit) is CheckOutcome.PASSED
    assert len(village.happened(LeavesShown)) == 1
    assert len(village.happened(LeavesPassed)) == 1
    assert not village.node.failed, "nobody paid for a call that failed"
    assert not village.happened(ProviderSlashed)
    (drawn,) = village.happened(AuditorDrawn)
    auditor = village.miner(drawn.auditor)
    assert set(auditor.executor.runs) <= set(ASKED)
    assert len(auditor.executor.runs) <= 1, "of four requests one was drawn"


def audits_paid(miner: Miner) -> list[tuple[str, int]]:
    """Return a provider's noted earnings from audits: names and grains."""
    found = payments(miner.daemon.settings.base_path / EARNINGS_FILE)
    return [(each.name, each.grains) for each in found if each.service == AUDITING]


@pytest.mark.parametrize("is_restarted", [False, True])
@in_checked_village()
async def test_the_auditor_notes_its_fee_once(village: Village, *, is_restarted: bool) -> None:
    """Also in a new process: between its opinion and the end of a check it has no duty, only a seat."""
    unit = await village.post(ASKED, tokens_max=128)
    happened = village.node.chain.happened
    while (check := village.node.leaves().check(unit)) is None or check.stage is not LeafStage.OPEN:
        await village.block()
    (passed,) = happened(LeavesPassed)
    if is_restarted:
        assert not village.miner(passed.auditor).chain.view().checks
        await village.restart(village.miner(passed.auditor))
    assert await until_checked(village, unit) is CheckOutcome.PASSED
    (paid,) = [event for event in happened(Paid) if event.reason is LEAF_FEE and event.payee == passed.auditor]
    name = f"auditing 0x{unit.hex()} {village.node.chain.height}"
    for _ in range(3):
        village.node.block()
        for miner in village.miners:
            await miner.step()
            assert audits_paid(miner) == ([(name, paid.amount)] if miner.keys.stash == passed.auditor else [])


@in_checked_village()
async def test_who_drains_is_not_done_while_it_audits(village: Village) -> None:
    """A machine switched off when "drained" is shown would lose its seat's fee, or all of its deposit."""
    unit = await village.post(ASKED, tokens_max=128)
    asked: list[Miner] = []
    done: list[bool] = []

    def drain() -> None:
        done.extend("drained" in miner.heard.names() for miner in asked)
        asked[:] = [miner for miner in village.miners if miner.chain.view().checks]
        for miner in asked:
            set_draining(miner.daemon.settings.base_path, drains=True)

    await until_checked(village, unit, drain)
    assert len(done) >= 2, "some show, one audits"
    assert not any(done)


@in_checked_village()
async def test_two_who_agree_on_a_lie_are_found_by_the_auditor(village: Village) -> None:
    unit = await village.post(ASKED, tokens_max=128)

    def spoil() -> None:
        status = village.unit(unit)
        for miner in village.racers(unit):
            miner.executor.spoil = status.unit.state is UnitState.RACING

    outcome = await until_checked(village, unit, spoil)
    status = village.unit(unit)
    racers = {miner.keys.stash for miner in village.racers(unit)}
    if outcome is CheckOutcome.REFUTED:
        assert {slashed.provider for slashed in village.happened(ProviderSlashed)} == racers
        assert status.unit.is_refuted
    else:
        raise AssertionError(f"{outcome.name}: a lie in every leaf that says something")


@in_checked_village()
async def test_where_the_first_is_away_the_second_shows_the_leaves(village: Village) -> None:
    unit = await village.post(ASKED, tokens_max=128)
    away: list[Miner] = []

    def leave() -> None:
        check = village.node.leaves().check(unit)
        if check is not None and not away:
            away.append(village.miner(check.terms.answerers[0].account))
            village.miners.remove(away[0])

    assert await until_checked(village, unit, leave) is CheckOutcome.PASSED
    (shown,) = village.happened(LeavesShown)
    assert shown.provider != away[0].keys.stash
    village.miners.append(away[0])


@in_checked_village(**{"Courts.audit_rate_ppm": 1000000})
async def test_what_an_auditor_passed_with_is_what_its_judges_find(village: Village) -> None:
    for _ in range(6):
        unit = await village.post(ASKED, tokens_max=128)
        assert await until_checked(village, unit) is CheckOutcome.PASSED
    judges = [miner for miner in village.miners if "verdict_reveal" in miner.heard.names()]
    assert judges, "somebody judged what an auditor passed with"
    ended = {CaseOutcome(event.outcome) for event in village.happened(CaseEnded)}
    assert ended == {CaseOutcome.AUDIT_RIGHT}


@in_checked_village(size=10)
async def test_who_is_called_a_liar_by_two_of_three_appeals_by_itself(village: Village) -> None:
    """All but the racers are wrong about the leaf, auditor and committee. Then they are right, and a court sits."""
    unit = await village.post(ASKED, tokens_max=128)

    def spoil() -> None:
        is_racing = not village.happened(LeavesShown)
        is_appealed = bool(village.happened(CaseAppealed))
        honest = village.racers(unit)
        for miner in village.miners:
            miner.executor.spoil = not is_racing and not is_appealed and miner not in honest

    outcome = await until_checked(village, unit, spoil)
    appealed = village.happened(CaseAppealed)
    assert outcome is CheckOutcome.PASSED
    assert appealed[0].appellant in {miner.keys.stash for miner in village.racers(unit)}
    assert not village.happened(ProviderSlashed)


@in_checked_village(**{"LeafChecks.check_from": 0})
async def test_nothing_is_checked_where_the_chain_does_not_ask_for_it(village: Village) -> None:
    unit = await village.post(ASKED, tokens_max=128)
    await village.run(unit)
    assert not list(village.node.chain.now()[LeafChecks].checks.keys())


@in_checked_village()
async def test_judges_compute_the_leaf_that_a_customer_disputes_and_no_other(village: Village) -> None:
    """An unshown leaf: the racer is right about it, and pays nothing."""
    unit = await village.post(ASKED, tokens_max=128)
    outputs = [request[::-1] if request.startswith(b"complete") else None for request in ASKED]
    leaves = leaves_of(GENESIS_HASH, unit, INPUT_SALT, outcomes_of(FakeForm(), ASKED, outputs))
    disputed: list[int] = []

    def dispute() -> None:
        check = village.node.leaves().check(unit)
        if check is not None and check.stage is LeafStage.OPEN and not disputed:
            shown = {leaf.index for leaf in check.shown}
            disputed.append(next(index for index in range(len(ASKED)) if index not in shown))
            path, totals = leaf_path(leaves, disputed[0]), totals_of(leaves)
            call = LeafChecks.dispute_leaf(unit=unit, totals=totals, path=path, found=b"n" * 32)
            village.node.calls.append((CUSTOMER.stash, call))

    assert await until_checked(village, unit, dispute) is CheckOutcome.PASSED
    assert [event.doubt.shown.index for event in village.happened(LeafDoubted)] == disputed
    ended = [CaseOutcome(event.outcome) for event in village.happened(CaseEnded)]
    assert CaseOutcome.DECIDED in ended
    assert not village.happened(ProviderSlashed)


@in_checked_village(**{"Courts.audit_rate_ppm": 1000000})
async def test_a_judge_says_nothing_of_a_batch_that_the_final_chain_has_not(village: Village) -> None:
    """Nodes lie about the terms: an opinion formed by them is never sent."""
    is_told = False

    def lying(told: Callable[[bytes], Awaitable[UnitStatus | None]]) -> Callable[[bytes], Awaitable[Any]]:
        async def unit(name: bytes) -> UnitStatus | None:
            status = await told(name)
            if status is None or not is_told:
                return status
            terms = replace(status.unit.terms, tokens_max=status.unit.terms.tokens_max + 1)
            return replace(status, unit=replace(status.unit, terms=terms))

        return unit

    for miner in village.miners:
        miner.chain.unit = lying(miner.chain.unit)  # type: ignore[assignment]  # its node lies
    for _ in range(6):
        is_told = False
        unit = await village.post(ASKED, tokens_max=128)

        def lie() -> None:
            nonlocal is_told
            is_told = bool(village.happened(LeavesPassed))

        await until_checked(village, unit, lie)
        heard = {name for miner in village.miners for name in miner.heard.names()}
        if "no_verdict" in heard:
            assert "verdict_commit" not in heard
            return
    raise AssertionError("nobody was to judge")
