"""Runs in segments, their traces and trails."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.traces.trace import state_hash, trace_root
from gpu_tasks.workloads.fingerprints import first_trail
from gpu_tasks.workloads.stepwise import states, trailed_segments
from runtime.cryptography.hashing import blake2_256
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

    def trailed(self, state: bytes, steps: int, trail: bytes) -> tuple[bytes, bytes]:
        for _ in range(steps):
            state = self.advance(state, 1)
            trail = blake2_256(trail + state)[:16]
        return state, trail

    def metric(self, state: bytes) -> int:
        return self.steps - self.steps_done(state)


def encoded(done: int, number: int) -> bytes:
    return done.to_bytes(4, "little") + number.to_bytes(8, "little")


runs = st.builds(CountingRun, st.integers(1, 40), st.integers(1, 12), st.integers(0, 2**64 - 1))
RUN = CountingRun(steps=22, segment=5, seed=7)
STATES = tuple(states(RUN))


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


# ---------------------------------------------------------------------------------------------------------- the trace


@given(run=runs, data=st.data())
def test_a_flipped_bit_changes_the_root_and_its_segment_alone(run: CountingRun, data: st.DataObject) -> None:
    wrong = data.draw(st.integers(1, run.segments))
    honest, lies = list(states(run)), liar(run, wrong)
    assert trace_root([state_hash(state) for state in lies]) != trace_root([state_hash(state) for state in honest])
    found = [at for at in range(run.segments) if list(states(run, lies[at]))[1] != lies[at + 1]]
    assert found == [wrong - 1]


def test_every_segment_has_the_trail_of_its_steps() -> None:
    found = list(trailed_segments(RUN))
    assert [state for state, _ in found] == list(STATES[1:])
    for index, (state, trail) in enumerate(found):
        steps = RUN.boundary(index + 1) - RUN.boundary(index)
        assert RUN.trailed(STATES[index], steps, first_trail(STATES[index])) == (state, trail)
