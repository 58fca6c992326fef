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

    def __init__(self, thresholds: Thresholds, choice_id: bytes) -> None:
        """Start with a first choice, which is preferred."""
        self.thresholds = thresholds
        choice_number = int.from_bytes(choice_id, "big")
        self._ids_by_number = {choice_number: choice_id}
        self._root_run = BitRun(0, ID_BITS, choice_number, self._fresh_confidence())

    def _fresh_confidence(self) -> Confidence:
        return Confidence([0] * len(self.thresholds.conditions))

    def add(self, choice: bytes) -> bool:
        """Add a choice. Return False if it is known, or already decided against."""
        choice_number = int.from_bytes(choice, "big")
        if choice_number in self._ids_by_number:
            return False
        bit_run = self._root_run
        while True:
            differing = (choice_number ^ bit_run.choice) & ((1 << (ID_BITS - bit_run.start)) - 1)
            bit_index = ID_BITS - differing.bit_length()
            if bit_index < bit_run.end:
                break
            next_fork = bit_run.fork
            assert next_fork is not None  # different choices part in a run or at a fork
            chosen_side = bit_of(choice_number, bit_run.end)
            # A decided bit never turns, so this choice could never win.
            if next_fork.confidence.decided and chosen_side != next_fork.preference:
                return False
            bit_run = next_fork.sides[chosen_side]
        if bit_run.confidence.decided:
            return False
        self._split_run(bit_run, bit_index, choice_number)
        self._ids_by_number[choice_number] = choice
        return True

    def _split_run(self, bit_run: BitRun, bit_index: int, choice_number: int) -> None:
        """Split a run at `bit_index`: its own side keeps the confidence, the new side starts at 0."""
        kept_run = BitRun(
            bit_index + 1, bit_run.end, bit_run.choice, bit_run.confidence.copy(), bit_run.fork, bit_run.stale
        )
        new_run = BitRun(bit_index + 1, ID_BITS, choice_number, self._fresh_confidence())
        own_side = bit_of(bit_run.choice, bit_index)
        new_fork = Fork(
            own_side, bit_run.confidence.copy(), [kept_run, new_run] if own_side == 0 else [new_run, kept_run]
        )
        bit_run.end = bit_index
        bit_run.fork = new_fork

    @property
    def preference(self) -> bytes:
        """The choice preferred at every bit."""
        bit_run = self._root_run
        while bit_run.fork is not None:
            bit_run = bit_run.fork.sides[bit_run.fork.preference]
        return self._ids_by_number[bit_run.choice]

    @property
    def decided(self) -> bool:
        """True if every bit of the preference is decided."""
        bit_run = self._root_run
        while True:
            if bit_run.end > bit_run.start and not bit_run.confidence.decided:
                return False
            if bit_run.fork is None:
                return True
            if not bit_run.fork.confidence.decided:
                return False
            bit_run = bit_run.fork.sides[bit_run.fork.preference]

    @property
    def confidence(self) -> tuple[int, ...]:
        """For each condition, the polls in a row that met it, at the least certain bit of the preference."""
        bit_run = self._root_run
        counters = []
        while True:
            zero_counters = [0] * len(self.thresholds.conditions)
            if bit_run.end > bit_run.start:
                counters.append(zero_counters if bit_run.stale else bit_run.confidence.counters)
            if bit_run.fork is None:
                return tuple(min(condition_counters) for condition_counters in zip(*counters, strict=True))
            counters.append(zero_counters if bit_run.stale else bit_run.fork.confidence.counters)
            bit_run = bit_run.fork.sides[bit_run.fork.preference]

    def falter(self) -> None:
        """Mark that a poll did not reach these choices, so that their counters start at 0 again."""
        self._root_run.stale = True

    def record(self, votes: Mapping[bytes, int]) -> bool:
        """Apply one poll: votes by choice. Return True if it raised confidence in some bit."""
        counted_choices = {
            choice_number: votes[choice_id]
            for choice_number, choice_id in self._ids_by_number.items()
            if choice_id in votes
        }
        bit_run = self._root_run
        successful = False
        while True:
            _apply_resets(bit_run)
            counted_units = sum(counted_choices.values())
            if counted_units < self.thresholds.preference:
                bit_run.stale = True
                return successful
            successful = successful or counted_units >= self.thresholds.alpha_min
            bit_run.confidence.succeed(counted_units, self.thresholds)
            next_fork = bit_run.fork
            if next_fork is None:
                return successful
            chosen_side = self._record_fork(next_fork, bit_run.end, counted_choices)
            if chosen_side is None:
                return successful
            counted_choices = {
                choice_number: choice_weight
                for choice_number, choice_weight in counted_choices.items()
                if bit_of(choice_number, bit_run.end) == chosen_side
            }
            bit_run = next_fork.sides[chosen_side]

    def _record_fork(self, bit_fork: Fork, bit_index: int, counted_choices: Mapping[int, int]) -> int | None:
        """Apply the poll to one bit. Return the winning side, or None if the poll ends here."""
        one_weight = sum(
            choice_weight
            for choice_number, choice_weight in counted_choices.items()
            if bit_of(choice_number, bit_index)
        )
        side_weights = (sum(counted_choices.values()) - one_weight, one_weight)
        winning_side = 0 if side_weights[0] >= self.thresholds.preference else 1
        bit_fork.sides[1 - winning_side].stale = True
        if side_weights[winning_side] < self.thresholds.preference:
            bit_fork.confidence.reset()
            bit_fork.sides[winning_side].stale = True
            return None
        if winning_side != bit_fork.preference:
            # A decision never changes, however later polls vote.
            if bit_fork.confidence.decided:
                bit_fork.sides[winning_side].stale = True
                return None
            bit_fork.preference = winning_side
            bit_fork.confidence.reset()
        bit_fork.confidence.succeed(side_weights[winning_side], self.thresholds)
        return winning_side


def _apply_resets(bit_run: BitRun) -> None:
    """Apply the resets that earlier polls deferred."""
    if bit_run.stale:
        bit_run.stale = False
        bit_run.confidence.reset()
        if bit_run.fork is not None:
            bit_run.fork.confidence.reset()
            for fork_side in bit_run.fork.sides:
                fork_side.stale = True
