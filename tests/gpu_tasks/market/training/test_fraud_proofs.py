"""Fraud proofs: committed, opened, judged, paid. A stolen proof pays nothing, and a wrong one costs."""

from dataclasses import replace

import pytest

from gpu_tasks.market.courts.benches import AUDIT_DELAYS, is_audited
from gpu_tasks.market.courts.opinions import Unanswerable
from gpu_tasks.market.training import events as ev
from gpu_tasks.market.training.events import FraudNotShown, FraudProven
from gpu_tasks.market.training.fraud_claims import CLAIM_BLOCKS, claim_commitment, reward_of
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.showing import refuted
from gpu_tasks.market.training.tasks import Challenge, FraudClaim, JudgedFor, TaskState
from gpu_tasks.market.training.terms import covered
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.traces.trace import TraceFraudProof, proof_of_fraud
from looked_at import (
    CALLED_TRACE_FEE,
    DIGESTS,
    OFTEN,
    PAID,
    SEGMENTS,
    STOOD_BY,
    TRACE,
    judged,
    judges_say,
    says,
    submitted,
)  # fmt: skip
from runtime.pallets.beacon import Beacon
from simulation.chains.market_chain import CUSTOMER, GENESIS_HASH, OGPU, Keys, refused, signed
from task_chain import COLLATERAL, PRICE, Books, TaskChain, awarded, net, with_offers, work

PROOF = proof_of_fraud(DIGESTS, 7, b"n" * 32)
SALT = b"s" * 32
BOND = 5 * CALLED_TRACE_FEE


def stated(size: int = 14, **changed: object) -> tuple[TaskChain, Books]:
    """Return a task over a trace with a result of Alice's."""
    chain = TaskChain(size=size)
    books = Books(chain)
    submitted(chain, TRACE, **{"segments": SEGMENTS, **changed})
    return chain, books


def claim(chain: TaskChain, who: Keys, proof: TraceFraudProof = PROOF, by: Keys | None = None) -> object:
    """Return the call that commits to a proof. `by` is the author of a copied commitment."""
    maker = (by or who).stash
    return TrainingMarket.claim_fraud(
        task=chain.task, commitment=claim_commitment(GENESIS_HASH, chain.task, maker, 0, proof, SALT)
    )


def show(chain: TaskChain, proof: TraceFraudProof = PROOF, salt: bytes = SALT) -> object:
    """Return the call that opens it."""
    return TrainingMarket.show_fraud(task=chain.task, place=0, proof=proof, salt=salt)


def challenged() -> tuple[TaskChain, Books, Keys]:
    """Return a task with a challenged trace."""
    chain, books = stated()
    eve = chain.keys[4]
    chain.do(eve, claim(chain, eve))
    chain.do(eve, show(chain))
    assert chain.state() is TaskState.JUDGED
    return chain, books, eve


def test_a_proof_that_is_right_is_paid_out_of_the_liars_collateral() -> None:
    chain, books, eve = challenged()
    judged(chain, says(refuted(TRACE)))
    assert chain.now().outcome is TaskOutcome.LIED
    reward = min(2 * BOND, COLLATERAL // 4)
    assert books.change(eve) == reward
    assert books.change(chain.alice) == -COLLATERAL
    assert books.change(CUSTOMER) == covered(PRICE, COLLATERAL) - STOOD_BY
    assert [event.reward for event in chain.happened(FraudProven)] == [reward]


def test_a_proof_convicts_every_partner_who_stated_the_root() -> None:
    chain = TaskChain(size=14)
    chain.submit(segments=SEGMENTS, slots=2)
    chain.auction(with_offers(chain.keys, 6 * OGPU, 6 * OGPU, 8 * OGPU))
    books = Books(chain)
    gang = chain.start_all()
    chain.finish_all(TRACE)
    eve = chain.keys[4]
    chain.do(eve, claim(chain, eve))
    chain.do(eve, show(chain))
    judged(chain, says(refuted(TRACE)))
    assert [slot.outcome for slot in chain.now().slots] == [TaskOutcome.LIED] * 2
    assert books.changes(*gang) == [-COLLATERAL] * 2
    assert [chain.market.provider_records[keys.stash].failed for keys in gang] == [
        5 * slot.price for slot in chain.now().slots
    ]


def test_a_proof_brings_a_part_of_the_collateral_of_the_slot_that_it_is_about() -> None:
    chain, _ = stated()
    eve, bound = chain.keys[4], chain.chain.now()
    market, (slot,) = bound[TrainingMarket], chain.now().slots
    market.tasks[chain.task] = replace(chain.now(), slots=(slot, replace(slot, collateral=8 * OGPU)))
    sealed = claim_commitment(GENESIS_HASH, chain.task, eve.stash, 1, PROOF, SALT)
    market.claims[chain.task, eve.stash] = FraudClaim(sealed, 1)
    signed(eve.provider, TrainingMarket.show_fraud(task=chain.task, place=1, proof=PROOF, salt=SALT))(bound)
    task = market.tasks[chain.task]
    assert task is not None
    assert task.challenge == Challenge(eve.stash, 1, 7, BOND, 2 * OGPU)


def test_a_proof_that_is_wrong_costs_its_bond_and_gives_the_customer_its_time_again() -> None:
    chain, books, eve = challenged()
    finished = chain.now().finished_at
    while chain.state() is TaskState.JUDGED:
        chain.block(*judges_say(chain, says(TRACE)))
    task = chain.now()
    assert (task.state, task.accepted, task.is_checked) == (TaskState.SUBMITTED, None, True)
    assert task.finished_at == chain.height
    assert (task.challenge, task.judged_for, task.beacon_at) == (None, None, finished), "no other chance is drawn"
    assert task.deadline == task.finished_at + 10
    assert books.change(eve) == -BOND
    signed(CUSTOMER.stash, TrainingMarket.dispute(task=chain.task, segment=None))(chain.chain.now())
    chain.until(TaskState.ENDED)
    assert books.change(chain.alice) == net(PAID)


def test_an_end_that_was_offered_before_a_proof_is_not_taken_after_it() -> None:
    """A liar whose proof was judged wrong by chance could otherwise use an old signature to escape."""
    chain, _ = stated()
    eve = chain.keys[4]
    chain.offer_end(1, 1)
    chain.do(eve, claim(chain, eve))
    chain.do(eve, show(chain))
    assert (chain.state(), chain.now().close) == (TaskState.JUDGED, None)


def about_to_be_audited() -> tuple[TaskChain, Keys]:
    """Return a task that the beacon audits in blocks that are not final, and an account that committed to a proof."""
    for seed in range(20):
        chain = TaskChain(size=14, constants=OFTEN, final_lag=3)
        chain.chain.chance.seed(seed)
        submitted(chain, TRACE, segments=SEGMENTS)
        finished, eve = chain.now().finished_at, chain.keys[4]
        chain.do(eve, claim(chain, eve))
        chain.blocks_to(finished + AUDIT_DELAYS[-1])
        beacon = chain.chain.now()[Beacon]
        values = [beacon.value_at(finished + delay) for delay in AUDIT_DELAYS]
        if is_audited([value for value in values if value], chain.task, chain.now().rules.audit_rate_ppm):
            return chain, eve
    raise AssertionError("no beacon asks for an audit")


def test_a_wrong_proof_draws_no_audit_anew() -> None:
    """The liar sees the beacon before it is final. A friend's wrong proof must not repeat the draw."""
    chain, eve = about_to_be_audited()
    assert chain.state() is TaskState.SUBMITTED
    chain.do(eve, show(chain))
    assert chain.state() is TaskState.JUDGED
    while chain.state() is TaskState.JUDGED:
        chain.block(*judges_say(chain, says(TRACE)))
    assert (chain.state(), chain.now().judged_for) == (TaskState.SHOWING, JudgedFor.AUDIT)


def test_a_proof_is_of_a_segment_that_its_liar_has_run() -> None:
    chain, _ = awarded(segments=SEGMENTS)
    alice, bob, eve = chain.alice, chain.bob, chain.keys[4]
    work(chain, alice, milestones=1)
    chain.until(TaskState.ASKING)
    chain.start(bob)
    chain.finish(bob, root=TRACE)
    proof = proof_of_fraud(DIGESTS, SEGMENTS // 4 - 1, b"n" * 32)
    chain.do(eve, claim(chain, eve, proof))
    chain.do(eve, show(chain, proof), ev.ProvesNothing)


def test_who_proves_its_own_lie_keeps_no_more_than_a_fourth() -> None:
    chain, _ = stated()
    task = chain.now()
    dear = replace(task, rules=replace(task.rules, judge_fee_ppm=1_000_000))
    assert reward_of(task, task.slots[0]) == 2 * BOND
    assert reward_of(dear, task.slots[0]) == COLLATERAL // 4


def test_a_proof_that_nobody_decides_costs_nobody_anything() -> None:
    chain, books, eve = challenged()
    while chain.state() is TaskState.JUDGED:
        chain.block()
    assert chain.state() is TaskState.SUBMITTED
    assert books.change(eve) == 0


def test_a_proof_about_an_input_that_is_missing_takes_nothing_from_the_pot() -> None:
    chain, books, eve = challenged()
    pot = chain.pot
    judged(chain, lambda _keys: Unanswerable())
    assert chain.now().outcome is TaskOutcome.INPUT_MISSING
    assert chain.pot == pot
    assert books.change(eve) == 0


def test_who_has_not_opened_its_claim_when_the_customer_accepts_loses_nothing() -> None:
    """It kept no other proof from being judged, because the customer has accepted the result."""
    chain, books = stated()
    eve = chain.keys[4]
    chain.do(eve, claim(chain, eve))
    made_at = chain.height
    chain.blocks_to(chain.now().deadline - 1)
    assert chain.height >= made_at + CLAIM_BLOCKS
    chain.accept()
    chain.until(TaskState.ENDED)
    assert books.change(eve) == 0


def test_a_commitment_that_is_copied_opens_nothing() -> None:
    chain, _ = stated()
    eve, thief = chain.keys[4:6]
    chain.block(signed(eve.provider, claim(chain, eve)), signed(thief.provider, claim(chain, thief, by=eve)))
    chain.block(refused(thief.provider, show(chain), ev.ProvesNothing), signed(eve.provider, show(chain)))


def test_a_proof_is_not_opened_in_the_block_that_commits_to_it() -> None:
    chain, _ = stated()
    thief = chain.keys[5]
    chain.block(signed(thief.provider, claim(chain, thief)), refused(thief.provider, show(chain), ev.NoSuchClaim))
    chain.do(chain.keys[4], show(chain), ev.NoSuchClaim)


def test_who_has_a_part_in_the_task_or_no_bond_makes_no_claim() -> None:
    chain, _ = stated()
    alice, eve = chain.alice, chain.keys[4]
    for who, error in ((alice, ev.NotEligible), (CUSTOMER, ev.NotEligible), (Keys("stranger"), ev.NotEligible)):
        refused(who.stash, claim(chain, who), error)(chain.chain.now())
    chain.do(eve, claim(chain, eve))
    refused(eve.provider, claim(chain, eve), ev.DoneAlready)(chain.chain.now())


def test_a_customer_that_is_bonded_disputes_and_proves_nothing() -> None:
    """Its dispute costs a bond for each slot. A proof would pay it a part of the collateral beside its cover."""
    chain, _ = stated()
    eve = chain.keys[4]
    bound = chain.chain.now()
    bound[TrainingMarket].tasks[chain.task] = replace(chain.now(), customer=eve.stash)
    refused(eve.provider, claim(chain, eve), ev.NotEligible)(bound)
    refused(eve.stash, claim(chain, eve), ev.NotEligible)(bound)


def test_a_task_takes_so_many_claims_and_no_more() -> None:
    chain, _ = stated()
    chain.block(*(signed(keys.provider, claim(chain, keys)) for keys in chain.keys[3:7]))
    chain.do(chain.keys[7], claim(chain, chain.keys[7]), ev.TooManyClaims)


def test_who_claims_and_opens_nothing_keeps_no_other_proof_out() -> None:
    chain, books = stated()
    friends, eve = chain.keys[3:7], chain.keys[7]
    chain.block(*(signed(keys.provider, claim(chain, keys)) for keys in friends))
    made_at = chain.height
    chain.blocks_to(made_at + CLAIM_BLOCKS - 2)
    chain.do(eve, claim(chain, eve), ev.TooManyClaims)
    chain.do(eve, claim(chain, eve))
    (burned,) = chain.happened(FraudNotShown)
    assert burned.burned == BOND
    assert burned.challenger in {keys.stash for keys in friends}
    assert sorted(books.change(keys) for keys in friends) == [-BOND, 0, 0, 0]
    chain.do(eve, show(chain))
    assert chain.state() is TaskState.JUDGED


def test_who_claims_and_opens_nothing_until_silence_counts_loses_its_bond() -> None:
    chain, books = stated()
    early, late = chain.keys[4:6]
    chain.do(early, claim(chain, early))
    chain.blocks_to(chain.now().deadline - CLAIM_BLOCKS)
    chain.do(late, claim(chain, late))
    chain.until(TaskState.ENDED)
    assert (books.change(early), books.change(late)) == (-BOND, 0)


def test_the_time_of_a_proof_does_not_pass_while_another_is_judged() -> None:
    chain, books = stated()
    eve, second = chain.keys[4:6]
    chain.block(signed(eve.provider, claim(chain, eve)), signed(second.provider, claim(chain, second)))
    chain.do(eve, show(chain))
    while chain.state() is TaskState.JUDGED:
        chain.block(*judges_say(chain, says(TRACE)))
    friends = chain.keys[6:8]
    chain.block(*(signed(keys.provider, claim(chain, keys)) for keys in friends))
    chain.do(chain.keys[8], claim(chain, chain.keys[8]), ev.TooManyClaims)
    assert books.change(second) == 0


@pytest.mark.parametrize(
    "proof",
    [
        TraceFraudProof(8, PROOF.before, PROOF.after, PROOF.right),
        TraceFraudProof(7, PROOF.before, PROOF.after, PROOF.after.digest),
        TraceFraudProof(7, PROOF.after, PROOF.before, PROOF.right),
    ],
    ids=["of another segment", "that says the same", "turned round"],
)
def test_a_proof_that_says_nothing_of_the_trace_is_refused(proof: TraceFraudProof) -> None:
    chain, _ = stated()
    eve = chain.keys[4]
    chain.do(eve, claim(chain, eve, proof))
    chain.do(eve, show(chain, proof), ev.ProvesNothing)


def test_only_what_was_committed_to_is_opened() -> None:
    chain, _ = stated()
    eve = chain.keys[4]
    chain.do(eve, claim(chain, eve))
    chain.block()
    other = proof_of_fraud(DIGESTS, 8, b"n" * 32)
    for call in (show(chain, other), show(chain, salt=b"z" * 32)):
        refused(eve.provider, call, ev.ProvesNothing)(chain.chain.now())
    wrong = TrainingMarket.show_fraud(task=chain.task, place=1, proof=PROOF, salt=SALT)
    refused(eve.provider, wrong, ev.NotSlotOwner)(chain.chain.now())


def test_without_a_trace_or_after_the_customers_word_there_is_nothing_to_claim() -> None:
    chain, _ = stated(segments=0)
    eve = chain.keys[4]
    chain.do(eve, claim(chain, eve), ev.WrongTaskState)
    chain, _ = stated()
    chain.accept()
    refused(eve.provider, claim(chain, eve), ev.WrongTaskState)(chain.chain.now())
    refused(eve.provider, show(chain), ev.WrongTaskState)(chain.chain.now())
