"""A run that anybody can follow: its state is a number, and a step makes the next one of it."""

from dataclasses import dataclass

from runtime.encoding.codec import DecodeError


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

    def metric(self, state: bytes) -> int:
        return self.steps - self.steps_done(state)


def encoded(done: int, number: int) -> bytes:
    return done.to_bytes(4, "little") + number.to_bytes(8, "little")
