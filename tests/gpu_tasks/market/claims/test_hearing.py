"""A dispute from opening to ruling: its voters, their losses, the fees that they are owed, and its end."""

from collections.abc import Mapping

import pytest

from gpu_tasks.market.claims import disputes_pallet as pallet_module
from gpu_tasks.market.claims.dispute_events import OutsideWindow, VoterCharged, VotersDrawn
from gpu_tasks.market.claims.disputes import APPEAL, DRAWN, VOTER_BOND, Dispute, DisputeQuestion, DisputeStage, seeds_of
from gpu_tasks.market.claims.disputes_pallet import Disputes
from gpu_tasks.market.claims.findings import Verdict, seed_of
from gpu_tasks.market.draws import BEACON_DELAY
from runtime.encoding.types import CAP_GRAINS
from runtime.frame.holds import Hold
from runtime.frame.runtime import Bound
from runtime.frame.weights import work
from runtime.pallets.balances import Balances
from runtime.pallets.beacon import Beacon
from runtime.pallets.staking.trust_stake import TrustStake
from simulation.chains.dispute_chain import (
    FEE,
    RIGHT,
    SILENT,
    UNAVAILABLE,
    WRONG,
    Behaviour,
    DisputeChain,
    ToyRuling,
    commits,
    opens,
    vote_of,
)
from simulation.chains.market_chain import OGPU, Keys, refused, salt_of, signed

UNOPENED = Behaviour(Verdict.RIGHT, is_opened=False)
COPIED = Behaviour(Verdict.RIGHT, is_copied=True)
OTHER = Behaviour(Verdict.WRONG, label=b"other")
LETTERS = {"r": RIGHT, "w": WRONG, "o": OTHER, "u": UNAVAILABLE, "-": SILENT, "x": UNOPENED, "c": COPIED}
EQUAL_BONDS = (1_000 * OGPU,)


class Script:
    """A policy by letters: the nine by their order of drawing, and the electorate by ascending stash."""

    def __init__(self, drawn: str, appeal: str = "") -> None:
        self.drawn, self.appeal = drawn, appeal

    def __call__(self, keys: Keys, dispute: Dispute) -> Behaviour:
        if dispute.stage is DisputeStage.APPEAL:
            return LETTERS[self.appeal[dispute.electorate.index(keys.stash)]]
        return LETTERS[self.drawn[dispute.voters.index(keys.stash)]]


def appealing(stage: DisputeChain, dispute_id: bytes) -> ToyRuling:
    """Have a party appeal the decision, and run to the ruling."""
    stage.run(dispute_id, until=DisputeStage.APPEALABLE)
    stage.chain.block(signed(stage.parties[0].stash, Disputes.appeal(dispute=dispute_id)))
    return ended(stage, dispute_id)


def ended(stage: DisputeChain, dispute_id: bytes) -> ToyRuling:
    """Run to the ruling. Check that nothing is held or scheduled any more, and that all grains are there."""
    ruling = stage.run(dispute_id)
    assert ruling is not None
    room, balances = stage.chain.now()[Disputes], stage.chain.now()[Balances]
    assert not balances.case_totals[Hold(VOTER_BOND, dispute_id)]
    assert not list(room.ballots.items())
    assert not room.agenda.places[dispute_id]
    assert not room.final_agenda.places[dispute_id]
    assert balances.total_issuance.get() <= CAP_GRAINS
    return ruling


def losses(stage: DisputeChain) -> Mapping[bytes, int]:
    """Return the fees that each voter has lost."""
    return {event.voter: event.amount // FEE for event in stage.chain.happened(VoterCharged)}


def letters(stage: DisputeChain, number: int) -> list[bytes]:
    """Return the drawn voters of a round."""
    (drawn,) = (event.voters for event in stage.chain.happened(VotersDrawn) if event.round == number)
    return list(drawn)


@pytest.mark.parametrize(
    ("votes", "verdict", "lost"),
    [
        ("rrrrrrrrr", Verdict.RIGHT, "000000000"),
        ("rrrrrwou-", Verdict.RIGHT, "000002201"),
        ("wwwwwrxcu", Verdict.WRONG, "000002120"),
        ("rrrrrcccc", Verdict.RIGHT, "000002222"),
        ("uuuuurwo-", Verdict.UNAVAILABLE, "000000001"),
    ],
)
def test_five_equal_votes_end_a_dispute(votes: str, verdict: Verdict, lost: str) -> None:
    stage = DisputeChain(policy=Script(votes))
    before = stage.chain.now()[Balances].total_issuance.get()
    ruling = ended(stage, stage.open())
    drawn = letters(stage, DRAWN)
    assert ruling.vote is not None
    assert (ruling.vote.verdict, ruling.is_appealed, ruling.appeal_voters) == (verdict, False, ())
    has_part = "uwo" if verdict is Verdict.UNAVAILABLE else votes[0]
    assert list(ruling.voters) == [who for who, letter in zip(drawn, votes, strict=True) if letter in has_part]
    assert losses(stage) == {who: int(fees) for who, fees in zip(drawn, lost, strict=True) if int(fees)}
    assert before - stage.chain.now()[Balances].total_issuance.get() == sum(map(int, lost)) * FEE, "losses burn"


@pytest.mark.parametrize(
    ("question", "votes", "appeal", "verdict", "lost_in_appeal"),
    [
        # five of nine reversed: the five pay
        (DisputeQuestion.ITEM, "wwwwwrrrr", "rrrrrrrrrrrr", Verdict.RIGHT, "000000000000"),
        (DisputeQuestion.ITEM, "rrrrrrrrr", "rrrrrrrrrwww", Verdict.RIGHT, "000000000222"),
        (DisputeQuestion.ITEM, "rrrrrrrrr", "rrrrrrrru---", Verdict.RIGHT, "000000000111"),
        # no three fifths, or no half of the stake
        (DisputeQuestion.ITEM, "rrrrrrrrr", "rrrrrrwwwwww", None, "000000000000"),
        (DisputeQuestion.ITEM, "rrrrrrrrr", "rrrrr-------", None, "000001111111"),
        # the votes against an item count together
        (DisputeQuestion.ITEM, "wwwwwwwww", "wwwwuuuurrrr", Verdict.UNAVAILABLE, "000000000000"),
        (DisputeQuestion.SIDES, "wwwwwwwww", "wwwwuuuurrrr", None, "000000000000"),
    ],
)
def test_an_appeal_is_decided_by_stake(
    question: DisputeQuestion, votes: str, appeal: str, verdict: Verdict | None, lost_in_appeal: str
) -> None:
    stage = DisputeChain(policy=Script(votes, appeal), bonds=EQUAL_BONDS)
    ruling = appealing(stage, stage.open(question=question))
    assert ruling.is_appealed
    assert (ruling.vote.verdict if ruling.vote else None) == verdict
    electorate, drawn = letters(stage, APPEAL), letters(stage, DRAWN)
    assert electorate == sorted(keys.stash for keys in stage.chain.validators)
    wanted = {who: int(fees) for who, fees in zip(electorate, lost_in_appeal, strict=True)}
    for who, letter in zip(drawn, votes, strict=True):
        if verdict in (Verdict.RIGHT, Verdict.WRONG) and LETTERS[letter].verdict is not verdict:
            wanted[who] = 2
    assert losses(stage) == {who: fees for who, fees in wanted.items() if fees}
    agreed = {who for who, letter in zip(drawn, votes, strict=True) if LETTERS[letter].verdict is verdict}
    if verdict is Verdict.UNAVAILABLE:
        agreed = set(drawn)
    assert set(ruling.voters) == (agreed if verdict is not None else set())
    assert not set(ruling.voters) & set(ruling.appeal_voters), "each is owed one fee"


def test_without_five_equal_votes_all_vote() -> None:
    stage = DisputeChain(policy=Script("rrrrwwwwc", "rrrrrrrrrrrr"))
    ruling = ended(stage, stage.open())
    drawn = letters(stage, DRAWN)
    assert ruling.vote is not None
    assert (ruling.vote.verdict, ruling.is_appealed) == (Verdict.RIGHT, False)
    assert list(ruling.voters) == [*drawn[:4], drawn[8]], "no last sample of the first round is known to be right"
    assert sorted((*ruling.voters, *ruling.appeal_voters)) == letters(stage, APPEAL)
    assert losses(stage) == dict.fromkeys(drawn[4:8], 2)


def test_a_voter_loses_at_most_two_fees() -> None:
    stage = DisputeChain(policy=Script("rrrrrwww-", "r" * 12))
    dispute_id = stage.open()
    stage.run(dispute_id, until=DisputeStage.APPEALABLE)
    drawn = stage.dispute(dispute_id).voters
    silent = dict.fromkeys((drawn[5], drawn[8]))
    stage.policy = lambda keys, _: SILENT if keys.stash in silent else RIGHT
    stage.chain.block(signed(stage.parties[0].stash, Disputes.appeal(dispute=dispute_id)))
    ended(stage, dispute_id)
    assert losses(stage) == {drawn[5]: 2, drawn[6]: 2, drawn[7]: 2, drawn[8]: 1}


def test_an_appeal_has_a_seed_of_its_own() -> None:
    stage = DisputeChain(policy=Script("r" * 9, "r" * 12))
    dispute_id = stage.open()
    stage.run(dispute_id, until=DisputeStage.VOTING)
    first = stage.dispute(dispute_id)
    beacon = stage.chain.now()[Beacon].value_at(first.recorded_at + BEACON_DELAY)
    assert beacon is not None
    assert seeds_of(first) == (b"s" * 32, seed_of(beacon, dispute_id, b""))
    stage.run(dispute_id, until=DisputeStage.APPEALABLE)
    stage.chain.block(signed(stage.parties[0].stash, Disputes.appeal(dispute=dispute_id)))
    stage.chain.blocks(4)
    later = stage.dispute(dispute_id)
    beacon = stage.chain.now()[Beacon].value_at(later.recorded_at + BEACON_DELAY)
    assert beacon is not None
    assert seeds_of(later) == (b"s" * 32, seed_of(beacon, dispute_id, b""))
    assert seeds_of(later) != seeds_of(first)


@pytest.mark.parametrize(
    ("size", "policy", "verdict", "owed", "owed_last"),
    [
        (1, RIGHT, None, 0, 0),
        (2, RIGHT, None, 0, 0),
        (3, RIGHT, Verdict.RIGHT, 3, 0),
        (4, WRONG, Verdict.WRONG, 4, 0),
        (6, UNAVAILABLE, Verdict.UNAVAILABLE, 6, 0),
        (8, RIGHT, Verdict.RIGHT, 8, 0),
        (9, RIGHT, Verdict.RIGHT, 9, 0),
        (12, SILENT, None, 0, 0),
    ],
)
def test_sets_of_any_size_end_a_dispute(
    size: int, policy: Behaviour, verdict: Verdict | None, owed: int, owed_last: int
) -> None:
    stage = DisputeChain(size=size, policy=lambda _keys, _dispute: policy)
    ruling = ended(stage, stage.open())
    assert (ruling.vote.verdict if ruling.vote else None) == verdict
    assert (len(ruling.voters), len(ruling.appeal_voters)) == (owed, owed_last)


@pytest.mark.parametrize(("size", "barred", "has_decision"), [(4, 1, True), (4, 2, False), (6, 3, True), (6, 4, False)])
def test_three_voters_beside_the_parties_suffice(size: int, barred: int, has_decision: bool) -> None:
    stage = DisputeChain(size=size)
    parties = tuple(keys.stash for keys in stage.chain.validators[:barred])
    ruling = ended(stage, stage.open(parties=parties))
    assert (ruling.vote is not None) is has_decision
    assert not {*ruling.voters} & {*parties}


def test_all_of_128_validators_vote_in_an_appeal() -> None:
    stage = DisputeChain(size=128)
    ruling = appealing(stage, stage.open())
    assert ruling.vote is not None
    assert len(ruling.voters) + len(ruling.appeal_voters) == 128
    assert not losses(stage)


def test_voters_that_leave_office_stay_voters() -> None:
    stage = DisputeChain(size=9)
    dispute_id, voters = stage.drawn()
    stage.chain.block(*(signed(keys.stash, TrustStake.chill()) for keys in voters[:8]))
    vote = vote_of(Verdict.RIGHT, seeds_of(stage.dispute(dispute_id)))
    stage.chain.block(
        *(commits(keys, dispute_id, DRAWN, vote, by="stash") for keys in voters[:8]),
        commits(voters[8], dispute_id, DRAWN, vote),
    )
    stage.chain.blocks(2)
    stage.chain.block(*(opens(keys, dispute_id, vote, by="stash") for keys in voters))
    ruling = ended(stage, dispute_id)
    assert ruling.vote == vote
    assert len(ruling.voters) == 9


def test_an_appeal_with_too_few_left_in_office_decides_nothing() -> None:
    stage = DisputeChain(size=9)
    dispute_id = stage.open()
    stage.run(dispute_id, until=DisputeStage.APPEALABLE)
    stage.chain.block(*(signed(keys.stash, TrustStake.chill()) for keys in stage.chain.validators[:7]))
    ruling = appealing(stage, dispute_id)
    assert (ruling.vote, ruling.voters, ruling.appeal_voters) == (None, (), ())
    assert not losses(stage)


@pytest.mark.parametrize("stage_before", [DisputeStage.DRAWING, DisputeStage.APPEAL])
def test_a_draw_whose_beacon_is_forgotten_is_recorded_again(stage_before: DisputeStage) -> None:
    stage = DisputeChain(policy=Script("rrrrwwwwo", "r" * 12))
    dispute_id = stage.open()
    stage.run(dispute_id, until=stage_before)
    recorded_at = stage.dispute(dispute_id).recorded_at
    stage.chain.final_lag = 10
    stage.chain.blocks_to(recorded_at + BEACON_DELAY)

    def forget(bound: Bound) -> None:
        del bound[Beacon].values[recorded_at + BEACON_DELAY]

    stage.chain.block(forget)
    stage.chain.final_lag = 1
    stage.chain.block()
    dispute = stage.dispute(dispute_id)
    assert dispute.recorded_at == stage.chain.height
    assert dispute.round is None
    ruling = ended(stage, dispute_id)
    assert ruling.vote is not None


def test_openings_wait_until_the_close_is_final() -> None:
    stage = DisputeChain()
    dispute_id, voters = stage.drawn()
    vote = vote_of(Verdict.RIGHT, seeds_of(stage.dispute(dispute_id)))
    stage.chain.final_lag = 9
    stage.chain.block(*(commits(keys, dispute_id, DRAWN, vote) for keys in voters))
    call = Disputes.open_vote(dispute=dispute_id, vote=vote, salt=salt_of(voters[0], dispute_id))
    for _ in range(8):
        stage.chain.block(refused(voters[0].provider, call, OutsideWindow))
    stage.chain.block(opens(voters[0], dispute_id, vote))


def test_calls_follow_the_clock_while_the_hook_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = DisputeChain()
    dispute_id, voters = stage.drawn()
    vote = vote_of(Verdict.RIGHT, seeds_of(stage.dispute(dispute_id)))
    stage.chain.block(*(commits(keys, dispute_id, DRAWN, vote) for keys in voters))
    monkeypatch.setattr(pallet_module, "STEPS_BUDGET", work())
    stage.chain.blocks(2)
    stage.chain.block(*(opens(keys, dispute_id, vote) for keys in voters[:-1]))
    found = stage.dispute(dispute_id).round
    assert found is not None
    stage.chain.blocks_to(found.reveals_from + stage.dispute(dispute_id).windows.reveal)
    call = Disputes.open_vote(dispute=dispute_id, vote=vote, salt=salt_of(voters[-1], dispute_id))
    stage.chain.block(refused(voters[-1].provider, call, OutsideWindow))
    assert stage.dispute(dispute_id).stage is DisputeStage.VOTING
    monkeypatch.undo()
    stage.run(dispute_id, until=DisputeStage.APPEALABLE)
    assert losses(stage) == {}
    ended(stage, dispute_id)
    assert losses(stage) == {voters[-1].stash: 1}
