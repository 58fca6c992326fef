"""Claims by daemons on the real pallets: checked, refuted, and decided by voters, from the race to the payment."""

from collections.abc import Sequence
from unittest.mock import AsyncMock

import pytest

from claiming_village import ASKED, check_ends, in_claiming_village, outcomes, spoiling_racers, until, until_ended
from gpu_tasks.data.unit_input import UnitInput
from gpu_tasks.market.claims.claim_events import (
    CheckerDrawn,
    FindingCommitted,
    FindingOpened,
    ItemDisputed,
    SamplesShown,
)
from gpu_tasks.market.claims.claims import CheckEnd, ClaimOutcome
from gpu_tasks.market.claims.dispute_events import (
    DisputeEnded,
    VoteCommitted,
    VoteOpened,
    VoterCharged,
    VotersDrawn,
)
from gpu_tasks.market.claims.findings import Verdict
from gpu_tasks.market.inference.events import ProviderSlashed, RaceMissed, UnitDisputed, UnitRefunded, UnitSettled
from gpu_tasks.market.inference.units import Refund, UnitState
from gpu_tasks.provider.blobs.inputs import UnusableInputError
from gpu_tasks.provider.chain.port import ChainError
from gpu_tasks.provider.duties.voting import VotingDuty
from gpu_tasks.provider.earnings import losses, payments
from provider_chain import REQUEST, Miner, Village


def decided(village: Village) -> list[Verdict]:
    """Return the verdicts of all disputes."""
    return [Verdict(event.vote.verdict) for event in village.happened(DisputeEnded) if event.vote is not None]


@pytest.mark.parametrize("asked", [REQUEST, ASKED], ids=["one request", "a batch"])
@pytest.mark.parametrize("racers", [1, 2])
@in_claiming_village()
async def test_an_honest_result_is_checked_and_paid(
    village: Village, asked: bytes | Sequence[bytes], racers: int
) -> None:
    unit = await village.post(asked, racers=racers, tokens_max=128)
    assert await until_ended(village, unit) is UnitState.SETTLED
    assert outcomes(village) == [ClaimOutcome.PASSED]
    assert set(check_ends(village)) == {CheckEnd.PASSED}
    assert not village.happened(ItemDisputed)
    assert not village.node.failed
    racing = {racer.owner for racer in village.unit(unit).unit.racers}
    for drawn in village.happened(CheckerDrawn):
        checker = village.miner(drawn.checker)
        assert drawn.checker not in racing
        assert checker.executor.checks
        assert not checker.executor.runs


@pytest.mark.parametrize("asked", [REQUEST, ASKED], ids=["one request", "a batch"])
@in_claiming_village()
async def test_a_false_lone_result_is_found_and_refuted(village: Village, asked: bytes | Sequence[bytes]) -> None:
    unit = await village.post(asked, racers=1, tokens_max=128)
    assert await until_ended(village, unit, spoiling_racers(village, unit, 1)) is UnitState.REFUNDED
    assert outcomes(village) == [ClaimOutcome.REFUTED]
    assert [event.refund for event in village.happened(UnitRefunded)] == [Refund.REFUTED]
    (racer,) = village.unit(unit).unit.racers
    assert [event.provider for event in village.happened(ProviderSlashed)] == [racer.owner]
    assert decided(village) == [Verdict.WRONG]
    assert {event.vote.verdict for event in village.happened(VoteOpened)} == {Verdict.WRONG}
    assert not village.happened(VoterCharged)
    assert not village.node.failed


@pytest.mark.parametrize("asked", [REQUEST, ASKED], ids=["one request", "a batch"])
@in_claiming_village()
async def test_of_two_results_voters_find_the_right_one(village: Village, asked: bytes | Sequence[bytes]) -> None:
    unit = await village.post(asked, tokens_max=128)
    assert await until_ended(village, unit, spoiling_racers(village, unit, 1)) is UnitState.SETTLED
    liar, honest = (racer.owner for racer in village.unit(unit).unit.racers)
    assert [event.provider for event in village.happened(ProviderSlashed)] == [liar]
    assert [event.winner for event in village.happened(UnitSettled)] == [honest]
    assert outcomes(village) == [ClaimOutcome.PASSED]
    assert decided(village) == [Verdict.RIGHT]
    assert len({event.vote for event in village.happened(VoteOpened)}) == 1
    assert not village.happened(VoterCharged)
    assert not village.node.failed


@in_claiming_village()
async def test_an_input_that_voters_cannot_open_costs_its_customer_alone(village: Village) -> None:
    unit = await village.post(readers=village.node.chain.validators[:-1])
    assert await until_ended(village, unit) is UnitState.REFUNDED
    assert village.happened(UnitDisputed)
    assert [event.refund for event in village.happened(UnitRefunded)] == [Refund.INPUT_BAD]
    assert decided(village) == [Verdict.WRONG]
    assert not village.happened(RaceMissed)
    assert not village.happened(VoterCharged)
    assert not village.node.failed


@in_claiming_village(13)
async def test_an_input_that_voters_can_open_costs_its_decliners(village: Village) -> None:
    unit = await village.post()
    decliners = village.drawn(unit)
    for miner in decliners:
        miner.daemon.parts.inputs.open = unusable  # type: ignore[method-assign, assignment]  # broken machines
    await until(village, lambda: village.happened(DisputeEnded))
    assert decided(village) == [Verdict.RIGHT]
    assert {event.provider for event in village.happened(RaceMissed)} == {miner.keys.stash for miner in decliners}
    assert await until_ended(village, unit) is UnitState.SETTLED
    assert not village.happened(VoterCharged)


async def unusable(*_: object) -> UnitInput:
    raise UnusableInputError("not for me", code="invalid_input")


@pytest.mark.parametrize("stop_at", [CheckerDrawn, FindingCommitted, SamplesShown, FindingOpened])
@in_claiming_village(4)
async def test_a_restart_at_any_step_of_a_check_loses_nothing(village: Village, stop_at: type[object]) -> None:
    """Everybody restarts: the provider keeps result and input, and the checker keeps its finding."""
    unit = await village.post(ASKED, racers=1, tokens_max=128)
    await until(village, lambda: village.happened(stop_at))
    for miner in list(village.miners):
        await village.restart(miner)
    assert await until_ended(village, unit) is UnitState.SETTLED
    assert set(check_ends(village)) == {CheckEnd.PASSED}
    assert len(village.happened(FindingCommitted)) == len(village.happened(CheckerDrawn))
    assert not village.node.failed


@pytest.mark.parametrize("stop_at", [ItemDisputed, VoteCommitted, VoteOpened])
@in_claiming_village()
async def test_a_restart_at_any_step_of_a_vote_loses_nothing(village: Village, stop_at: type[object]) -> None:
    unit = await village.post(racers=1)
    await until(village, lambda: village.happened(stop_at), spoiling_racers(village, unit, 1))
    for miner in list(village.miners):
        await village.restart(miner)
    assert await until_ended(village, unit) is UnitState.REFUNDED
    assert outcomes(village) == [ClaimOutcome.REFUTED]
    assert not village.happened(VoterCharged)
    assert not village.node.failed


def noted_money(miner: Miner) -> int:
    """Return the earnings less the losses that a provider noted."""
    base = miner.daemon.settings.base_path
    return sum(each.grains for each in payments(base)) - sum(each.grains for each in losses(base))


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("lies", [False, True])
@in_claiming_village()
async def test_checkers_and_voters_note_what_they_earn_and_lose(
    village: Village, *, lies: bool, is_restarted: bool
) -> None:
    """One voter is silent, if there is a vote."""
    chain = village.node.chain
    before = {miner.keys.stash: chain.owned(miner.keys.stash) for miner in village.miners}
    unit = await village.post(ASKED, racers=1, tokens_max=128)
    spoil, silent = spoiling_racers(village, unit, 1 if lies else 0), list[Miner]()

    def act() -> None:
        spoil()
        drawn = village.happened(VotersDrawn)
        if drawn and not silent:
            silent.append(village.miner(drawn[0].voters[0]))
            silent[0].daemon.duty(VotingDuty)._found = AsyncMock(side_effect=ChainError("away"))  # type: ignore[method-assign]

    if is_restarted:
        await until(village, lambda: village.happened(FindingOpened), act)
        for miner in list(village.miners):
            await village.restart(miner)
    await until_ended(village, unit, act)
    await village.blocks(4)
    (racer,) = village.unit(unit).unit.racers
    for miner in (each for each in village.miners if each.keys.stash != racer.owner):
        gained = chain.owned(miner.keys.stash) - before[miner.keys.stash]
        assert noted_money(miner) == gained, miner.keys.name
        assert gained or miner.keys.stash not in {event.checker for event in village.happened(CheckerDrawn)}
    assert bool(silent) is lies
    for miner in silent:
        (lost,) = losses(miner.daemon.settings.base_path)
        assert (lost.fault, lost.device) == ("vote", "none")
