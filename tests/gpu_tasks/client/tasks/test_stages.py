"""How far a task is, and why it waits: a sentence for every state, which names who, what and until which block."""

from dataclasses import replace

import pytest

from gpu_tasks.client.tasks.records import how_ended, progress, unheld, why
from gpu_tasks.market.courts.benches import AUDIT_DELAYS
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.courts.courts_api import CaseStatus
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.orders import CheckedBy
from gpu_tasks.market.training.tasks import Acceptance, Challenge, JudgedFor, TaskResult, TaskState, slot_case
from looked_at import submitted
from runtime.cryptography import ss58
from simulation.chains.market_chain import OGPU
from task_chain import TaskChain, awarded, hold, with_offers, work


def test_an_auction_says_until_when_bids_are_sealed_opened_and_what_is_awaited() -> None:
    chain = TaskChain()
    chain.submit()
    task = chain.now()
    assert progress(task) == "committing, 0 bids"
    assert why(task) == f"at auction: sealed bids are committed to up to block {task.deadline}"
    bids = with_offers(chain.keys, 6 * OGPU)
    for keys, offer in bids.items():
        chain.do(keys, chain.commit_call(keys, offer))
    assert progress(chain.now()) == "committing, 1 bid"
    chain.until(TaskState.REVEALING)
    task = chain.now()
    assert progress(task) == "revealing, 0 of 1 bid opened"
    assert why(task).startswith(f"at auction: bids are opened up to block {task.deadline}")
    for keys, offer in bids.items():
        chain.do(keys, chain.reveal_call(keys, offer))
    chain.until(TaskState.AWARDING)
    task = chain.now()
    assert why(task) == f"the beacon of block {task.beacon_at} breaks ties: it is awarded once that block is final"
    chain.until(TaskState.STARTING)
    task = chain.now()
    alice = ss58.encode(chain.alice.stash)
    assert why(task) == (
        f"awarded: {alice} may start up to block {task.deadline}; else it pays for that, and it is auctioned again"
    )
    chain.until(TaskState.COMMITTING)
    assert why(chain.now()).startswith("at auction 2 of 2, from its beginning: ")


def test_a_running_task_says_what_is_due_and_what_its_customer_can_hold() -> None:
    chain, _ = awarded()
    assert "the runner-up takes its place" in why(chain.now())
    alice, bob = chain.keys[:2]
    chain.start(alice)
    assert why(chain.now()).startswith(f"at work: milestone 1 is due by block {chain.now().deadline}")
    rest = replace(chain.now(), behind=2, milestones=2)
    goes_on = f"{ss58.encode(alice.stash)} goes on from the checkpoint of milestone 2: milestone 3 is due"
    assert why(rest).startswith(goes_on), "who began may be another one"
    assert progress(rest) == "running, milestone 2 of 4"
    assert unheld(chain.now()) is None
    chain.report(alice, 1)
    assert unheld(chain.now()) == 1
    assert "milestone 1 counts once its checkpoint is held" in why(chain.now())
    chain.do(bob, hold(chain, 1))
    assert unheld(chain.now()) == 1, "what the standby holds is a place to go on from, and not owed for"
    chain.count(1)
    assert unheld(chain.now()) is None
    chain.report(alice, 2)
    chain.report(alice, 3)
    chain.count(3)
    assert progress(chain.now()) == "running, milestone 3 of 4"
    assert why(chain.now()).startswith("at work: the result is due by block")
    chain.until(TaskState.ASKING)
    asked = f"who worked is gone: {ss58.encode(bob.stash)} may take over up to block {chain.now().deadline}"
    assert why(chain.now()).startswith(asked)
    assert unheld(chain.now()) is None
    chain.until(TaskState.COMMITTING)
    assert why(chain.now()).startswith("at auction 2 of 2, from milestone 3: ")


def test_partners_that_do_not_agree_have_nothing_to_hold() -> None:
    chain, _ = awarded(5 * OGPU, 6 * OGPU, 7 * OGPU, slots=2)
    for place, slot in enumerate(chain.now().slots):
        chain.start(chain.chain.keys_of(slot.provider), place)
    first, second = chain.now().slots
    chain.report(chain.chain.keys_of(first.provider), 1)
    assert unheld(chain.now()) is None
    chain.report(chain.chain.keys_of(second.provider), 1, 1, root=b"x" * 32)
    assert unheld(chain.now()) is None


def test_a_result_says_what_its_customer_can_do_and_when_it_is_paid() -> None:
    chain, _ = awarded()
    work(chain, chain.alice, milestones=3)
    chain.finish(chain.alice)
    task = chain.now()
    assert why(task) == (
        f"the result is there: `ogpu accept` it, or `ogpu dispute` it up to block {task.finished_at + 6}; after block "
        f"{task.deadline} it counts as accepted, and is paid once block {task.finished_at + 5} is final and asks for "
        "no audit"
    )
    chain.accept()
    task = chain.now()
    paid = f"paid once block {task.finished_at + 5} is final and asks for no audit"
    assert why(task) == f"accepted by its customer: {paid}"
    drawn_anew = replace(task, beacon_at=task.finished_at + 70)
    assert f"paid once block {task.finished_at + 70 + AUDIT_DELAYS[-1]} is final" in why(drawn_anew)
    silent = replace(task, accepted=Acceptance.BY_SILENCE, is_checked=True)
    assert why(silent) == "accepted by silence: paid once no audit is asked for"
    chain.until(TaskState.ENDED)
    task = chain.now()
    assert progress(task) == "ended, on time"
    assert why(task) == how_ended(task)
    assert how_ended(task) == (
        f"The result was accepted, within the promised blocks. Its record is kept up to block {task.deadline}"
    )


def test_what_is_looked_at_says_why_and_who_has_the_word() -> None:
    chain = submitted(TaskChain(12))
    chain.dispute()
    chain.until(TaskState.JUDGED)
    task = chain.now()
    case = chain.chain.now()[Courts].cases[slot_case(chain.task, 0)]
    assert case is not None
    said = why(task, CaseStatus(case, 0, 0, 0))
    assert said.startswith("its customer disputes the result; ")
    assert "judges" in said
    assert why(task) == "its customer disputes the result; its judges have said all"
    assert why(replace(task, named=3)).startswith("its customer disputes the result, and names segment 3; ")
    showing = replace(task, state=TaskState.SHOWING, judged_for=JudgedFor.AUDIT, deadline=0, beacon_at=77)
    assert why(showing).startswith("the beacon drew its result for an audit; ")
    other = replace(task.slots[0], result=TaskResult(b"o" * 32, bytes(32), 0))
    differing = replace(showing, slots=(*task.slots, other))
    assert why(differing).startswith("its providers do not agree on the result; "), "the chain calls both an audit"
    shown = Challenge(chain.bob.stash, 0, 4, 1, 1)
    proven = why(replace(showing, judged_for=JudgedFor.FRAUD_PROOF, challenge=shown))
    who = ss58.encode(chain.bob.stash)
    assert proven.startswith(f"somebody has shown a proof that the result is wrong, in segment 4: {who}; ")
    assert why(showing).endswith("the beacon of block 77 draws what is looked at, once it is final")
    drawn = replace(showing, deadline=90)
    assert "up to block 90 (0 of 1 have), and who does not counts as having lied" in why(drawn)


@pytest.mark.parametrize("outcome", TaskOutcome)
def test_every_end_has_a_sentence(outcome: TaskOutcome) -> None:
    chain, _ = awarded()
    ended = replace(chain.now(), state=TaskState.ENDED, outcome=outcome)
    assert progress(ended).startswith("ended, ")
    assert "Its record is kept up to block" in why(ended)


def test_what_nobody_bid_for_says_what_did_not_suit() -> None:
    chain = TaskChain()
    chain.submit()
    unsold = replace(chain.now(), state=TaskState.ENDED, outcome=TaskOutcome.NO_AWARD)
    assert how_ended(unsold).startswith("Nobody has bid: no provider that was free has the time for it for this price.")
    program = replace(unsold, order=replace(unsold.order, checked_by=CheckedBy.METERED))
    assert "runs its image within its limits for this price" in how_ended(program)
    assert how_ended(replace(program, bids=2)).startswith("No bid could win, or fewer than the gang needs")
    copies = replace(program, bids=2, order=replace(program.order, checked_by=CheckedBy.REPLICATED))
    assert "too few owners offered a device for the other copies" in how_ended(copies)


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (3, "Its program has ended, with exit code 3"),
        (143, "Its time is up, and its program was stopped, with exit code 143"),
    ],
)
def test_bought_time_that_is_over_says_how_its_program_ended(code: int, says: str) -> None:
    chain, _ = awarded()
    task = replace(chain.now(), state=TaskState.ENDED, outcome=TaskOutcome.TIME_OVER)
    assert "the program has ended, or the time is up" in how_ended(task)
    slot = replace(task.slots[0], result=TaskResult(bytes(32), bytes(32), code))
    assert how_ended(replace(task, slots=(slot,))).startswith(f"{says}. ")
