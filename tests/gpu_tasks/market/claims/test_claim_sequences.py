"""Many claims at once with random behaviour and honest voters: each ends, and the books balance after every block."""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest

from counted_reads import watched_hook
from gpu_tasks.market.claims import result_claims
from gpu_tasks.market.claims.claim_events import CheckerDrawn, ClaimEnded
from gpu_tasks.market.claims.claims import CHECKER_BOND, DISPUTE_BOND, Check, ClaimOutcome, ClaimStage
from gpu_tasks.market.claims.disputes import Dispute, seeds_of
from gpu_tasks.market.claims.disputes_pallet import Disputes
from gpu_tasks.market.claims.disputes_storage import windows_of
from gpu_tasks.market.claims.findings import ItemVote, Verdict
from gpu_tasks.market.claims.result_claims import (
    CHECKER_LOOK_WEIGHT,
    CHECKER_WEIGHT,
    CLAIMS_BUDGET,
    DUE_WEIGHT,
    END_WEIGHT,
    NAME_WEIGHT,
    STEP_WEIGHT,
    ResultClaims,
)
from gpu_tasks.market.rounds import advanced, can_commit, can_reveal
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.types import Weight
from runtime.frame.measured import times
from runtime.frame.schedule import TAKE_WEIGHT
from runtime.pallets.staking.trust_lock import Paid
from simulation.chains.claim_chain import PRICE, TOY_COLLATERAL, WEIGHT, Checks, ClaimChain, Step, ToyMarket, sample_at
from simulation.chains.dispute_chain import commits, opens, voters_of
from simulation.chains.market_chain import Keys, signed, tolerant

HONEST = Checks()
DEVIATIONS = (
    Checks(None),
    Checks(label=b"guess"),
    Checks(label=b"guess", is_conceded=True),
    Checks(is_opened=False),
    Checks(Verdict.WRONG),
    Checks(Verdict.UNAVAILABLE),
)


def honest_votes(stage: ClaimChain) -> Iterator[Step]:
    """Yield the steps of voters that compute a right item, in the next block."""
    room, height = stage.chain.now()[Disputes], stage.chain.height + 1
    for dispute_id, dispute in room.disputes.items():
        assert dispute is not None
        if dispute.round is None:
            continue
        windows = windows_of(dispute)
        current = advanced(dispute.round, windows, height, height - stage.chain.final_lag)
        for voter in voters_of(dispute):
            keys, ballot = stage.chain.keys_of(voter), room.ballots[voter, dispute_id]
            assert ballot is not None
            if ballot.commitment is None and can_commit(current, windows, height):
                yield commits(keys, dispute_id, ballot.round, vote_about(dispute))
            elif ballot.commitment and not ballot.vote and can_reveal(current, windows, height):
                yield opens(keys, dispute_id, vote_about(dispute))


def vote_about(dispute: Dispute) -> ItemVote:
    """Return the vote of a voter that computes a right item."""
    terms = dispute.terms
    point = terms.index * WEIGHT if terms.point is None else terms.point
    return ItemVote(Verdict.RIGHT, b"a" * 32, tuple(sample_at(point, seed) for seed in seeds_of(dispute)))


class Crowd:
    """Random checkers and an honest provider. All disputes by an account are false."""

    def __init__(self, seed: int, size: int) -> None:
        self.chance = random.Random(seed)
        self.stage = ClaimChain(size=size, checker=self.checks, seed=seed)
        self.opened: list[bytes] = []

    def checks(self, _keys: Keys, check: Check, _number: int) -> Checks:
        """Return a behaviour by hash, so that commit and opening agree."""
        number = blake2_256(check.seed)[0]
        return DEVIATIONS[number % len(DEVIATIONS)] if number < 120 else HONEST

    def act(self, *, may_dispute: bool) -> None:
        """Make a block."""
        steps = [*self.stage.steps(), *honest_votes(self.stage)]
        chosen = [claim_id for claim_id in self.opened if may_dispute and self.chance.random() < 0.01]
        calls = [ResultClaims.dispute(claim=claim_id, index=0) for claim_id in chosen]
        steps += [signed(self.stage.stranger.stash, call) for call in calls]
        self.stage.chain.block(*(tolerant(step) for step in steps))


@pytest.mark.parametrize(("seed", "size"), [(1, 14), (2, 20), (3, 7), (4, 5)])
def test_every_claim_ends_and_no_honest_party_pays(seed: int, size: int) -> None:
    crowd = Crowd(seed, size)
    for _ in range(25):
        is_batch = crowd.chance.random() < 0.4
        shape = {"items": 1_000, "rate_ppm": 4_000} if is_batch else {"rate_ppm": 1_000_000}
        crowd.opened.append(crowd.stage.open(**shape))
        crowd.act(may_dispute=True)
    for number in range(1_500):
        crowd.act(may_dispute=number < 100)
        if len(crowd.stage.chain.happened(ClaimEnded)) == len(crowd.opened):
            break
    outcomes = Counter(crowd.stage.outcome(claim_id) for claim_id in crowd.opened)
    assert outcomes[ClaimOutcome.REFUTED] + outcomes[None] == 0
    assert outcomes[ClaimOutcome.PASSED] > 10 if size > 10 else outcomes.total() == 25
    for paid in crowd.stage.chain.happened(Paid):
        if paid.reason is TOY_COLLATERAL:
            assert paid.amount <= PRICE // 2, "an honest provider pays voters that fetched, never more"
    bound = crowd.stage.chain.now()
    for who in (*(keys.stash for keys in crowd.stage.chain.validators), crowd.stage.stranger.stash):
        held = [hold for hold in bound[ResultClaims].balances.holds[who] if hold.id in (CHECKER_BOND, DISPUTE_BOND)]
        assert not held


def test_the_most_valuable_claims_come_first_and_the_hook_stays_in_its_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = ClaimChain()
    cheap = [stage.terms(rate_ppm=0, price=PRICE // 100) for _ in range(30)]
    terms = [*cheap, *(replace(each, price=PRICE) for each in cheap[:5])]
    names = [blake2_256(bytes((number,))) for number in range(len(terms))]
    monkeypatch.setattr(result_claims, "CLAIMS_BUDGET", Weight(5 * (STEP_WEIGHT + END_WEIGHT).ref_time, 0))
    pairs = zip(names, terms, strict=True)
    stage.chain.block(*(lambda bound, n=name, t=each: bound[ToyMarket].bring(n, t) for name, each in pairs))
    stage.chain.block()
    assert [event.claim for event in stage.chain.happened(ClaimEnded)] == sorted(names[30:])
    for ended in (10, 15, 20):
        stage.chain.block()
        assert len(stage.chain.happened(ClaimEnded)) == ended
    stage.chain.blocks(10)
    assert len(stage.chain.happened(ClaimEnded)) == len(terms)
    assert CLAIMS_BUDGET.ref_time > 10 * STEP_WEIGHT.ref_time


def test_a_step_weighs_the_checker_that_it_names_and_those_that_it_releases(monkeypatch: pytest.MonkeyPatch) -> None:
    spent = watched_hook(monkeypatch, ResultClaims)
    stage = ClaimChain(checker=lambda _keys, _check, number: Checks(None) if not number else Checks())
    found = DUE_WEIGHT + TAKE_WEIGHT
    claim_id = stage.open()
    stage.run(claim_id, until=ClaimStage.COMMITTING)
    assert spent[-1].weight == found + STEP_WEIGHT + NAME_WEIGHT + CHECKER_LOOK_WEIGHT
    stage.run(claim_id)
    checks = len(stage.chain.happened(CheckerDrawn))
    assert checks >= 3, "one is silent, and two replace it"
    assert spent[-1].weight == found + STEP_WEIGHT + END_WEIGHT + times(checks, CHECKER_WEIGHT)
    assert found + STEP_WEIGHT in [each.weight for each in spent], "the steps of windows"


def test_real_votes_decide_a_check() -> None:
    stage = ClaimChain(size=14, checker=lambda *_: Checks(Verdict.WRONG))
    claim_id = stage.open()
    for _ in range(300):
        if not stage.chain.now()[ResultClaims].is_open(claim_id):
            break
        stage.chain.block(*stage.steps(), *honest_votes(stage))
    assert stage.outcome(claim_id) is ClaimOutcome.PASSED
    checker = stage.chain.happened(CheckerDrawn)[0].checker
    lost = sum(paid.amount for paid in stage.chain.happened(Paid) if paid.who == checker)
    assert lost == stage.terms().collateral
