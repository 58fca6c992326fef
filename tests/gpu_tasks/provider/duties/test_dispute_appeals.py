"""Appeals of decisions of nine voters: by a convicted provider, racer, decliner or checker, or by an outvoted voter."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from claim_book import ClaimedBatch, claimed_batch, parts_of, sources_of, stepped
from claiming_village import in_claiming_village, outcomes, spoiling_racers, until, until_ended
from gpu_tasks.market.claims.claim_closing import dispute_id_of
from gpu_tasks.market.claims.claim_events import CheckerDrawn
from gpu_tasks.market.claims.claims import ClaimOutcome, ClaimStage, ResultClaim
from gpu_tasks.market.claims.dispute_events import DisputeAppealed, DisputeDecided, DisputeEnded, VoterCharged
from gpu_tasks.market.claims.disputes import DRAWN, Dispute, DisputeStage, VotingSeat
from gpu_tasks.market.claims.disputes_api import BallotStatus, DisputeStatus
from gpu_tasks.market.claims.findings import CANNOT_FETCH, Finding, ItemSample, ItemVote, Verdict
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.inference.events import ProviderSlashed, RaceMissed, UnitRefunded, UnitSettled
from gpu_tasks.market.inference.units import Refund, UnitState
from gpu_tasks.provider.blobs.deliveries import RefusedDeliveryError
from gpu_tasks.provider.duties import dispute_appeals
from gpu_tasks.provider.duties.dispute_appeals import LAST_CALL_BLOCKS, DisputeAppealDuty
from gpu_tasks.provider.duties.voting import VoteTurn, VotingDuty
from provider_chain import Miner, Village, in_village
from simulation.chains.market_chain import CUSTOMER

SIZE = 13
"""Nine voters, two racers, a checker, and one more."""
Change = Callable[[VoteTurn, Miner, ItemVote], ItemVote]


def on_nine(village: Village, change: Change) -> None:
    """Change the votes of the first round, by the turn, the voter and its finding."""
    for miner in village.miners:
        duty = miner.daemon.duty(VotingDuty)
        duty._found = changed(duty._found, miner, change)  # type: ignore[method-assign, assignment]


def changed(found: Callable[[VoteTurn], Any], voter: Miner, change: Change) -> Callable[[VoteTurn], Any]:
    async def vote(turn: VoteTurn) -> ItemVote:
        right: ItemVote = await found(turn)
        return change(turn, voter, right) if turn.key[1] == DRAWN else right

    return vote


def decided_by_nine(village: Village) -> list[Verdict]:
    return [Verdict(event.vote.verdict) for event in village.happened(DisputeDecided)]


def appellants(village: Village) -> list[bytes]:
    return [event.appellant for event in village.happened(DisputeAppealed)]


def as_wrong(_: VoteTurn, __: Miner, vote: ItemVote) -> ItemVote:
    return replace(vote, verdict=Verdict.WRONG, answer=b"w" * 32)


@in_claiming_village(SIZE)
async def test_an_honest_provider_that_a_disputer_convicts_appeals(village: Village) -> None:
    on_nine(village, as_wrong)
    unit = await village.post(racers=1)
    await until(village, lambda: village.unit(unit).unit.state is UnitState.CLAIMED)
    village.node.calls.append((CUSTOMER.stash, ResultClaims.dispute(claim=unit, index=0)))
    assert await until_ended(village, unit) is UnitState.SETTLED
    provider = village.racers(unit)[0]
    assert decided_by_nine(village) == [Verdict.WRONG]
    assert appellants(village) == [provider.keys.stash]
    (warned,) = [fields for name, fields in provider.heard.events if name == "found_wrong"]
    assert (warned["claim"], warned["grains"]) == (unit, village.happened(CheckerDrawn)[0].held)
    assert outcomes(village) == [ClaimOutcome.PASSED]
    assert len(village.happened(VoterCharged)) == 9
    assert not village.happened(ProviderSlashed)


@in_claiming_village(SIZE)
async def test_an_honest_side_that_voters_convict_appeals(village: Village) -> None:
    unit = await village.post()

    def lie(_: VoteTurn, __: Miner, vote: ItemVote) -> ItemVote:
        racer = village.unit(unit).unit.racers[0]
        assert racer.reveal is not None
        return replace(vote, answer=racer.reveal.output_root)

    on_nine(village, lie)
    assert await until_ended(village, unit, spoiling_racers(village, unit, 1)) is UnitState.SETTLED
    liar, honest = (racer.owner for racer in village.unit(unit).unit.racers)
    assert appellants(village) == [honest]
    assert [event.provider for event in village.happened(ProviderSlashed)] == [liar]
    assert [event.winner for event in village.happened(UnitSettled)] == [honest]


@pytest.mark.parametrize("has_proof", [True, False])
@in_claiming_village(SIZE)
async def test_a_decliner_appeals_if_its_own_copy_shows_the_input_to_be_bad(
    village: Village, *, has_proof: bool
) -> None:
    """Nine friends of the customer find an input good that leaves a validator out."""

    def good(turn: VoteTurn, _: Miner, vote: ItemVote) -> ItemVote:
        return replace(vote, verdict=Verdict.RIGHT)

    on_nine(village, good)
    unit = await village.post(readers=village.node.chain.validators[:-1])
    decliners = village.drawn(unit)
    await until(village, lambda: village.happened(DisputeDecided))
    for miner in decliners if not has_proof else []:
        miner.daemon.parts.inputs._store.get = lambda _: None  # type: ignore[method-assign, assignment]
    await until(village, lambda: village.happened(DisputeEnded))
    assert decided_by_nine(village) == [Verdict.RIGHT]
    if has_proof:
        assert set(appellants(village)) <= {miner.keys.stash for miner in decliners}
        assert [event.refund for event in village.happened(UnitRefunded)] == [Refund.INPUT_BAD]
        assert not village.happened(RaceMissed)
    else:
        assert not appellants(village)
        assert {event.provider for event in village.happened(RaceMissed)} == {each.keys.stash for each in decliners}


@in_claiming_village(SIZE)
async def test_a_decliner_without_the_chains_key_does_not_appeal(village: Village) -> None:
    on_nine(village, lambda _turn, _voter, vote: replace(vote, verdict=Verdict.RIGHT))
    unit = await village.post(readers=village.node.chain.validators[:-1])
    decliners = village.drawn(unit)
    await until(village, lambda: village.unit(unit).unit.state is UnitState.DISPUTED)
    bound = village.node.chain.now()
    for miner in decliners:
        known = bound[Devices].providers[miner.keys.stash]
        assert known is not None
        bound[Devices].providers[miner.keys.stash] = replace(known, seal_key=b"k" * 32)
    village.node.chain.state = village.node.chain.state.updated(bound.overlay.changes())
    await until(village, lambda: village.happened(DisputeEnded))
    assert not appellants(village)


@in_claiming_village(SIZE)
async def test_an_outvoted_voter_appeals_where_nobody_else_does(
    village: Village, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight of nine lie, and the provider's daemon does not appeal."""
    monkeypatch.setattr(dispute_appeals, "is_wronged", lambda *_: False)
    honest = list[Miner]()

    def lie(turn: VoteTurn, voter: Miner, vote: ItemVote) -> ItemVote:
        if not honest:
            honest.append(voter)
        return vote if voter is honest[0] else as_wrong(turn, voter, vote)

    on_nine(village, lie)
    unit = await village.post(racers=1)
    await until(village, lambda: village.unit(unit).unit.state is UnitState.CLAIMED)
    village.node.calls.append((CUSTOMER.stash, ResultClaims.dispute(claim=unit, index=0)))
    assert await until_ended(village, unit) is UnitState.SETTLED
    assert appellants(village) == [honest[0].keys.stash]
    charged = {event.voter for event in village.happened(VoterCharged)}
    assert honest[0].keys.stash not in charged
    assert len(charged) == 8


@pytest.mark.parametrize("is_served_later", [False, True])
@in_claiming_village(SIZE, ResultClaims__duty_blocks=8)
async def test_a_checker_that_is_still_not_served_appeals(village: Village, *, is_served_later: bool) -> None:
    """The provider serves voters alone, so they find the item right."""
    unit = await village.post(racers=1)
    await until(village, lambda: village.unit(unit).unit.state is UnitState.CLAIMED)
    provider = village.racers(unit)[0]
    deliverer = provider.daemon.server._deliverer
    assert deliverer is not None
    deliver = deliverer._delivery  # type: ignore[attr-defined]

    async def voters_alone(question: Any, claim: ResultClaim | None, dispute: Dispute | None) -> bytes:
        if question.dispute is None and not (is_served_later and village.happened(DisputeDecided)):
            raise RefusedDeliveryError("not for a checker")
        delivery: bytes = await deliver(question, claim, dispute)
        return delivery

    deliverer._delivery = voters_alone  # type: ignore[attr-defined]
    await until_ended(village, unit)
    checker = village.happened(CheckerDrawn)[0].checker
    assert decided_by_nine(village)[0] is Verdict.RIGHT
    assert appellants(village)[:1] == ([] if is_served_later else [checker])


# Disputes of claims in a book, without their pallets.
ASKED = [b"complete this", b"no request"]
DISPUTE = b"d" * 32


def appeals_of(batch: ClaimedBatch, miner: Miner) -> DisputeAppealDuty:
    return DisputeAppealDuty(parts_of(batch.book, miner), sources_of(batch.book, miner))


def a_sample() -> ItemSample:
    return ItemSample(0, 1_000, bytes(16))


@pytest.mark.parametrize(
    ("verdict", "fingerprint", "appellants"),
    [
        (Verdict.RIGHT, b"p", ["checker"]),
        (Verdict.RIGHT, b"c", ["provider"]),
        (Verdict.RIGHT, b"?", ["provider", "checker"]),
        (Verdict.WRONG, b"p", ["provider", "checker"]),
        (Verdict.UNAVAILABLE, b"", ["provider"]),
    ],
)
@in_village(4)
async def test_a_decision_against_the_own_computation_is_appealed(
    village: Village, *, verdict: Verdict, fingerprint: bytes, appellants: list[str]
) -> None:
    batch = await claimed_batch(village, ASKED)
    checker, *voters = batch.others()
    batch.call_checker(checker, 0)
    by_provider, by_checker, decided = (
        replace(a_sample(), fingerprint=16 * each) for each in (b"p", b"c", fingerprint or b"?")
    )
    batch.change_check(commitment=b"c" * 32, shown=(by_provider,), finding=Finding(Verdict.RIGHT, 0, (by_checker,)))
    batch.change(stage=ClaimStage.DISPUTED, disputes=1)
    dispute_id = dispute_id_of(batch.id, 0)
    batch.dispute(dispute_id, voters)
    duties = {"provider": appeals_of(batch, batch.provider), "checker": appeals_of(batch, checker)}
    for duty in duties.values():
        await stepped(duty, 1)
    assert not batch.book.sent, "nothing is decided"
    vote = CANNOT_FETCH if verdict is Verdict.UNAVAILABLE else ItemVote(verdict, b"a" * 32, (decided, decided))
    voted = batch.book.disputes[dispute_id]
    batch.book.disputes[dispute_id] = replace(voted, stage=DisputeStage.APPEALABLE, vote=vote, appealable_until=20)
    found = []
    for name, duty in duties.items():
        await stepped(duty, 2)
        if batch.book.calls("Disputes.appeal") == [{"dispute": dispute_id}]:
            found.append(name)
        batch.book.sent.clear()
    assert found == appellants


@in_village(4)
async def test_a_provider_appeals_against_a_disputer_that_was_found_right(village: Village) -> None:
    batch = await claimed_batch(village, ASKED)
    batch.change(stage=ClaimStage.DISPUTED, disputes=1, disputer=b"somebody".ljust(32, b"."))
    dispute_id = dispute_id_of(batch.id, 0)
    batch.dispute(dispute_id, batch.others(), seeds=())
    voted, sample = batch.book.disputes[dispute_id], a_sample()
    providing = appeals_of(batch, batch.provider)
    for verdict, appeals in ((Verdict.RIGHT, 0), (Verdict.WRONG, 1)):
        vote = ItemVote(verdict, b"a" * 32, (sample,))
        batch.book.disputes[dispute_id] = replace(voted, stage=DisputeStage.APPEALABLE, vote=vote, appealable_until=20)
        await stepped(providing, 2)
        assert len(batch.book.calls("Disputes.appeal")) == appeals


@in_village(4)
async def test_an_outvoted_voter_waits_for_the_last_blocks_of_appeals(village: Village) -> None:
    batch = await claimed_batch(village, ASKED)
    voter = batch.others()[0]
    batch.dispute(DISPUTE, [voter])
    right = ItemVote(Verdict.RIGHT, b"a" * 32, (a_sample(), a_sample()))
    seat = VotingSeat(round=DRAWN, weight=1, held=20, vote=replace(right, verdict=Verdict.WRONG))
    dispute = replace(
        batch.book.disputes[DISPUTE], stage=DisputeStage.APPEALABLE, vote=right, appealable_until=20, round=None
    )
    ballot = BallotStatus(DISPUTE, seat, DisputeStatus(dispute, 0, 0, 0))
    found = [height for height in range(30) if dispute_appeals.is_outvoted(ballot, height)]
    assert found == list(range(20 - LAST_CALL_BLOCKS, 21))
