"""Every call by wrong signers and at wrong times, and each condition of a voter alone."""

from collections.abc import Callable

import pytest

from gpu_tasks.market.claims.dispute_events import (
    ActedAlready,
    MalformedVote,
    NoDecisionToAppeal,
    NotAParty,
    NotAVoter,
    NotTheCommittedVote,
    OutsideWindow,
    UnknownDispute,
)
from gpu_tasks.market.claims.disputes import APPEAL, DRAWN, DisputeStage, seeds_of
from gpu_tasks.market.claims.disputes_pallet import Disputes
from gpu_tasks.market.claims.findings import CANNOT_FETCH, ItemVote, Verdict, vote_commitment
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import Provider
from runtime.encoding.types import Signed
from runtime.frame.call import FREE
from runtime.frame.runtime import Bound
from runtime.pallets.balances import Balances
from runtime.pallets.staking.trust_stake import TrustStake
from simulation.chains.dispute_chain import (
    FEE,
    RIGHT,
    SILENT,
    UNAVAILABLE,
    Behaviour,
    DisputeChain,
    commits,
    opens,
    vote_of,
)
from simulation.chains.market_chain import CUSTOMER, GENESIS_HASH, OGPU, Keys, refused, salt_of, signed

NOTHING = b"n" * 32
FALSE, UNOPENED = Behaviour(Verdict.WRONG, label=b"false"), Behaviour(Verdict.RIGHT, is_opened=False)


def right(stage: DisputeChain, dispute_id: bytes) -> ItemVote:
    return vote_of(Verdict.RIGHT, seeds_of(stage.dispute(dispute_id)))


def committed(stage: DisputeChain) -> tuple[bytes, list[Keys], ItemVote]:
    """Return a dispute all of whose drawn voters have committed, with the vote, before openings."""
    dispute_id, voters = stage.drawn()
    vote = right(stage, dispute_id)
    stage.chain.block(*(commits(keys, dispute_id, DRAWN, vote) for keys in voters))
    return dispute_id, voters, vote


def outsiders(stage: DisputeChain, voters: list[Keys]) -> list[bytes]:
    """Return accounts that are no voter: other validators and parties by stash and key, and a voter's other key."""
    others = [keys for keys in (*stage.chain.validators, *stage.chain.others, CUSTOMER) if keys not in voters]
    return [key for keys in others for key in (keys.stash, keys.provider)] + [voters[0].public("session")]


def test_only_voters_commit() -> None:
    stage = DisputeChain()
    dispute_id, voters = stage.drawn()
    call = Disputes.commit_vote(dispute=dispute_id, commitment=NOTHING)
    stage.chain.block(*(refused(who, call, NotAVoter) for who in outsiders(stage, voters)))
    stage.chain.block(signed(voters[0].stash, call), signed(voters[1].provider, call))


def test_only_voters_open_and_each_its_own_commitment() -> None:
    stage = DisputeChain()
    dispute_id, voters, vote = committed(stage)
    stage.chain.blocks(2)
    call = Disputes.open_vote(dispute=dispute_id, vote=vote, salt=salt_of(voters[0], dispute_id))
    stage.chain.block(*(refused(who, call, NotAVoter) for who in outsiders(stage, voters)))
    stage.chain.block(*(refused(keys.provider, call, NotTheCommittedVote) for keys in voters[1:]))
    stage.chain.block(signed(voters[0].stash, call))


def test_calls_about_no_dispute_are_refused() -> None:
    stage = DisputeChain()
    calls = (
        Disputes.commit_vote(dispute=NOTHING, commitment=NOTHING),
        Disputes.open_vote(dispute=NOTHING, vote=CANNOT_FETCH, salt=NOTHING),
        Disputes.appeal(dispute=NOTHING),
    )
    stage.chain.block(*(refused(stage.parties[0].stash, call, UnknownDispute) for call in calls))
    dispute_id = stage.open()
    stage.run(dispute_id)
    over = Disputes.appeal(dispute=dispute_id)
    stage.chain.block(refused(stage.parties[0].stash, over, UnknownDispute))


def test_a_voter_commits_once_and_opens_once() -> None:
    stage = DisputeChain()
    dispute_id, voters = stage.drawn()
    vote, first = right(stage, dispute_id), voters[0]
    again = Disputes.commit_vote(dispute=dispute_id, commitment=NOTHING)
    opened = Disputes.open_vote(dispute=dispute_id, vote=vote, salt=salt_of(first, dispute_id))
    stage.chain.block(
        refused(first.provider, opened, OutsideWindow),
        commits(first, dispute_id, DRAWN, vote),
        refused(first.provider, again, ActedAlready),
        refused(first.provider, opened, OutsideWindow),
    )
    stage.chain.block(
        *(commits(keys, dispute_id, DRAWN, vote) for keys in voters[1:]), refused(first.provider, opened, OutsideWindow)
    )
    lie = Disputes.open_vote(dispute=dispute_id, vote=CANNOT_FETCH, salt=salt_of(first, dispute_id))
    wrong_salt = Disputes.open_vote(dispute=dispute_id, vote=vote, salt=NOTHING)
    stage.chain.block(
        refused(first.provider, lie, NotTheCommittedVote),
        refused(first.provider, wrong_salt, NotTheCommittedVote),
        opens(first, dispute_id, vote),
        refused(first.provider, opened, ActedAlready),
    )


def test_a_copied_commitment_opens_nothing() -> None:
    stage = DisputeChain()
    dispute_id, voters = stage.drawn()
    vote, (first, copyist, *others) = right(stage, dispute_id), voters
    copied = vote_commitment(GENESIS_HASH, dispute_id, DRAWN, first.stash, vote, salt_of(first, dispute_id))
    stage.chain.block(
        commits(first, dispute_id, DRAWN, vote),
        signed(copyist.provider, Disputes.commit_vote(dispute=dispute_id, commitment=copied)),
        *(commits(keys, dispute_id, DRAWN, vote) for keys in others),
    )
    stage.chain.blocks(2)
    call = Disputes.open_vote(dispute=dispute_id, vote=vote, salt=salt_of(first, dispute_id))
    stage.chain.block(opens(first, dispute_id, vote), refused(copyist.provider, call, NotTheCommittedVote))


def test_a_commitment_of_one_round_opens_nothing_in_the_next() -> None:
    stage = DisputeChain(policy=lambda _keys, dispute: SILENT if dispute.stage is DisputeStage.VOTING else RIGHT)
    dispute_id, voters = stage.drawn(DisputeStage.APPEAL)
    vote = right(stage, dispute_id)
    stage.chain.block(commits(voters[0], dispute_id, DRAWN, vote), commits(voters[1], dispute_id, APPEAL, vote))
    stage.chain.block(*(commits(keys, dispute_id, APPEAL, vote) for keys in voters[2:]))
    stage.chain.block()
    call = Disputes.open_vote(dispute=dispute_id, vote=vote, salt=salt_of(voters[0], dispute_id))
    stage.chain.block(
        refused(voters[0].provider, call, NotTheCommittedVote), *(opens(keys, dispute_id, vote) for keys in voters[1:])
    )


def test_a_malformed_vote_is_refused_at_opening() -> None:
    stage = DisputeChain()
    dispute_id, voters = stage.drawn()
    vote = right(stage, dispute_id)
    bad = ItemVote(vote.verdict, vote.answer, vote.samples[:-1])
    votes = [bad, *[vote] * 8]
    stage.chain.block(*(commits(keys, dispute_id, DRAWN, each) for keys, each in zip(voters, votes, strict=True)))
    stage.chain.blocks(2)
    call = Disputes.open_vote(dispute=dispute_id, vote=bad, salt=salt_of(voters[0], dispute_id))
    stage.chain.block(refused(voters[0].provider, call, MalformedVote), opens(voters[1], dispute_id, vote))


def test_commits_and_openings_after_their_windows_are_too_late() -> None:
    stage = DisputeChain()
    dispute_id, voters = stage.drawn()
    vote, current = right(stage, dispute_id), stage.dispute(dispute_id).round
    assert current is not None
    stage.chain.block(*(commits(keys, dispute_id, DRAWN, vote) for keys in voters[:6]))
    windows = stage.dispute(dispute_id).windows
    assert (windows.commit, windows.reveal, windows.appeal) == (30, 12, 20)
    stage.chain.blocks_to(current.commits_from + windows.commit - 1)
    late = Disputes.commit_vote(dispute=dispute_id, commitment=NOTHING)
    stage.chain.block(commits(voters[6], dispute_id, DRAWN, vote))
    stage.chain.block(refused(voters[7].provider, late, OutsideWindow))
    stage.chain.block(opens(voters[0], dispute_id, vote))
    found = stage.dispute(dispute_id).round
    assert found is not None
    stage.chain.blocks_to(found.reveals_from + windows.reveal - 1)
    call = Disputes.open_vote(dispute=dispute_id, vote=vote, salt=salt_of(voters[2], dispute_id))
    stage.chain.block(opens(voters[1], dispute_id, vote))
    stage.chain.block(refused(voters[2].provider, call, NotAVoter))
    assert stage.dispute(dispute_id).stage is DisputeStage.APPEAL, "two equal votes decide nothing"


def test_a_long_computation_has_three_times_its_blocks() -> None:
    stage = DisputeChain()
    assert stage.dispute(stage.open(run_blocks=40)).windows.commit == 120
    assert stage.dispute(stage.open(run_blocks=9)).windows.commit == 30


def test_parameters_of_a_running_dispute_do_not_change() -> None:
    stage = DisputeChain()
    dispute_id = stage.open()
    before = stage.dispute(dispute_id).windows

    def change(bound: Bound) -> None:
        for parameter in (Disputes.vote_blocks, Disputes.open_blocks, Disputes.appeal_blocks):
            bound.parameters.change(parameter, 7)

    stage.chain.block(change)
    assert stage.dispute(dispute_id).windows == before
    assert stage.dispute(stage.open()).windows.appeal == 7
    stage.run(dispute_id, until=DisputeStage.APPEALABLE)
    assert stage.dispute(dispute_id).appealable_until == stage.chain.height + before.appeal


# ------------------------------------------------------------------------------------------------------------- appeals


def appealable(stage: DisputeChain, **changed: object) -> bytes:
    dispute_id = stage.open(**changed)
    stage.run(dispute_id, until=DisputeStage.APPEALABLE)
    return dispute_id


@pytest.mark.parametrize("key", ["stash", "provider"])
def test_a_party_appeals_once_by_stash_or_provider_key(key: str) -> None:
    stage = DisputeChain()
    party = stage.chain.validators[0]
    dispute_id = appealable(stage, parties=(party.stash, stage.parties[1].stash))
    others = (*stage.chain.validators[1:], CUSTOMER, stage.parties[0])
    call = Disputes.appeal(dispute=dispute_id)
    stage.chain.block(*(refused(who, call, NotAParty) for keys in others for who in (keys.stash, keys.provider)))
    account = party.stash if key == "stash" else party.provider
    stage.chain.block(signed(account, call), refused(stage.parties[1].stash, call, NoDecisionToAppeal))
    assert stage.dispute(dispute_id).appellant == party.stash
    assert stage.dispute(dispute_id).stage is DisputeStage.APPEAL
    ruling = stage.run(dispute_id)
    assert ruling is not None
    assert ruling.is_appealed


@pytest.mark.parametrize("key", ["stash", "provider"])
def test_an_outvoted_voter_appeals_against_two_parties_that_agree(key: str) -> None:
    """If both parties belong to a coalition with five seats, nobody else could appeal for the other four voters."""
    stage = DisputeChain()
    dispute_id, voters = stage.drawn()
    acts = (FALSE, FALSE, FALSE, FALSE, FALSE, UNAVAILABLE, SILENT, UNOPENED, RIGHT)
    policy = dict(zip((keys.stash for keys in voters), acts, strict=True))
    stage.policy = lambda keys, dispute: policy[keys.stash] if dispute.stage is DisputeStage.VOTING else RIGHT
    stage.run(dispute_id, until=DisputeStage.APPEALABLE)
    call, outvoted = Disputes.appeal(dispute=dispute_id), voters[-1]
    others = [keys for keys in stage.chain.validators if keys != outvoted]
    stage.chain.block(*(refused(who, call, NotAParty) for keys in others for who in (keys.stash, keys.provider)))
    stage.chain.block(signed(outvoted.stash if key == "stash" else outvoted.provider, call))
    assert stage.dispute(dispute_id).appellant == outvoted.stash
    before = stage.chain.owned(outvoted.stash)
    ruling = stage.run(dispute_id)
    assert ruling is not None
    assert ruling.vote is not None
    assert ruling.vote.verdict is Verdict.RIGHT
    assert outvoted.stash in ruling.voters
    assert stage.chain.owned(outvoted.stash) == before


def test_nobody_appeals_before_a_decision_or_after_the_window() -> None:
    stage = DisputeChain()
    dispute_id = stage.open()
    call, who = Disputes.appeal(dispute=dispute_id), stage.parties[0].stash
    for until in (DisputeStage.DRAWING, DisputeStage.VOTING):
        stage.run(dispute_id, until=until)
        stage.chain.block(refused(who, call, NoDecisionToAppeal))
    stage.run(dispute_id, until=DisputeStage.APPEALABLE)
    # The last block counts.
    stage.chain.blocks_to(stage.dispute(dispute_id).appealable_until)
    assert stage.chain.now().dispatch(call, Signed(who)) != FREE
    stage.chain.block()
    stage.chain.block(refused(who, call, UnknownDispute))


def test_voters_duties_are_free() -> None:
    stage = DisputeChain()
    dispute_id, voters, vote = committed(stage)
    stage.chain.blocks(2)
    opened = Disputes.open_vote(dispute=dispute_id, vote=vote, salt=salt_of(voters[0], dispute_id))
    assert stage.chain.now().dispatch(opened, Signed(voters[0].provider)) == FREE
    second, others = stage.drawn()
    commit = Disputes.commit_vote(dispute=second, commitment=NOTHING)
    assert stage.chain.now().dispatch(commit, Signed(others[0].provider)) == FREE


# ---------------------------------------------------------------------------------- who may vote, each condition alone


def eligible(stage: DisputeChain, dispute_id: bytes) -> list[bytes]:
    room = stage.chain.now()[Disputes]
    may_vote = room.may_vote(dispute_id, stage.dispute(dispute_id).terms)
    return [keys.stash for keys in stage.chain.validators if may_vote(keys.stash)]


def _poor(bound: Bound, who: bytes) -> None:
    balances = bound[Balances]
    needed = 2 * FEE + balances.existential_deposit
    balances.transfer(who, CUSTOMER.stash, balances.free_balance(who) - needed + 1)


def _new_key(bound: Bound, who: bytes) -> None:
    before = bound[Devices].providers[who]
    assert before is not None
    bound[Devices].providers[who] = Provider(before.seal_key, before.endpoint, 1)


def _no_provider(bound: Bound, who: bytes) -> None:
    del bound[Devices].providers[who]


def _tombstone(bound: Bound, who: bytes) -> None:
    bound[TrustStake].tombstone(who)


@pytest.mark.parametrize("spoil", [_poor, _new_key, _no_provider, _tombstone])
def test_each_condition_alone_keeps_a_validator_out(spoil: Callable[[Bound, bytes], None]) -> None:
    stage = DisputeChain(size=5)
    dispute_id = stage.open()
    before, spoiled = eligible(stage, dispute_id), stage.chain.validators[2].stash
    assert len(before) == 5
    stage.chain.block(lambda bound: spoil(bound, spoiled))
    assert eligible(stage, dispute_id) == [who for who in before if who != spoiled]
    if spoil is _poor:
        stage.chain.block(lambda bound: bound[Balances].transfer(CUSTOMER.stash, spoiled, 1))
        assert eligible(stage, dispute_id) == before, "one grain more is enough"


@pytest.mark.parametrize("part", ["parties", "excluded"])
@pytest.mark.parametrize("key", ["stash", "provider"])
def test_nobody_with_a_part_votes(part: str, key: str) -> None:
    stage = DisputeChain(size=5)
    barred = stage.chain.validators[1]
    account = barred.stash if key == "stash" else barred.provider
    dispute_id = stage.open(**{part: (account,)})
    assert eligible(stage, dispute_id) == [keys.stash for keys in stage.chain.validators if keys != barred]


def test_a_voter_that_spends_its_grains_keeps_its_vote_in_the_appeal() -> None:
    stage = DisputeChain()
    dispute_id, voters = stage.drawn()
    stage.chain.block(
        lambda bound: bound[Balances].transfer(voters[0].stash, CUSTOMER.stash, stage_free(bound, voters))
    )
    stage.run(dispute_id, until=DisputeStage.APPEALABLE)
    stage.chain.block(signed(stage.parties[0].stash, Disputes.appeal(dispute=dispute_id)))
    stage.chain.blocks(4)
    assert voters[0].stash in stage.dispute(dispute_id).electorate
    assert stage.chain.now()[Balances].free_balance(voters[0].stash) < OGPU
    stage.run(dispute_id)


def stage_free(bound: Bound, voters: list[Keys]) -> int:
    return bound[Balances].free_balance(voters[0].stash) - bound[Balances].existential_deposit
