"""Snowflake+ over sibling blocks: one binary decision for each bit of their ids.

The ids under one parent form a binary trie. A `BitRun` is a stretch of bits that all its choices share, a `Fork` the
bit where they differ. Each has one counter per acceptance condition. A flat vote among three siblings may give none a
majority. At a bit, one of the two sides always has it.

Invariant: a decision never changes. A counter counts successive polls that met its condition. A decision deeper in the
trie has at most the confidence of those above it on the path. After avalanchego
`snow/consensus/snowball/{tree,binary_snowflake}.go`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from consensus.parameters import Thresholds

ID_BITS = 256


@dataclass(slots=True)
class Confidence:
    """Counters, one for each condition in ascending order. `decided` is True once one has reached its beta."""

    counters: list[int]
    decided: bool = False

    def succeed(self, agreeing_units: int, thresholds: Thresholds) -> None:
        """Count a poll with `count` votes for the current preference, at least the preference threshold."""
        for condition_index, condition in enumerate(thresholds.conditions):
            if agreeing_units < condition.alpha:
                self.counters[condition_index:] = [0] * (len(self.counters) - condition_index)
                return
            self.counters[condition_index] += 1
            if self.counters[condition_index] >= condition.beta:
                self.decided = True

    def reset(self) -> None:
        """Set the counters to 0, because a poll failed or the preference changed."""
        self.counters = [0] * len(self.counters)

    def copy(self) -> "Confidence":
        """Return an independent copy."""
        return Confidence(list(self.counters), self.decided)


@dataclass(slots=True)
class BitRun:
    """Bits [start, end) that all choices below share. A `fork` follows unless `end` is the last bit."""

    start: int
    end: int
    choice: int
    confidence: Confidence
    fork: "Fork | None" = None
    stale: bool = False  # a poll missed this branch: counters below count as 0


@dataclass(slots=True)
class Fork:
    """The bit where choices differ, and the preferred side."""

    preference: int
    confidence: Confidence
    sides: list[BitRun] = field(default_factory=list)


def bit_of(choice_number: int, bit_index: int) -> int:
    """Return the bit of a 256-bit id at a place, counted from the most significant one."""
    return choice_number >> (ID_BITS - 1 - bit_index) & 1


class Snowflake:
    """The decision among the children of one block."""

    def __init__(self, thresholds: Thresholds, choice: bytes) -> None:
        """Start with a first choice, which is preferred."""
        self.thresholds = thresholds
        choice_number = int.from_bytes(choice, "big")
        self._ids_by_number = {choice_number: choice}
        self._root_run = BitRun(0, ID_BITS, choice_number, self._fresh_confidence())

    def _fresh_confidence(self) -> Confidence:
        return Confidence([0] * len(self.thresholds.conditions))

    def add(self, choice: bytes) -> bool:
        """Add a choice. Return False if it is known, or already decided against."""
        choice_number = int.from_bytes(choice, "big")
        if choice_number in self._ids_by_number:
            return False
        run = self._root_run
        while True:
            differing = (choice_number ^ run.choice) & ((1 << (ID_BITS - run.start)) - 1)
            bit_index = ID_BITS - differing.bit_length()
            if bit_index < run.end:
                break
            fork = run.fork
            assert fork is not None  # different choices part in a run or at a fork
            side = bit_of(choice_number, run.end)
            # A decided bit never turns, so this choice could never win.
            if fork.confidence.decided and side != fork.preference:
                return False
            run = fork.sides[side]
        if run.confidence.decided:
            return False
        self._split_run(run, bit_index, choice_number)
        self._ids_by_number[choice_number] = choice
        return True

    def _split_run(self, run: BitRun, bit_index: int, choice_number: int) -> None:
        """Split a run at `bit_index`: its own side keeps the confidence, the new side starts at 0."""
        kept_run = BitRun(bit_index + 1, run.end, run.choice, run.confidence.copy(), run.fork, run.stale)
        new_run = BitRun(bit_index + 1, ID_BITS, choice_number, self._fresh_confidence())
        own_side = bit_of(run.choice, bit_index)
        fork = Fork(own_side, run.confidence.copy(), [kept_run, new_run] if own_side == 0 else [new_run, kept_run])
        run.end = bit_index
        run.fork = fork

    @property
    def preference(self) -> bytes:
        """The choice preferred at every bit."""
        run = self._root_run
        while run.fork is not None:
            run = run.fork.sides[run.fork.preference]
        return self._ids_by_number[run.choice]

    @property
    def decided(self) -> bool:
        """True if every bit of the preference is decided."""
        run = self._root_run
        while True:
            if run.end > run.start and not run.confidence.decided:
                return False
            if run.fork is None:
                return True
            if not run.fork.confidence.decided:
                return False
            run = run.fork.sides[run.fork.preference]

    @property
    def confidence(self) -> tuple[int, ...]:
        """For each condition, the polls in a row that met it, at the least certain bit of the preference."""
        run = self._root_run
        counters = []
        while True:
            zero_counters = [0] * len(self.thresholds.conditions)
            if run.end > run.start:
                counters.append(zero_counters if run.stale else run.confidence.counters)
            if run.fork is None:
                return tuple(min(condition_counters) for condition_counters in zip(*counters, strict=True))
            counters.append(zero_counters if run.stale else run.fork.confidence.counters)
            run = run.fork.sides[run.fork.preference]

    def falter(self) -> None:
        """Mark that a poll did not reach these choices, so that their counters start at 0 again."""
        self._root_run.stale = True

    def record(self, votes: Mapping[bytes, int]) -> bool:
        """Apply one poll: votes by choice. Return True if it raised confidence in some bit."""
        counted_choices = {
            choice_number: votes[choice] for choice_number, choice in self._ids_by_number.items() if choice in votes
        }
        run = self._root_run
        successful = False
        while True:
            _apply_resets(run)
            counted_units = sum(counted_choices.values())
            if counted_units < self.thresholds.preference:
                run.stale = True
                return successful
            successful = successful or counted_units >= self.thresholds.alpha_min
            run.confidence.succeed(counted_units, self.thresholds)
            fork = run.fork
            if fork is None:
                return successful
            side = self._record_fork(fork, run.end, counted_choices)
            if side is None:
                return successful
            counted_choices = {
                choice_number: weight
                for choice_number, weight in counted_choices.items()
                if bit_of(choice_number, run.end) == side
            }
            run = fork.sides[side]

    def _record_fork(self, fork: Fork, bit_index: int, counted_choices: Mapping[int, int]) -> int | None:
        """Apply the poll to one bit. Return the winning side, or None if the poll ends here."""
        one_weight = sum(
            weight for choice_number, weight in counted_choices.items() if bit_of(choice_number, bit_index)
        )
        weights = (sum(counted_choices.values()) - one_weight, one_weight)
        winner = 0 if weights[0] >= self.thresholds.preference else 1
        fork.sides[1 - winner].stale = True
        if weights[winner] < self.thresholds.preference:
            fork.confidence.reset()
            fork.sides[winner].stale = True
            return None
        if winner != fork.preference:
            # A decision never changes, however later polls vote.
            if fork.confidence.decided:
                fork.sides[winner].stale = True
                return None
            fork.preference = winner
            fork.confidence.reset()
        fork.confidence.succeed(weights[winner], self.thresholds)
        return winner


def _apply_resets(run: BitRun) -> None:
    """Apply the resets that earlier polls deferred."""
    if run.stale:
        run.stale = False
        run.confidence.reset()
        if run.fork is not None:
            run.fork.confidence.reset()
            for side in run.fork.sides:
                side.stale = True
