"""Disputes of a random chain: sides show trees, voters commit and open, parties and outvoted voters appeal.

Invariant: an honest voter votes rightly, and in time. All liars of a round give the same false vote.
"""

from collections.abc import Iterator

from gpu_tasks.batches.sum_tree import nodes_below, subtrees_of, totals_of
from gpu_tasks.market import rounds
from gpu_tasks.market.claims.disputes import APPEAL, DRAWN, Dispute, DisputeQuestion, DisputeStage, seeds_of
from gpu_tasks.market.claims.disputes_pallet import Disputes
from gpu_tasks.market.claims.disputes_storage import windows_of
from gpu_tasks.market.claims.findings import CANNOT_FETCH, ItemVote, Verdict, vote_commitment
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.leaf_disputes.disputes import LeafDispute, LeafDisputeStage, Side
from gpu_tasks.market.leaf_disputes.leaf_disputes import LeafDisputes
from simulation.actors import BY_STASH, Actor, Deed, World, portion, salt_of
from simulation.replay.answers import answer_of, has_bad_input, leaves_under, unit_of
from simulation.replay.claim_deeds import FORGETS, index_at, is_item_false, is_withheld, mean_weight, sample

WITHHOLDS = 0.15
"""The share of sides of disputes that never show their tree."""
MISJUDGES, SILENT = 0.4, 0.1
"""The shares of rounds in which all liars vote falsely, and of votes that one of them does not give."""
RESISTS, INSISTS = 0.8, 0.25
"""The shares of wrong decisions that a party appeals against, and of right ones that a liar does."""


def dispute_deeds(world: World) -> Iterator[Deed]:
    """Yield the duties in open disputes, except for forgotten ones, and appeals."""
    for unit_id, batch in list(world.bound[LeafDisputes].disputes.items()):
        assert batch is not None
        yield from _trees(world, unit_id, batch)
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


def _trees(world: World, unit_id: bytes, dispute: LeafDispute) -> Iterator[Deed]:
    silent = [side for side in dispute.sides if not side.has_shown]
    for side in silent if dispute.stage is not LeafDisputeStage.JUDGED else ():
        if portion(unit_id + side.root, b"tree") >= WITHHOLDS and world.chance.random() < 0.5:
            yield _show(world, unit_id, dispute, side)


def _show(world: World, unit_id: bytes, dispute: LeafDispute, side: Side) -> Deed:
    leaves = leaves_under(unit_id, unit_of(world, unit_id), side.root)
    is_first = dispute.stage is LeafDisputeStage.SUBTREES
    nodes = subtrees_of(leaves) if is_first else nodes_below(leaves, dispute.subtree)
    call = LeafDisputes.show_nodes(unit=unit_id, totals=totals_of(leaves), nodes=nodes)
    return Deed(BY_STASH[side.accounts[0]].provider, call)


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
    unit_id, unit = terms.work, unit_of(world, terms.work)
    if terms.question is DisputeQuestion.INPUT:
        verdict = Verdict.WRONG if has_bad_input(unit_id) is is_true else Verdict.RIGHT
        return ItemVote(verdict, unit.terms.input_commitment, tuple(sample(unit_id, 0, 0, seed) for seed in seeds))
    if terms.question is DisputeQuestion.SIDES:
        answer = answer_of(unit_id, unit, terms.index, is_right=is_true)
        return ItemVote(Verdict.RIGHT, answer, tuple(sample(unit_id, terms.index, 1, seed) for seed in seeds))
    claim = world.bound[ResultClaims].open_claim(unit_id)
    if is_true and is_withheld(world, unit_id, claim):
        return CANNOT_FETCH
    index = terms.index if terms.point is None else index_at(claim, terms.point)
    is_wrong = is_item_false(world, unit_id, claim, index)
    verdict = Verdict.WRONG if is_wrong is is_true else Verdict.RIGHT
    weight, label = mean_weight(claim), b"" if is_true else b"false"
    samples = tuple(sample(unit_id, index, weight, seed, label) for seed in seeds)
    return ItemVote(verdict, answer_of(unit_id, unit, index, is_right=is_true), samples)
