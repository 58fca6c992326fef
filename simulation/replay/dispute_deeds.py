"""Disputes of a random chain: voters commit and open, parties and outvoted voters appeal.

Invariant: an honest voter votes rightly, and in time. All liars of a round give the same false vote.
"""

from collections.abc import Iterator

from gpu_tasks.batches.sum_tree import batch_root
from gpu_tasks.market import rounds
from gpu_tasks.market.capacity.capacity import Capacity
from gpu_tasks.market.claims.claims import ResultClaim
from gpu_tasks.market.claims.disputes import APPEAL, DRAWN, Dispute, DisputeQuestion, DisputeStage, seeds_of
from gpu_tasks.market.claims.disputes_pallet import Disputes
from gpu_tasks.market.claims.disputes_storage import windows_of
from gpu_tasks.market.claims.findings import CANNOT_FETCH, ItemVote, Verdict, vote_commitment
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.sessions.sessions import Sessions
from gpu_tasks.market.training.training_market import TrainingMarket
from runtime.cryptography.hashing import blake2_256
from simulation.actors import BY_STASH, Actor, Deed, World, portion, salt_of
from simulation.replay import task_deeds
from simulation.replay.answers import answer_of, has_bad_input, totals_for, unit_of
from simulation.replay.claim_deeds import FORGETS, index_at, is_item_false, is_withheld, mean_weight, sample

MISJUDGES, SILENT = 0.4, 0.1
"""The shares of rounds in which all liars vote falsely, and of votes that one of them does not give."""
RESISTS, INSISTS = 0.8, 0.25
"""The shares of wrong decisions that a party appeals against, and of right ones that a liar does."""


def dispute_deeds(world: World) -> Iterator[Deed]:
    """Yield the duties in open disputes, except for forgotten ones, and appeals."""
    room = world.bound[Disputes]
    for stash, actor in sorted(BY_STASH.items()):
        for dispute_id, _ in list(room.ballots.under(stash)):
            if world.chance.random() >= FORGETS:
                yield from _vote(world, actor, dispute_id, room.open_dispute(dispute_id))
    for dispute_id, dispute in list(room.disputes.items()):
        if dispute is not None and dispute.stage is DisputeStage.APPEALABLE:
            yield from _appeals(world, dispute_id, dispute)


def true_vote(world: World, dispute: Dispute) -> ItemVote:
    """Return the vote of an honest voter."""
    return _vote_about(world, dispute, is_true=True)


def _vote(world: World, actor: Actor, dispute_id: bytes, dispute: Dispute) -> Iterator[Deed]:
    stash, number = actor.stash.account, APPEAL if dispute.stage is DisputeStage.APPEAL else DRAWN
    ballot = world.bound[Disputes].ballot(stash, dispute_id)
    if dispute.round is None or ballot.round != number:
        return
    is_liar = actor.name in world.liars
    if is_liar and portion(dispute_id + stash, b"votes") < SILENT:
        return
    is_true = not is_liar or portion(dispute_id + bytes((number,)), b"misjudges") >= MISJUDGES
    vote, salt, windows = _vote_about(world, dispute, is_true=is_true), salt_of(actor, dispute_id), windows_of(dispute)
    current = rounds.advanced(dispute.round, windows, world.height, world.final_height())
    if ballot.commitment is None and rounds.can_commit(current, windows, world.height):
        commitment = vote_commitment(world.genesis_hash, dispute_id, number, stash, vote, salt)
        yield Deed(actor.provider, Disputes.commit_vote(dispute=dispute_id, commitment=commitment))
    elif ballot.commitment and ballot.vote is None and rounds.can_reveal(current, windows, world.height):
        yield Deed(actor.provider, Disputes.open_vote(dispute=dispute_id, vote=vote, salt=salt))


def _appeals(world: World, dispute_id: bytes, dispute: Dispute) -> Iterator[Deed]:
    """Yield appeals of parties and outvoted voters against wrong decisions, and some of liars against right ones."""
    ballots = ((voter, world.bound[Disputes].ballot(voter, dispute_id)) for voter in dispute.voters)
    outvoted = [voter for voter, ballot in ballots if ballot.vote is not None and ballot.vote != dispute.vote]
    is_wrong = dispute.vote != true_vote(world, dispute)
    for stash in (*dispute.terms.parties, *outvoted):
        actor = BY_STASH.get(stash)
        if actor is None or (not is_wrong and actor.name not in world.liars):
            continue
        if portion(dispute_id + stash, b"appeals") < (RESISTS if is_wrong else INSISTS):
            yield Deed(actor.provider, Disputes.appeal(dispute=dispute_id))


def _vote_about(world: World, dispute: Dispute, *, is_true: bool) -> ItemVote:
    terms, seeds = dispute.terms, seeds_of(dispute)
    if terms.question is DisputeQuestion.INPUT:
        verdict = Verdict.WRONG if _is_input_bad(world, terms.work) is is_true else Verdict.RIGHT
        return ItemVote(verdict, terms.work, tuple(sample(terms.work, 0, 0, seed) for seed in seeds))
    if terms.question is DisputeQuestion.SIDES:
        answer = _result(world, terms.work, is_right=is_true)
        return ItemVote(Verdict.RIGHT, answer, tuple(sample(terms.work, terms.index, 1, seed) for seed in seeds))
    claim_id = terms.work
    claim = world.bound[ResultClaims].open_claim(claim_id)
    if is_true and is_withheld(world, claim_id, claim):
        return CANNOT_FETCH
    index = terms.index if terms.point is None else index_at(claim, terms.point)
    is_wrong = is_item_false(world, claim_id, claim, index)
    verdict = Verdict.WRONG if is_wrong is is_true else Verdict.RIGHT
    weight, label = mean_weight(claim), b"" if is_true else b"false"
    samples = tuple(sample(claim_id, index, weight, seed, label) for seed in seeds)
    return ItemVote(verdict, _answer(world, claim_id, claim, index, is_right=is_true), samples)


def _is_input_bad(world: World, work: bytes) -> bool:
    is_task = world.bound[TrainingMarket].tasks[work] is not None
    return task_deeds.has_bad_input(work) if is_task else has_bad_input(work)


def _answer(world: World, claim_id: bytes, claim: ResultClaim, index: int, *, is_right: bool) -> bytes:
    """Return the right claim of an item of a proof, a session, a task or a unit, or the liars'."""
    if claim.terms.handler in (Capacity.index, Sessions.index):
        return blake2_256((b"item" if is_right else b"no item") + claim_id + index.to_bytes(4, "little"))
    task_id = world.bound[TrainingMarket].task_of_claim[claim_id]
    if task_id is None:
        return answer_of(claim_id, unit_of(world, claim_id), index, is_right=is_right)
    return _result(world, task_id, is_right=is_right)


def _result(world: World, work: bytes, *, is_right: bool) -> bytes:
    """Return the right root of a unit or a task, or the liars'."""
    task = world.bound[TrainingMarket].tasks[work]
    if task is None:
        return batch_root(totals_for(work, unit_of(world, work), is_right=is_right))
    root = task_deeds.right_root(work, task)
    return root if is_right else blake2_256(b"no " + root)
