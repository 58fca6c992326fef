"""Runs in segments, their traces, the check of one segment, and fraud proofs with one state."""

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.traces.trace import (
    FRAUD_PROOF,
    PATH_MAX,
    SEGMENTS_MAX,
    has_form,
    is_in_trace,
    proof_of_fraud,
    state_hash,
    trace_root,
    traced_state,
)
from gpu_tasks.workloads.segment_checks import convicts, next_digest, segment_is_right, starts_wrong
from gpu_tasks.workloads.stepwise import states
from runtime.encoding.codec import DecodeError


# A simple run: its state is a number, and a step makes the next one from it.
@dataclass(frozen=True)
class CountingRun:
    """Implements `SegmentedRun`: states are steps done and a number, a step squares and adds."""

    steps: int
    segment: int
    seed: int

    @property
    def segments(self) -> int:
        return -(-self.steps // self.segment)

    def boundary(self, index: int) -> int:
        return min(index * self.segment, self.steps)

    def initial_state(self) -> bytes:
        return encoded(0, self.seed)

    def steps_done(self, state: bytes) -> int:
        done = int.from_bytes(state[:4], "little")
        if len(state) != 12 or done > self.steps:
            raise DecodeError("no state of this run")
        return done

    def advance(self, state: bytes, steps: int) -> bytes:
        done = self.steps_done(state)
        if done + steps > self.steps:
            raise ValueError("beyond the end")
        number = int.from_bytes(state[4:], "little")
        for step in range(done, done + steps):
            number = (number * number + step + 1) % 2**64
        return encoded(done + steps, number)

    def fingerprint(self, state: bytes, steps: int, seed: bytes) -> bytes:
        return self.advance(state, steps) + seed[:4]

    def metric(self, state: bytes) -> int:
        return self.steps - self.steps_done(state)


def encoded(done: int, number: int) -> bytes:
    return done.to_bytes(4, "little") + number.to_bytes(8, "little")


runs = st.builds(CountingRun, st.integers(1, 40), st.integers(1, 12), st.integers(0, 2**64 - 1))
RUN = CountingRun(steps=22, segment=5, seed=7)
STATES = tuple(states(RUN))
DIGESTS = tuple(map(state_hash, STATES))
ROOT = trace_root(DIGESTS)


def liar(run: CountingRun, wrong: int) -> list[bytes]:
    """Return the states of a run that continues from one flipped bit at a boundary."""
    honest = list(states(run))
    bad = honest[wrong][:4] + bytes([honest[wrong][4] ^ 1]) + honest[wrong][5:]
    return [*honest[:wrong], *states(run, bad)]


# --------------------------------------------------------------------------------------------------------- the states


def test_the_last_segment_may_be_shorter() -> None:
    assert [RUN.steps_done(state) for state in STATES] == [0, 5, 10, 15, 20, 22]
    assert RUN.segments == 5


@given(run=runs, data=st.data())
def test_from_any_state_the_run_goes_on_as_if_undisturbed(run: CountingRun, data: st.DataObject) -> None:
    whole = list(states(run))
    index = data.draw(st.integers(0, run.segments))
    assert list(states(run, whole[index])) == whole[index:]
    assert len(whole) == run.segments + 1


def test_a_state_is_hashed_for_this_purpose_alone() -> None:
    assert state_hash(b"") != state_hash(b"\0") != trace_root([b""])


# ------------------------------------------------------------------------------------------------- the trace, a segment


@given(run=runs, data=st.data())
def test_every_state_of_a_trace_can_be_shown_and_every_segment_is_right(run: CountingRun, data: st.DataObject) -> None:
    whole = list(states(run))
    digests = [state_hash(state) for state in whole]
    root = trace_root(digests)
    index = data.draw(st.integers(0, run.segments))
    shown = traced_state(digests, index)
    assert is_in_trace(root, run.segments, index, shown)
    assert not is_in_trace(root, run.segments, (index + 1) % (run.segments + 1), shown)
    assert all(segment_is_right(run, at, whole[at], digests[at + 1]) for at in range(run.segments))
    assert not starts_wrong(run, root, traced_state(digests, 0))


@given(run=runs, data=st.data())
def test_a_flipped_bit_changes_the_root_and_is_found_in_its_segment_alone(
    run: CountingRun, data: st.DataObject
) -> None:
    wrong = data.draw(st.integers(1, run.segments))
    lies = liar(run, wrong)
    digests = [state_hash(state) for state in lies]
    assert trace_root(digests) != trace_root([state_hash(state) for state in states(run)])
    found = [at for at in range(run.segments) if not segment_is_right(run, at, lies[at], digests[at + 1])]
    assert found == [wrong - 1]


@pytest.mark.parametrize(
    ("index", "state"),
    [
        (-1, STATES[0]),
        (5, STATES[5]),  # no segment follows the last state
        (0, STATES[1]),
        (0, encoded(0, 8)),  # not the number that the run begins with
        (1, STATES[2]),  # of another boundary
        (1, encoded(4, 7)),  # between boundaries
        (1, encoded(23, 7)),
        (1, b""),
        (1, STATES[1] + b"\0"),
    ],
)
def test_states_that_cannot_stand_there(index: int, state: bytes) -> None:
    assert next_digest(RUN, index, state) is None
    assert not segment_is_right(RUN, index, state, DIGESTS[min(index + 1, 5)])


# ------------------------------------------------------------------------------------------------------------- a proof


@given(run=runs, data=st.data())
def test_a_lie_is_shown_with_one_state_and_an_honest_trace_convicts_nobody(
    run: CountingRun, data: st.DataObject
) -> None:
    wrong = data.draw(st.integers(1, run.segments))
    lies = liar(run, wrong)
    digests = [state_hash(state) for state in lies]
    root, index = trace_root(digests), wrong - 1
    right = state_hash(run.advance(lies[index], run.boundary(wrong) - run.boundary(index)))
    proof = proof_of_fraud(digests, index, right)
    assert convicts(run, root, FRAUD_PROOF.decode(FRAUD_PROOF.encode(proof)), lies[index])
    assert not convicts(run, root, replace(proof, right=bytes(32)), lies[index]), "who has not computed wins nothing"
    for at in range(run.segments):
        if at != index:
            others = proof_of_fraud(digests, at, right)
            assert not convicts(run, root, others, lies[at]), "a segment that follows from a lie is right in itself"


def test_no_proof_convicts_an_honest_trace() -> None:
    for index in range(RUN.segments):
        for right in (bytes(32), DIGESTS[index], DIGESTS[index + 1]):
            assert not convicts(RUN, ROOT, proof_of_fraud(DIGESTS, index, right), STATES[index])


def test_a_proof_is_read_with_the_state_it_speaks_of_only() -> None:
    lies = liar(RUN, 2)
    digests = [state_hash(state) for state in lies]
    proof = proof_of_fraud(digests, 1, DIGESTS[2])
    assert convicts(RUN, trace_root(digests), proof, STATES[1])
    for other in (STATES[0], STATES[2], b"", STATES[1] + b"\0"):
        assert not convicts(RUN, trace_root(digests), proof, other)


def test_bytes_that_are_no_state_convict_whoever_put_their_hash_into_a_trace() -> None:
    digests = [*DIGESTS[:3], state_hash(b"nothing"), *DIGESTS[4:]]
    assert convicts(RUN, trace_root(digests), proof_of_fraud(digests, 3, bytes(32)), b"nothing")


def test_a_trace_that_begins_elsewhere_is_shown_without_a_state() -> None:
    lies = list(states(RUN, encoded(0, 8)))
    digests = [state_hash(state) for state in lies]
    root = trace_root(digests)
    assert starts_wrong(RUN, root, traced_state(digests, 0))
    assert convicts(RUN, root, proof_of_fraud(digests, 0, bytes(32)), lies[0])
    assert not starts_wrong(RUN, root, traced_state(digests, 1)), "another state of the trace"
    assert not starts_wrong(RUN, root, traced_state(DIGESTS, 0)), "of another trace"


def test_forms_of_proofs() -> None:
    digests = [state_hash(state) for state in liar(RUN, 2)]
    root, proof = trace_root(digests), proof_of_fraud(digests, 1, DIGESTS[2])
    assert has_form(root, RUN.segments, proof)
    assert not has_form(ROOT, RUN.segments, proof)
    assert not has_form(root, RUN.segments + 1, proof)
    assert not has_form(root, SEGMENTS_MAX + 1, proof)
    for change in (
        {"index": 0},
        {"index": 2},
        {"index": 5},
        {"index": 2**32 - 1},
        {"right": proof.after.digest},
        {"before": proof.after},
        {"after": proof.before},
        {"before": replace(proof.before, digest=bytes(32))},
        {"after": replace(proof.after, path=())},
    ):
        assert not has_form(root, RUN.segments, replace(proof, **change)), change


def test_a_proof_of_the_longest_trace_is_less_than_a_kibibyte() -> None:
    digests = [index.to_bytes(32, "little") for index in range(SEGMENTS_MAX + 1)]
    proof = proof_of_fraud(digests, SEGMENTS_MAX - 1, bytes(32))
    assert len(proof.before.path) == PATH_MAX
    assert len(FRAUD_PROOF.encode(proof)) == 742
    assert has_form(trace_root(digests), SEGMENTS_MAX, proof)
    too_long = replace(proof, before=replace(proof.before, path=(bytes(32),) * (PATH_MAX + 1)))
    assert not has_form(trace_root(digests), SEGMENTS_MAX, too_long)
    with pytest.raises(ValueError, match="11 items, limit 10"):
        FRAUD_PROOF.encode(too_long)


def test_bytes_that_are_no_proof() -> None:
    data = FRAUD_PROOF.encode(proof_of_fraud(DIGESTS, 1, bytes(32)))
    for bad in (b"", data[:-1], data + b"\0"):
        with pytest.raises(DecodeError):
            FRAUD_PROOF.decode(bad)
