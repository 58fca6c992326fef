"""Task attestations that make a block invalid, each condition alone, on a chain of the real pallets."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.market.attestations import attestations as module
from gpu_tasks.market.attestations.attestations import Attestations, TaskAttested
from gpu_tasks.market.attestations.kinds import attestation_hash
from gpu_tasks.market.attestations.usage import Usage
from gpu_tasks.market.training.events import MilestoneReported, ResultStated, WrongMilestone
from gpu_tasks.market.training.life.attested_steps import NO_SLOT, NOT_SLOT_OWNER, lasting_problem
from gpu_tasks.market.training.task_statement import SignedTaskAttestation, TaskAttestation, task_signing_payload
from gpu_tasks.market.training.tasks import Task, TaskState
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.market.weights import WEIGHTS
from runtime.encoding.codec import codec
from runtime.encoding.types import Signed, Unsigned, Weight
from runtime.frame.call import PostDispatch
from runtime.frame.errors import InvalidBlock
from runtime.frame.measured import times
from runtime.frame.runtime import Bound
from simulation.chains.market_chain import CUSTOMER, GENESIS_HASH, Keys, attach
from task_attesting import at_end, at_milestone, in_this_order, running, stating, workers
from task_chain import RIGHT, WRONG, TaskChain, a_milestone, a_result

STRANGER = Keys("stranger")


def problem(chain: TaskChain, signed: SignedTaskAttestation) -> str:
    """Return the pallet's answer in the next block."""
    return next_block(chain)[Attestations].problem(signed)


def next_block(chain: TaskChain) -> Bound:
    """Return the state as the next block finds it, while nothing is due."""
    bound = chain.chain.now()
    bound[TrainingMarket].system.number.set(chain.height + 1)
    return bound


def resigned(keys: Keys, statement: TaskAttestation) -> SignedTaskAttestation:
    return SignedTaskAttestation(statement, keys.sign("provider", task_signing_payload(GENESIS_HASH, statement)))


BAD_FORMS: dict[str, tuple[dict[str, object], str]] = {
    "another version": ({"version": 2}, "another version"),
    "another task": ({"task": b"t" * 32}, NOT_SLOT_OWNER),
    "an auction to come": ({"auction": 2}, NO_SLOT),
    "no auction": ({"auction": 0}, NO_SLOT),
    "no such place": ({"place": 1}, NO_SLOT),
    "another device": ({"device": b"d" * 32}, NOT_SLOT_OWNER),
    "its session key": ({"key": "session"}, NOT_SLOT_OWNER),
    "its stash": ({"key": "stash"}, NOT_SLOT_OWNER),
    "before the start": ({"started_at": 1}, "times out of order"),
    "an end before the beginning": ({"finished_at": 1}, "times out of order"),
    "a height to come": ({"finished_at": 10_000}, "times out of order"),
    "impossible usage": ({"usage": Usage(1, 10_000, 0, 0, 1, 0)}, "impossible GPU time"),
}


@pytest.mark.parametrize("name", BAD_FORMS)
@pytest.mark.parametrize("made", [at_milestone, at_end])
def test_a_block_with_a_malformed_attestation_is_invalid(name: str, made: Callable[..., SignedTaskAttestation]) -> None:
    chain = running()
    changed, reason = BAD_FORMS[name]
    arguments: tuple[Any, ...] = (chain, 1) if made is at_milestone else (chain,)
    bad, good = made(*arguments, **changed), made(*arguments)
    assert reason in problem(chain, bad)
    before = chain.now()
    with pytest.raises(InvalidBlock):
        in_this_order(bad)(next_block(chain))
    assert chain.now() == before
    chain.block(attach(good))
    assert chain.now() != before


def test_the_last_milestone_is_the_result() -> None:
    chain = running(milestones=2)
    chain.block(attach(at_milestone(chain, 1)))
    assert problem(chain, at_milestone(chain, 2)) == "not now: WrongMilestone"
    assert problem(chain, at_end(chain)) == ""


def test_a_replayed_one_is_refused() -> None:
    chain = running()
    first, second = at_milestone(chain, 1), at_milestone(chain, 2)
    chain.block(attach(first))
    assert problem(chain, first) == "not now: WrongMilestone"
    assert lasting_problem(chain.market, first) == "stated already"
    chain.block(attach(second))
    for old in (first, second):
        with pytest.raises(InvalidBlock):
            in_this_order(old)(next_block(chain))


def test_what_somebody_else_signed_or_for_another_purpose_is_refused() -> None:
    chain = running()
    good = at_milestone(chain, 1)
    statement, alice = good.statement, workers(chain)[0]
    bob = next(keys for keys in chain.keys if keys is not alice)
    body = codec(TaskAttestation).encode(statement)
    forged = (
        bytes(64),
        bob.sign("provider", task_signing_payload(GENESIS_HASH, statement)),
        alice.sign("provider", task_signing_payload(b"h" * 32, statement)),
        alice.sign("provider", b"ogpu/1/attest\0\0" + GENESIS_HASH + body),
        alice.sign("provider", task_signing_payload(GENESIS_HASH, replace(statement, place=1))),
    )
    for signature in forged:
        bad = SignedTaskAttestation(statement, signature)
        assert problem(chain, bad) == lasting_problem(chain.market, bad) == "bad signature"


def test_a_providers_own_key_for_somebody_elses_slot_is_refused() -> None:
    chain = running()
    good = at_milestone(chain, 1)
    alice = workers(chain)[0]
    for other in [keys for keys in (*chain.keys, STRANGER, CUSTOMER) if keys is not alice]:
        bad = resigned(other, replace(good.statement, provider_key=other.provider))
        assert problem(chain, bad) == NOT_SLOT_OWNER
    standby = chain.now().standby
    assert standby is not None
    keys = chain.chain.keys_of(standby.provider)
    bad = resigned(keys, replace(good.statement, provider_key=keys.provider, device=standby.device))
    assert problem(chain, bad) == lasting_problem(chain.market, bad) == NOT_SLOT_OWNER


@pytest.mark.parametrize("state", [TaskState.STARTING, TaskState.CLAIMED, TaskState.ENDED])
def test_a_task_that_does_not_run_takes_none(state: TaskState) -> None:
    chain = running(slots=2)
    good = at_milestone(chain, 1)
    task: Task = replace(chain.now(), state=state)
    bound = next_block(chain)
    bound[TrainingMarket].tasks[chain.task] = task
    assert bound[Attestations].problem(good) == "not now: WrongTaskState"
    assert lasting_problem(bound[TrainingMarket], good) == ("" if state is TaskState.STARTING else NO_SLOT)


def test_what_comes_after_the_deadline_is_refused() -> None:
    chain = running()
    good = at_milestone(chain, 1)
    last = chain.now().deadline
    for height, reason in ((last, ""), (last + 1, "not now: WrongTaskState")):
        bound = chain.chain.now()
        bound[TrainingMarket].system.number.set(height)
        assert bound[Attestations].problem(good) == reason


def test_what_was_signed_for_one_leg_proves_nothing_in_the_next() -> None:
    chain = running()
    alice, old = workers(chain)[0], at_milestone(chain, 1)
    chain.until(TaskState.STARTING)  # she died, and the standby has the slot
    (bob,) = workers(chain)
    chain.start(bob)
    assert bob is not alice
    assert problem(chain, old) == NOT_SLOT_OWNER
    chain.block(attach(at_milestone(chain, 1)))
    chain.until(TaskState.COMMITTING)
    assert problem(chain, old) == NOT_SLOT_OWNER


def test_a_gang_keeps_step_within_a_block() -> None:
    chain = running(slots=2)
    first = [at_milestone(chain, 1, place) for place in range(2)]
    second = [at_milestone(chain, 2, place) for place in range(2)]
    assert problem(chain, second[0]) == "not now: WrongMilestone"
    chain.block(in_this_order(*first, *second))
    assert [slot.reported for slot in chain.now().slots] == [2, 2]
    ahead = at_milestone(chain, 3)
    chain.block(attach(ahead))
    assert problem(chain, at_end(chain)) == "not now: DoneAlready"
    chain.block(attach(at_end(chain, 1)))
    chain.block(attach(at_end(chain)))
    assert chain.state() is TaskState.CLAIMED


def test_a_partner_states_nothing_for_another_slot() -> None:
    chain = running(slots=2)
    alice, bob = workers(chain)
    for statement in (at_milestone(chain, 1, 1).statement, at_end(chain, 1).statement):
        bad = resigned(alice, replace(statement, provider_key=alice.provider, device=alice.device))
        assert problem(chain, bad) == lasting_problem(chain.market, bad) == NOT_SLOT_OWNER
        stolen = resigned(alice, replace(statement, provider_key=alice.provider, device=bob.device))
        assert problem(chain, stolen) == lasting_problem(chain.market, stolen) == NOT_SLOT_OWNER


def test_order_and_doubles() -> None:
    chain = running(slots=2)
    first = [at_milestone(chain, 1, place) for place in range(2)]
    for wrong in (first[::-1], [first[0], first[0]], [], [at_milestone(chain, 2), first[0]]):
        with pytest.raises(InvalidBlock):
            in_this_order(*wrong)(next_block(chain))
    chain.block(in_this_order(*first))


def test_an_attestation_does_what_the_call_does() -> None:
    by_call, attested = running(), running()
    for number in (1, 2):
        by_call.report(by_call.keys[0], number)
        attested.chain.block(attach(at_milestone(attested, number)))
        assert by_call.now() == attested.now()
    by_call.finish(by_call.keys[0])
    signed = at_end(attested)
    attested.chain.block(attach(signed))
    assert by_call.now() == attested.now()
    alice = attested.keys[0]
    told = TaskAttested(attested.task, 0, alice.stash, alice.device, attestation_hash(signed))
    assert told in attested.chain.events
    assert ResultStated(attested.task, 0, a_result(alice)) in attested.chain.events
    assert len(attested.chain.happened(MilestoneReported)) == 2
    assert attested.chain.now()[Attestations].attested.get() == 3


def test_the_calls_that_state_the_same_are_free_when_they_succeed() -> None:
    chain = running(slots=2)
    alice = Signed(workers(chain)[0].provider)
    result = TrainingMarket.finish(task=chain.task, place=0, result=a_result(chain.alice))
    stated = PostDispatch(pays_fee=False, actual_weight=WEIGHTS["TrainingMarket.report_milestone"])
    assert next_block(chain).dispatch(checkpoint(chain, 1), alice) == stated
    weight = WEIGHTS["TrainingMarket.finish"] + times(2, WEIGHTS["TrainingMarket.finish slot"])
    assert next_block(chain).dispatch(result, alice) == PostDispatch(pays_fee=False, actual_weight=weight)
    with pytest.raises(WrongMilestone):
        next_block(chain).dispatch(checkpoint(chain, 2), alice)


def checkpoint(chain: TaskChain, number: int) -> Any:
    return TrainingMarket.report_milestone(task=chain.task, place=0, milestone=a_milestone(number))


def test_a_milestone_that_was_attested_counts_and_is_gone_on_from() -> None:
    chain = running()
    chain.block(attach(at_milestone(chain, 1)))
    chain.count(1)
    assert chain.now().done == 1
    chain.until(TaskState.ASKING)
    assert chain.now().behind == 1
    chain.start(chain.bob)
    kept = {number: lasting_problem(chain.market, at_milestone(chain, number)) for number in range(1, 5)}
    assert kept == {1: "stated already", 2: "", 3: "", 4: "no such milestone"}, "numbers go on over all legs"


def test_what_they_weigh(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = running(slots=2)
    first = [at_milestone(chain, 1, place) for place in range(2)]
    each = WEIGHTS["Attestations.attach attestation"]
    result = WEIGHTS["TrainingMarket.finish"] + times(2, WEIGHTS["TrainingMarket.finish slot"])
    whole = WEIGHTS["Attestations.attach"] + times(2, each + WEIGHTS["TrainingMarket.report_milestone"])
    monkeypatch.setattr(module, "ATTESTATIONS_MAX", Weight(whole.ref_time))
    assert weight_of(chain, *first) == whole
    assert next_block(chain)[Attestations].weight_of(at_end(chain)) == each + result
    monkeypatch.setattr(module, "ATTESTATIONS_MAX", Weight(whole.ref_time - 1))
    with pytest.raises(InvalidBlock, match="room in"):
        weight_of(chain, *first)


def test_too_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = running(slots=2)
    first = [at_milestone(chain, 1, place) for place in range(2)]
    monkeypatch.setattr(module, "ATTESTATION_BYTES_PER_BLOCK_MAX", 2 * 294 - 1)
    with pytest.raises(InvalidBlock, match="limit of bytes"):
        weight_of(chain, *first)
    monkeypatch.setattr(module, "ATTESTATION_BYTES_PER_BLOCK_MAX", 2 * 294)
    weight_of(chain, *first)


def weight_of(chain: TaskChain, *signed: SignedTaskAttestation) -> Weight | None:
    return next_block(chain).dispatch(Attestations.attach(attestations=signed), Unsigned()).actual_weight


def test_what_a_node_keeps() -> None:
    chain = running(milestones=4)
    assert "too far ahead" in lasting_problem(chain.market, at_milestone(chain, 3))
    for number in (1, 2):
        assert lasting_problem(chain.market, at_milestone(chain, number)) == ""
    for number in (4, 5, 255):
        assert lasting_problem(chain.market, at_milestone(chain, number)) == "no such milestone"
    assert lasting_problem(chain.market, at_milestone(chain, 0)) == "stated already"
    assert lasting_problem(chain.market, at_end(chain)) == ""
    work_on = at_end(chain)
    chain.block(attach(work_on))
    assert lasting_problem(chain.market, work_on) == NO_SLOT


def test_a_slot_that_has_its_result_states_no_more() -> None:
    chain = running(slots=2)
    chain.block(attach(at_end(chain)))
    assert lasting_problem(chain.market, at_end(chain)) == "stated already"
    assert lasting_problem(chain.market, at_milestone(chain, 2)) == "stated already"
    assert lasting_problem(chain.market, at_end(chain, 1)) == ""


@pytest.fixture(scope="module")
def midway() -> TaskChain:
    """Return a task whose first milestone counts."""
    chain = running()
    chain.block(attach(at_milestone(chain, 1)))
    chain.count(1)
    return chain


@given(
    version=st.sampled_from([0, 1, 1, 1, 2]),
    auction=st.sampled_from([0, 1, 1, 1, 2]),
    place=st.sampled_from([0, 0, 0, 1]),
    number=st.integers(0, 5),
    heights=st.tuples(st.integers(-2, 3), st.integers(-2, 3)),
    is_result=st.booleans(),
    root=st.sampled_from([RIGHT, WRONG]),
)
def test_whatever_is_signed_is_refused_or_is_the_next_step(
    midway: TaskChain,
    version: int,
    auction: int,
    place: int,
    number: int,
    heights: tuple[int, int],
    is_result: bool,
    root: bytes,
) -> None:
    slot = midway.now().slots[0]
    begun, done = slot.started_at + heights[0], midway.chain.height + heights[1]
    stated = a_result(midway.keys[0], root) if is_result else a_milestone(number, root)
    fields: dict[str, Any] = {
        "version": version,
        "auction": auction,
        "place": place,
        "started_at": begun,
        "finished_at": done,
    }
    signed = stating(midway, stated, **fields)
    is_next = is_result or number == 2
    is_form = (version, auction, place) == (1, 1, 0) and heights[0] >= 0 and heights[1] <= 1 and begun <= done
    bound = next_block(midway)
    before = bound[TrainingMarket].tasks[midway.task]
    found = bound[Attestations].problem(signed)
    assert (found == "") is (is_next and is_form), found
    try:
        bound.dispatch(Attestations.attach(attestations=(signed,)), Unsigned())
    except InvalidBlock:
        assert found
        assert bound[TrainingMarket].tasks[midway.task] == before
        return
    assert not found
    after = bound[TrainingMarket].tasks[midway.task]
    assert after is not None
    assert after.slots[0].reported == (4 if is_result else 2)
