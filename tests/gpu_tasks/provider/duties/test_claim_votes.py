"""Votes of daemons about disputed items: equal for all honest voters, and no earlier than it is safe."""

from dataclasses import replace
from typing import Any

import pytest

from claim_book import NEW_SEED, SEED, WINDOW, ClaimedBatch, claimed_batch, parts_of, sources_of, stepped
from gpu_tasks.batches.leaf_draws import leaf_weight
from gpu_tasks.batches.leaves import Leaf, leaf_of
from gpu_tasks.batches.outcomes import BatchOutcome, Completed, RefusedRequest
from gpu_tasks.batches.sum_tree import leaf_claim
from gpu_tasks.data.blob_client import BlobError
from gpu_tasks.market.claims.disputes import DisputeQuestion, DisputeStage, VotingSeat
from gpu_tasks.market.claims.findings import CANNOT_FETCH, ItemSample, ItemVote, Verdict, vote_commitment
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.claims.voting import is_well_formed
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.provider.duties.item_sources import NO_FINGERPRINT
from gpu_tasks.provider.duties.sides import Patience
from gpu_tasks.provider.duties.voting import VotingDuty
from gpu_tasks.provider.execution.executor import BadRequestError
from provider_chain import INPUT_SALT, Miner, Village, in_village
from runtime.cryptography.hashing import blake2_256
from simulation.chains.market_chain import GENESIS_HASH

ASKED = [b"complete this", b"no request", b"complete that one too", b"complete it"]
DISPUTE, SECOND_SEED = b"d" * 32, b"seed of a second check".ljust(32, b".")
FROM_CLAIM = {"handler": ResultClaims.index}


def duty_of(batch: ClaimedBatch, miner: Miner) -> VotingDuty:
    return VotingDuty(parts_of(batch.book, miner), sources_of(batch.book, miner))


def outcome_of(request: bytes) -> BatchOutcome:
    is_request = request.startswith(b"complete")
    return Completed(request[::-1], 0, len(request)) if is_request else RefusedRequest()


def right_leaf(batch: ClaimedBatch, index: int, request: bytes) -> Leaf:
    return leaf_of(GENESIS_HASH, batch.id, INPUT_SALT, index, outcome_of(request))


def right_vote(
    batch: ClaimedBatch, index: int, verdict: Verdict, seeds: tuple[bytes, ...], asked: list[bytes] | None = None
) -> ItemVote:
    request = (asked or ASKED)[index]
    leaf = right_leaf(batch, index, request)
    prints = [
        blake2_256(b"fingerprint" + request + seed)[:16] if request.startswith(b"complete") else NO_FINGERPRINT
        for seed in seeds
    ]
    weight = leaf_weight(leaf, batch.floor)
    return ItemVote(verdict, leaf_claim(index, leaf), tuple(ItemSample(index, weight, found) for found in prints))


def vote_of(miner: Miner, number: int = 0) -> ItemVote:
    return miner.daemon.parts.journal.votes[DISPUTE, number].statement


@pytest.mark.parametrize("index", [0, 1, 3])
@pytest.mark.parametrize("is_point", [True, False])
@pytest.mark.parametrize("seeds", [(), (SEED,), (SEED, SECOND_SEED)])
@in_village(4)
async def test_all_voters_agree_that_a_right_item_is_right(
    village: Village, *, index: int, is_point: bool, seeds: tuple[bytes, ...]
) -> None:
    batch = await claimed_batch(village, ASKED)
    named: dict[str, Any] = {"point": batch.point_of(index)} if is_point else {"index": index}
    batch.dispute(DISPUTE, batch.others(), seeds=seeds, **named, **FROM_CLAIM)
    for voter in batch.others():
        runs = len(voter.executor.runs)
        await stepped(duty_of(batch, voter), 1)
        assert vote_of(voter) == right_vote(batch, index, Verdict.RIGHT, (*seeds, NEW_SEED))
        assert is_well_formed(vote_of(voter), len(seeds) + 1)
        assert len(voter.executor.runs) == runs, "the item was checked, not computed"


@pytest.mark.parametrize("index", [0, 3])
@in_village(4)
async def test_all_voters_compute_the_right_answer_of_a_wrong_item(village: Village, *, index: int) -> None:
    batch = await claimed_batch(village, ASKED, spoil=True)
    batch.dispute(DISPUTE, batch.others(), point=batch.point_of(index), **FROM_CLAIM)
    for voter in batch.others():
        await stepped(duty_of(batch, voter), 1)
        assert vote_of(voter) == right_vote(batch, index, Verdict.WRONG, (SEED, NEW_SEED))


@in_village(4)
async def test_an_item_that_was_refused_wrongly_is_computed(village: Village) -> None:
    batch = await claimed_batch(village, ASKED, trouble=BadRequestError("none of these"))
    voter = batch.others()[0]
    batch.dispute(DISPUTE, [voter], index=2, **FROM_CLAIM)
    await stepped(duty_of(batch, voter), 1)
    assert vote_of(voter) == right_vote(batch, 2, Verdict.WRONG, (SEED, NEW_SEED))


@in_village(4)
async def test_the_answer_about_a_result_of_one_item_is_its_root(village: Village) -> None:
    batch = await claimed_batch(village, b"complete alone")
    voter = batch.others()[0]
    batch.dispute(DISPUTE, [voter], point=0, **FROM_CLAIM)
    await stepped(duty_of(batch, voter), 1)
    assert (vote_of(voter).verdict, vote_of(voter).answer) == (Verdict.RIGHT, batch.claim.terms.root)


@in_village(4)
async def test_a_voter_waits_a_sixth_of_the_window_for_sides_and_half_of_it_in_all(village: Village) -> None:
    batch = await claimed_batch(village, ASKED)
    voter = batch.others()[0]
    batch.dispute(DISPUTE, [voter], question=DisputeQuestion.SIDES, seeds=())
    batch.book.commits_until, patiences = 40, list[Patience]()

    async def right_side(disputed: Any, fetching: Any, patience: Patience) -> ItemVote:
        patiences.append(patience)
        raise BlobError("not yet", code="not_found")

    voting, sources = duty_of(batch, voter), sources_of(batch.book, voter)
    sources[InferenceMarket.index].right_side = right_side  # type: ignore[method-assign]
    voting.sources = sources
    late = list[bool]()
    for height in (24, 25):
        await stepped(voting, height)
        late.append(patiences[-1].is_late())
    assert late == [False, True]
    assert {patience.seconds for patience in patiences} == {WINDOW * await voter.chain.slot_ms() / 1_000 / 6}


@pytest.mark.parametrize("is_usable", [True, False])
@in_village(4)
async def test_voters_agree_whether_an_input_can_be_opened(village: Village, *, is_usable: bool) -> None:
    batch = await claimed_batch(village, ASKED)
    if not is_usable:
        batch.id = await village.post(ASKED, readers=[])
    batch.dispute(DISPUTE, batch.others(), question=DisputeQuestion.INPUT, seeds=())
    for voter in batch.others():
        await stepped(duty_of(batch, voter), 1)
        verdict = Verdict.RIGHT if is_usable else Verdict.WRONG
        assert vote_of(voter) == ItemVote(verdict, batch.id, (ItemSample(0, 0, NO_FINGERPRINT),))
        assert is_well_formed(vote_of(voter), 1)


@pytest.mark.parametrize("question", [DisputeQuestion.ITEM, DisputeQuestion.INPUT])
@in_village(4)
async def test_what_nobody_provides_is_unavailable_shortly_before_the_deadline(
    village: Village, *, question: DisputeQuestion
) -> None:
    batch = await claimed_batch(village, ASKED)
    voter = batch.others()[0]
    batch.provider.daemon.server._deliverer = None
    if question is DisputeQuestion.INPUT:
        batch.id = await village.post(ASKED, is_stored=False, input_root=b"?" * 32)
    batch.dispute(DISPUTE, [voter], question=question, **(FROM_CLAIM if question is DisputeQuestion.ITEM else {}))
    batch.book.commits_until = 40
    voting = duty_of(batch, voter)
    for height in (1, 33):
        await stepped(voting, height)
        assert not batch.book.sent
    await stepped(voting, 34)
    assert vote_of(voter) == CANNOT_FETCH
    assert len(batch.book.calls("Disputes.commit_vote")) == 1


@in_village(4)
async def test_a_vote_is_committed_then_opened_and_each_only_once_it_is_final(village: Village) -> None:
    batch = await claimed_batch(village, ASKED)
    voter = batch.others()[0]
    stash = voter.keys.stash
    batch.dispute(DISPUTE, [voter], **FROM_CLAIM)
    voting = duty_of(batch, voter)
    batch.book.is_final = False
    await stepped(voting, 1)
    assert not voter.daemon.parts.journal.votes
    batch.book.is_final = True
    await stepped(voting, 2)
    (committed,) = batch.book.calls("Disputes.commit_vote")
    entry = voter.daemon.parts.journal.votes[DISPUTE, 0]
    commitment = vote_commitment(GENESIS_HASH, DISPUTE, 0, stash, entry.statement, entry.salt)
    assert committed == {"dispute": DISPUTE, "commitment": commitment}
    batch.book.ballots[stash][DISPUTE] = replace(batch.book.ballots[stash][DISPUTE], commitment=commitment)
    await stepped(voting, 9)
    assert not batch.book.calls("Disputes.open_vote"), "openings have not begun"
    batch.book.opens_from, batch.book.is_final = 9, False
    await stepped(voting, 10)
    assert not batch.book.calls("Disputes.open_vote")
    batch.book.is_final = True
    await stepped(voting, 11)
    (opened,) = batch.book.calls("Disputes.open_vote")
    assert opened == {"dispute": DISPUTE, "vote": entry.statement, "salt": entry.salt}


@pytest.mark.parametrize("differs", ["seed", "claim"])
@in_village(4)
async def test_no_vote_is_found_about_a_seed_or_a_claim_of_another_branch(village: Village, *, differs: str) -> None:
    batch = await claimed_batch(village, ASKED)
    voter = batch.others()[0]
    batch.dispute(DISPUTE, [voter], **FROM_CLAIM)
    if differs == "seed":
        batch.book.final_disputes[DISPUTE] = replace(batch.book.disputes[DISPUTE], seed=SECOND_SEED)
    else:
        batch.book.final_claims[batch.id] = None
    await stepped(duty_of(batch, voter), 1)
    assert not voter.daemon.parts.journal.votes
    assert not batch.book.sent


@in_village(4)
async def test_a_restarted_voter_opens_the_vote_of_its_journal(village: Village) -> None:
    batch = await claimed_batch(village, ASKED)
    voter = batch.others()[0]
    stash = voter.keys.stash
    batch.dispute(DISPUTE, [voter], **FROM_CLAIM)
    await stepped(duty_of(batch, voter), 1)
    (committed,) = batch.book.calls("Disputes.commit_vote")
    batch.book.ballots[stash][DISPUTE] = VotingSeat(round=0, weight=1, held=20, commitment=committed["commitment"])
    batch.book.opens_from = 2
    voter = await village.restart(voter)
    await stepped(duty_of(batch, voter), 2)
    assert len(batch.book.calls("Disputes.open_vote")) == 1


@in_village(4)
async def test_an_appeal_is_voted_about_anew_at_its_own_seed(village: Village) -> None:
    batch = await claimed_batch(village, ASKED)
    voter = batch.others()[0]
    stash = voter.keys.stash
    batch.dispute(DISPUTE, [voter], **FROM_CLAIM)
    voting = duty_of(batch, voter)
    await stepped(voting, 1)
    batch.book.disputes[DISPUTE] = replace(
        batch.book.disputes[DISPUTE], stage=DisputeStage.APPEAL, seed=SECOND_SEED, electorate=(stash,), voters=()
    )
    await stepped(voting, 2)
    assert len(voter.daemon.parts.journal.votes) == 1, "the ballot is that of the first round"
    batch.book.ballots[stash][DISPUTE] = VotingSeat(round=1, weight=5, held=20, first=vote_of(voter))
    await stepped(voting, 3)
    assert vote_of(voter, 1) == right_vote(batch, 0, Verdict.RIGHT, (SEED, SECOND_SEED))


@in_village(4)
async def test_a_closed_round_gets_no_commitment_and_an_ended_dispute_is_over_in_the_journal(village: Village) -> None:
    batch = await claimed_batch(village, ASKED)
    voter = batch.others()[0]
    stash, journal = voter.keys.stash, voter.daemon.parts.journal
    batch.dispute(DISPUTE, [voter], **FROM_CLAIM)
    voting, dispute = duty_of(batch, voter), batch.book.disputes[DISPUTE]
    assert dispute.round is not None
    batch.book.disputes[DISPUTE] = replace(dispute, round=replace(dispute.round, closed_at=5))
    await stepped(voting, 1)
    assert not journal.votes
    batch.book.disputes[DISPUTE] = dispute
    await stepped(voting, 2)
    assert len(list(journal.open_votes())) == 1
    del batch.book.disputes[DISPUTE], batch.book.ballots[stash]
    await stepped(voting, 4)
    assert not list(journal.open_votes())


@in_village(4)
async def test_disputes_of_other_markets_are_left_alone(village: Village) -> None:
    batch = await claimed_batch(village, ASKED)
    voter = batch.others()[0]
    batch.dispute(DISPUTE, [voter], handler=255)
    await stepped(duty_of(batch, voter), 1)
    assert not batch.book.sent
