"""Many disputes at once with random voters, parties and validators that leave: each ends, and the books balance."""

import random
from collections import Counter

import pytest

from gpu_tasks.market.claims import disputes_pallet as pallet_module
from gpu_tasks.market.claims import hearing
from gpu_tasks.market.claims.dispute_events import VoterCharged, VotersDrawn
from gpu_tasks.market.claims.disputes import Dispute, DisputeQuestion, DisputeStage
from gpu_tasks.market.claims.disputes_pallet import STEPS_BUDGET, Disputes
from gpu_tasks.market.claims.disputes_storage import DisputesStorage
from gpu_tasks.market.claims.findings import CANNOT_FETCH, Verdict
from gpu_tasks.market.claims.hearing import DRAW_WEIGHT, LOOK_WEIGHT, RULING_WEIGHT, STEP_WEIGHT, VOTER_WEIGHT
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.types import Weight
from runtime.frame.runtime import Bound
from runtime.pallets.balances import Balances
from runtime.pallets.staking.trust_stake import TrustStake
from simulation.chains.dispute_chain import FEE, Behaviour, DisputeChain, ToyClaims, ToyRuling
from simulation.chains.market_chain import CUSTOMER, Keys, signed, tolerant
from simulation.pallets.disputes import HOOKS


class Crowd:
    """Voters, parties and validators with random steps. A voter keeps its vote within a round."""

    def __init__(self, seed: int, size: int) -> None:
        self.chance = random.Random(seed)
        self.truth, self.share = self.chance.choice(list(Verdict)), self.chance.choice([40, 180, 250])
        """The common verdict, and its part of 256. Without a large part, disputes reach the appeal or no decision."""
        self.stage = DisputeChain(size=size, policy=self.acts, seed=seed)

    def acts(self, keys: Keys, dispute: Dispute) -> Behaviour:
        """Return a behaviour by hash, so that commit and opening agree."""
        root = blake2_256(keys.stash + bytes((dispute.stage,)) + (dispute.seed or b""))
        if root[0] < 30:
            return Behaviour(None)
        verdict = self.truth if root[1] < self.share else Verdict(root[2] % 3)
        label = bytes((root[4] % 2,))
        return Behaviour(verdict, is_opened=root[3] > 20, label=label if root[5] < 80 else b"", is_copied=root[6] < 20)

    def act(self) -> None:
        """Act in one block."""
        steps = list(self.stage.steps())
        self.chance.shuffle(steps)
        steps = [tolerant(step) for step in steps if self.chance.random() < 0.8]
        for dispute_id, dispute in self.stage.chain.now()[Disputes].disputes.items():
            if dispute is not None and self.chance.random() < 0.05:
                who = self.chance.choice([*dispute.terms.parties, CUSTOMER.stash])
                steps.append(tolerant(signed(who, Disputes.appeal(dispute=dispute_id))))
        if self.chance.random() < 0.02:
            leaver = self.chance.choice(self.stage.chain.validators).stash
            steps.append(tolerant(signed(leaver, TrustStake.chill())))
        if self.chance.random() < 0.05:
            poor = self.chance.choice(self.stage.chain.validators).stash
            spend = Balances.transfer_allow_death(dest=CUSTOMER.stash, value=self.stage.free(poor) // 2)
            steps.append(tolerant(signed(poor, spend)))
        self.stage.chain.block(*steps)

    def open(self) -> None:
        """Open a dispute between outsiders, or with a validator as a party."""
        parties = [keys.stash for keys in self.stage.parties]
        if self.chance.random() < 0.3:
            parties[0] = self.chance.choice(self.stage.chain.validators).stash
        self.stage.open(
            question=self.chance.choice(list(DisputeQuestion)),
            seeds=(b"s" * 32, b"t" * 32)[: self.chance.randrange(3)],
            parties=tuple(parties),
            fee=self.chance.choice([1, FEE // 3, FEE]),
        )


def rulings_of(stage: DisputeChain) -> list[ToyRuling]:
    return [ruling for _, ruling in stage.chain.now()[ToyClaims].rulings.items() if ruling is not None]


@pytest.mark.parametrize(("seed", "size"), [(1, 2), (2, 3), (3, 5), (4, 9), (5, 12), (6, 14), (7, 20)])
def test_every_dispute_ends_and_every_grain_is_in_its_place(seed: int, size: int) -> None:
    crowd, opened = Crowd(seed, size), 0
    chain = crowd.stage.chain
    while opened < 12:
        if crowd.chance.random() < 0.2:
            crowd.open()
            opened += 1
        crowd.act()
    for _ in range(250):
        if not list(chain.now()[Disputes].disputes.items()):
            break
        crowd.act()
    bound = chain.now()
    assert not list(bound[Disputes].disputes.items())
    assert not list(bound[Disputes].ballots.items())
    rulings = rulings_of(crowd.stage)
    assert len(rulings) == opened
    bonds = {(event.dispute, voter): event.bond for event in chain.happened(VotersDrawn) for voter in event.voters}
    charged = Counter((event.dispute, event.voter) for event in chain.happened(VoterCharged))
    assert set(charged.values()) <= {1}, "a voter is charged once a dispute"
    for event in chain.happened(VoterCharged):
        assert event.amount in (bonds[event.dispute, event.voter] // 2, bonds[event.dispute, event.voter])
    for ruling in rulings:
        assert len(ruling.voters) <= 9
        assert ruling.vote is not None or not (ruling.voters or ruling.appeal_voters)
        assert not {*ruling.voters} & {*ruling.appeal_voters}


def test_disputes_reach_every_end() -> None:
    ends: Counter[tuple[bool, Verdict | None]] = Counter()
    for seed in range(9):
        crowd = Crowd(seed, 12)
        crowd.truth, crowd.share = Verdict(seed % 3), (40, 200, 250)[seed // 3]
        for _ in range(4):
            crowd.open()
        for _ in range(160):
            crowd.act()
        for ruling in rulings_of(crowd.stage):
            ends[ruling.is_appealed, ruling.vote.verdict if ruling.vote else None] += 1
    assert {verdict for _, verdict in ends} == {None, Verdict.RIGHT, Verdict.WRONG, CANNOT_FETCH.verdict}
    assert {is_appealed for is_appealed, _ in ends} == {True, False}


def test_a_backlog_costs_no_block_more_than_its_budget_and_is_worked_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pallet_module, "STEPS_BUDGET", Weight(10 * (STEP_WEIGHT + DRAW_WEIGHT).ref_time, 0))
    stage = DisputeChain(size=12)
    ids, terms = [blake2_256(bytes((number,))) for number in range(60)], stage.terms(fee=1)

    def flood(bound: Bound) -> None:
        for dispute_id in ids:
            bound[Disputes].open(dispute_id, terms)

    stage.chain.block(flood)
    left = len(ids)
    for _ in range(60):
        bound = stage.chain.block()
        undrawn = [each for _, each in bound[Disputes].disputes.items() if each and each.stage is DisputeStage.DRAWING]
        assert left - len(undrawn) <= 10
        left = len(undrawn)
    assert left == 0
    assert STEPS_BUDGET.ref_time > 10 * STEP_WEIGHT.ref_time


def test_a_step_weighs_the_validators_that_it_checks_and_the_voters_that_it_draws_or_releases(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    weights: list[tuple[DisputeStage, int]] = []
    step = hearing.step

    def noted(room: DisputesStorage, dispute_id: bytes, dispute: Dispute) -> Weight:
        weight = step(room, dispute_id, dispute)
        weights.append((dispute.stage, weight.ref_time))
        return weight

    monkeypatch.setattr(hearing, "step", noted)
    stage = DisputeChain(size=20)
    dispute_id = stage.open()
    stage.run(dispute_id, until=DisputeStage.APPEALABLE)
    stage.chain.block(signed(stage.parties[0].stash, Disputes.appeal(dispute=dispute_id)))
    stage.run(dispute_id)
    look, voter = LOOK_WEIGHT.ref_time, VOTER_WEIGHT.ref_time
    drawn, called, ended = (
        max(weight for kind, weight in weights if kind is wanted) - STEP_WEIGHT.ref_time
        for wanted in (DisputeStage.DRAWING, DisputeStage.VOTING, DisputeStage.APPEAL)
    )
    barred = 3
    assert drawn == DRAW_WEIGHT.ref_time + (barred + 9) * look + 9 * voter, (
        "only the first nine of the lottery are checked"
    )
    assert called == 0
    assert ended == max(RULING_WEIGHT.ref_time + 20 * voter, DRAW_WEIGHT.ref_time + (barred + 20) * look + 20 * voter)
    assert 128 * (look + voter) + STEP_WEIGHT.ref_time <= HOOKS[0][1].ref_time
