"""Random tasks with real claims and disputes: every grain is somebody's, every hold ends, and no task stays open.

The books of the chain count all grains in each block. Providers lie, die and report inputs, customers change their
minds, and accounts dispute claims. In half of the chains checkers and voters err too.
"""

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from gpu_tasks.market.claims.claims import ClaimStage
from gpu_tasks.market.claims.disputes import Dispute, DisputeQuestion, seeds_of
from gpu_tasks.market.claims.disputes_pallet import Disputes
from gpu_tasks.market.claims.draws import ITEM_WEIGHT
from gpu_tasks.market.claims.findings import CANNOT_FETCH, ItemSample, ItemVote, Verdict
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.training import events as ev
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.tasks import Task, TaskState, agreed_milestone, is_open, task_id_of
from gpu_tasks.market.training.training_market import TrainingMarket
from nightly_but import nightly_but
from runtime.cryptography.hashing import blake2_256
from runtime.pallets.balances import Balances
from simulation.chains.dispute_chain import vote_steps, voters_of
from simulation.chains.market_chain import CUSTOMER, GENESIS_HASH, OGPU, Keys, Step, signed, tolerant
from task_chain import RIGHT, WRONG, TaskChain, a_milestone, a_result, an_offer, an_order
from unit_cases import claim_steps

BLOCKS, DRAIN_BLOCKS, OPEN = 260, 500, 3
"""Blocks with random calls, blocks in which the last task must end, and tasks that are open at a time."""
SIZE, CHECKED = 16, {"TrainingMarket.check_rate": 1_000_000}


class Random:
    """Customers, providers, checkers and voters that act at random. `is_true`: checkers and voters are honest."""

    def __init__(self, seed: int, *, is_true: bool) -> None:
        self.chance, self.is_true = random.Random(f"tasks {seed}"), is_true
        self.chain = TaskChain(size=SIZE, constants=CHECKED, bonds=(1_000 * OGPU,))
        self.chain.chain.chance.seed(seed)
        self.tasks: list[bytes] = []

    def open_tasks(self) -> list[tuple[bytes, Task]]:
        found = ((task_id, self.chain.market.tasks[task_id]) for task_id in self.tasks)
        return [(task_id, task) for task_id, task in found if task is not None and is_open(task)]

    def play(self) -> None:
        """Make blocks of random calls, then only steps that nobody has to choose, until all tasks have ended."""
        for _ in range(BLOCKS):
            self.chain.block(*self._steps())
        for _ in range(DRAIN_BLOCKS):
            if not self.open_tasks():
                return
            self.chain.block(*self._checks() if self.is_true else ())
        raise AssertionError(f"open: {[task.state for _, task in self.open_tasks()]}")

    def _steps(self) -> Iterator[Step]:
        open_tasks = self.open_tasks()
        if len(open_tasks) < OPEN and self.chance.random() < 0.5:
            yield self._order()
        for task_id, task in open_tasks:
            for step in (*self._of_customer(task_id, task), *self._of_providers(task_id, task)):
                yield tolerant(step)
        yield from self._checks()
        yield from map(tolerant, self._disputes())

    def _order(self) -> Step:
        chance = self.chance
        order = an_order(
            sealed_at=max(0, self.chain.height - 1),
            slots=chance.choice((1, 1, 2, 3)), segments=chance.choice((0, 0, 8, 40)), milestones=chance.choice((1, 2)),
            blocks_max=chance.choice((6, 12)), price_max=OGPU, run_blocks=0, auctions=chance.choice((1, 2)),
            check_ppm=chance.choice((50_000, 1_000_000)), collateral_min=chance.choice((0, 0, 30 * OGPU)),
        )  # fmt: skip
        number = self.chain.market.submission_counts[CUSTOMER.stash]
        self.tasks.append(task_id_of(GENESIS_HASH, CUSTOMER.stash, number))
        return signed(CUSTOMER.stash, TrainingMarket.submit(order=order))

    def _of_customer(self, task_id: bytes, task: Task) -> Iterator[Step]:
        chance, agreed = self.chance.random(), agreed_milestone(task) if task.state is TaskState.RUNNING else None
        if agreed is not None and chance < 0.3:
            call = TrainingMarket.confirm_checkpoint(task=task_id, number=agreed.number, root=agreed.root)
            yield signed(CUSTOMER.stash, call)
        elif chance < 0.01:
            yield signed(CUSTOMER.stash, TrainingMarket.stop(task=task_id))
        elif chance < 0.02:
            yield signed(CUSTOMER.stash, TrainingMarket.cancel(task=task_id))

    def _of_providers(self, task_id: bytes, task: Task) -> Iterator[Step]:
        chance, collateral = self.chance, task.terms.collateral_min
        if task.state in (TaskState.COMMITTING, TaskState.REVEALING):
            is_first = task.state is TaskState.COMMITTING
            for keys in chance.sample(self.chain.keys, 6) if is_first else self.chain.keys:
                offer = an_offer(OGPU * (40 + keys.stash[0] % 50) // 100, task.terms.blocks_max, collateral)
                call_of = self.chain.commit_call if is_first else self.chain.reveal_call
                if chance.random() < 0.4:
                    yield signed(keys.provider, call_of(keys, offer, task=task_id))
        for place, slot in enumerate(task.slots):
            keys = self.chain.chain.keys_of(slot.provider)
            for call in self._of_slot(task_id, task, place, slot.reported, keys) if chance.random() < 0.5 else ():
                yield signed(keys.provider, call)
        if task.state is TaskState.ASKING and task.standby is not None and chance.random() < 0.3:
            who = self.chain.chain.keys_of(task.standby.provider)
            yield signed(who.provider, TrainingMarket.start(task=task_id, place=0))

    def _of_slot(self, task_id: bytes, task: Task, place: int, reported: int, keys: Keys) -> Iterator[Any]:
        """Yield the next call of a slot's provider. The root of its result is a function of the slot."""
        chance = self.chance.random()
        if task.state is TaskState.STARTING and chance < 0.05:
            yield TrainingMarket.report_input(task=task_id, place=place)
        elif task.state is TaskState.STARTING and chance < 0.8:
            yield TrainingMarket.start(task=task_id, place=place)
        elif task.state is TaskState.RUNNING and reported + 1 < task.milestones and chance < 0.8:
            number = task.behind + reported + 1
            yield TrainingMarket.report_milestone(task=task_id, place=place, milestone=a_milestone(number))
        elif task.state is TaskState.RUNNING and chance < 0.9:
            label = task_id + bytes((task.auction, place))
            root = WRONG if blake2_256(label)[0] % 4 == 0 else RIGHT
            yield TrainingMarket.finish(task=task_id, place=place, result=a_result(keys, root))

    def _checks(self) -> Iterator[Step]:
        """Yield the duties of checkers, providers and voters. Honest ones forget none and tell the truth."""
        chain = self.chain.chain
        for claim_id, claim in chain.now()[ResultClaims].claims.items():
            assert claim is not None
            is_false = claim.terms.root == WRONG
            behaviour = 1.0 if self.is_true else random.Random(claim_id + bytes((len(claim.checks),))).random()
            verdict = Verdict.WRONG if is_false is (behaviour > 0.2) else Verdict.RIGHT
            verdict = Verdict.UNAVAILABLE if behaviour < 0.08 else verdict
            if claim.stage in (ClaimStage.COMMITTING, ClaimStage.SHOWING, ClaimStage.OPENING) and behaviour > 0.05:
                who = claim.terms.provider if claim.stage is ClaimStage.SHOWING else claim.checks[-1].checker
                yield from claim_steps(chain, chain.keys_of(who), claim_id, verdict)
            elif claim.stage is ClaimStage.CONCEDING and 0.05 < behaviour < 0.12:
                who = chain.keys_of(claim.checks[-1].checker).provider
                yield tolerant(signed(who, ResultClaims.concede(claim=claim_id)))
        for dispute_id, dispute in chain.now()[Disputes].disputes.items():
            for voter in voters_of(dispute) if dispute is not None else ():
                yield from vote_steps(chain, chain.keys_of(voter), dispute_id, self._vote_of(voter))

    def _vote_of(self, voter: bytes) -> Any:
        def vote(dispute: Dispute) -> ItemVote | None:
            terms = dispute.terms
            behaviour = 1.0 if self.is_true else random.Random(terms.work + voter).random()
            if behaviour < 0.15:
                return None if behaviour < 0.1 else CANNOT_FETCH
            if terms.question is DisputeQuestion.INPUT and terms.work[0] % 3 == 0:
                return CANNOT_FETCH
            samples = tuple(ItemSample(0, ITEM_WEIGHT, blake2_256(seed)[:16]) for seed in seeds_of(dispute))
            if terms.question is not DisputeQuestion.ITEM:
                return ItemVote(Verdict.RIGHT, RIGHT if behaviour > 0.3 else WRONG, samples)
            claim = self.chain.chain.now()[ResultClaims].claims[terms.work]
            is_false = claim is not None and claim.terms.root == WRONG
            return ItemVote(Verdict.WRONG if is_false is (behaviour > 0.3) else Verdict.RIGHT, RIGHT, samples)

        return vote

    def _disputes(self) -> Iterator[Step]:
        claims = list(self.chain.chain.now()[ResultClaims].claims.keys())
        if claims and self.chance.random() < 0.05:
            who = self.chance.choice(self.chain.keys)
            yield signed(who.stash, ResultClaims.dispute(claim=self.chance.choice(claims), index=0))


@pytest.mark.parametrize(("seed", "is_true"), nightly_but(6, [(seed, bool(seed % 2)) for seed in range(40)]))
def test_every_grain_is_somebodys_and_every_task_ends(seed: int, *, is_true: bool) -> None:
    play = Random(seed, is_true=is_true)
    play.play()
    chain = play.chain
    # Bids are released a few in each block.
    chain.blocks(8)
    bound = chain.chain.now()
    held = {str(hold.reason) for (_, hold), _ in bound[Balances].held_cases.items()}
    assert {why for why in held if why.startswith(("TrainingMarket", "ResultClaims", "Disputes"))} <= {
        "TrainingMarket.TaskDeposit"
    }
    market = bound[TrainingMarket]
    left = (market.duties, market.task_of_claim, market.task_of_dispute, bound[ResultClaims].claims)
    assert not any(list(each.items()) for each in (*left, bound[Disputes].disputes))
    assert not market.open_task_count.get()
    assert all(map(chain.is_idle, chain.keys))
    ends = Counter(event.task for event in chain.happened(ev.TaskEnded))
    assert set(ends.values()) == {1}
    assert len(ends) == len(chain.happened(ev.TaskSubmitted))


@pytest.mark.parametrize("seed", nightly_but(3, range(1, 30)))
def test_honest_checkers_and_voters_convict_liars_alone(seed: int) -> None:
    play = Random(100 + seed, is_true=True)
    play.play()
    chain = play.chain
    stated = {(event.task, event.place): event.result.root for event in chain.happened(ev.ResultStated)}
    claimed = {TaskOutcome.ON_TIME, TaskOutcome.LATE, TaskOutcome.LIED, TaskOutcome.UNDECIDED}
    seen = Counter[tuple[bytes, TaskOutcome]]()
    for event in chain.happened(ev.SlotSettled):
        if event.outcome in claimed:
            seen[stated[event.task, event.place], event.outcome] += 1
    assert not seen[RIGHT, TaskOutcome.LIED]
    assert not seen[WRONG, TaskOutcome.ON_TIME] + seen[WRONG, TaskOutcome.LATE], "every result is checked"
    assert seen[RIGHT, TaskOutcome.ON_TIME] + seen[RIGHT, TaskOutcome.LATE] > 3
