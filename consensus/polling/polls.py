"""Open polls: the validators asked, their answers, and the end of each poll.

Invariant: at most `polls_max` polls are open. Each validator votes once in a poll, only if it was asked, and only over
the connection on which it proved its key. A poll that ended accepts no more answers.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from consensus.parameters import Parameters, Thresholds

RTT_WEIGHT = 8  # each sample replaces one eighth of the average


@dataclass(slots=True)
class Poll:
    """One poll. Votes are (tip, block at the requested height) by session key."""

    request: int
    started_ms: int
    deadline_ms: int
    weights: Mapping[bytes, int]
    awaited: set[bytes]
    votes: dict[bytes, tuple[bytes, bytes]] = field(default_factory=dict)
    is_new: bool = False  # answers came since the last look
    is_timed: bool = False
    has_ended: bool = False

    def missing(self) -> int:
        """Return the weight of the awaited voters."""
        return sum(self.weights[voter] for voter in self.awaited)


class Polls:
    """The open polls of a node, and how reliably each validator answers."""

    def __init__(self, parameters: Parameters) -> None:
        """Start without polls."""
        self._parameters = parameters
        self._open_polls: dict[int, Poll] = {}
        self._failures: dict[bytes, int] = {}
        self._next_request = 0
        self._next_start_ms = 0
        self._interval_ms = parameters.poll_interval_ms
        self._rtt_ms = 0

    def may_start(self, now_ms: int) -> bool:
        """Return True if another poll may be opened."""
        return len(self._open_polls) < self._parameters.polls_max and now_ms >= self._next_start_ms

    def start(self, weights: Mapping[bytes, int], reachable: Mapping[bytes, bytes], now_ms: int) -> Poll:
        """Open a poll over these voters. It waits only for reachable voters that answered lately."""
        # Slower links get more time, or their votes would always be late.
        soft_ms = min(max(self._parameters.poll_soft_ms, 2 * self._rtt_ms), self._parameters.poll_timeout_ms)
        failures_max = self._parameters.poll_failures_max
        # Waiting for a silent validator would cost every poll its timeout.
        awaited_voters = {
            voter for voter in weights if voter in reachable and self._failures.get(voter, 0) < failures_max
        }
        assert self._next_request not in self._open_polls, "open polls have distinct numbers"
        poll = Poll(self._next_request, now_ms, now_ms + soft_ms, weights, awaited_voters)
        self._open_polls[poll.request] = poll
        self._next_request = (self._next_request + 1) % 2**32
        self._next_start_ms = now_ms + self._interval_ms
        return poll

    def answer(self, request: int, voter: bytes, vote: tuple[bytes, bytes], now_ms: int) -> bool:
        """Count an answer. Return False if this poll did not ask this voter, or the voter answered already."""
        poll = self._open_polls.get(request)
        if poll is None or voter not in poll.weights or voter in poll.votes:
            return False
        assert not poll.has_ended, "an ended poll takes no answers"
        poll.votes[voter] = vote
        poll.is_new = True
        poll.awaited.discard(voter)
        self._failures[voter] = 0
        self._learn_rtt(poll, now_ms)
        return True

    def _learn_rtt(self, poll: Poll, now_ms: int) -> None:
        """Take one sample per poll: the time until two thirds of the weight had answered.

        With one sample per answer, a third of the weight could move the deadline away for ever by answering just before
        it.
        """
        answered = sum(poll.weights[voter] for voter in poll.votes)
        if not poll.is_timed and 3 * answered >= 2 * sum(poll.weights.values()):
            poll.is_timed = True
            self._rtt_ms += (now_ms - poll.started_ms - self._rtt_ms) // RTT_WEIGHT

    def weights(self, request_number: int) -> Mapping[bytes, int]:
        """Return the votes by session key in an open poll, empty once it has ended."""
        poll = self._open_polls.get(request_number)
        return {} if poll is None else poll.weights

    def open(self) -> list[Poll]:
        """Return the polls that have not ended."""
        return list(self._open_polls.values())

    def is_due(self, poll: Poll, now_ms: int) -> bool:
        """Return True if all awaited voters answered, or the poll's next deadline has passed."""
        return not poll.awaited or now_ms >= poll.deadline_ms

    def is_over(self, poll: Poll, support_weight: int, thresholds: Thresholds, now_ms: int) -> bool:
        """Return True if a due poll ends, False if it waits for the timeout. `support_weight` is its best block's."""
        timeout_ms = poll.started_ms + self._parameters.poll_timeout_ms
        # A poll without a useful outcome waits past the soft deadline: an answer may still bring one.
        if not poll.awaited or now_ms >= timeout_ms or support_weight >= thresholds.alpha_min:
            return True
        poll.deadline_ms = timeout_ms
        return False

    def close(self, poll: Poll, now_ms: int) -> None:
        """Forget a poll. Count a failure for each voter without a timely answer."""
        assert not poll.has_ended, "a poll ends once"
        poll.has_ended = True
        del self._open_polls[poll.request]
        for voter in poll.weights:
            if voter not in poll.votes and (voter not in poll.awaited or now_ms >= poll.deadline_ms):
                self._failures[voter] = self._failures.get(voter, 0) + 1

    def learn(self, *, successful: bool) -> None:
        """Set the interval to the next poll: polls without success become rarer, down to the idle interval."""
        if successful:
            self._interval_ms = self._parameters.poll_interval_ms
        else:
            self._interval_ms = min(self._interval_ms * 5 // 4 + 1, self._parameters.poll_idle_interval_ms)

    def forgive(self, voter: bytes) -> None:
        """Wait for a validator's answers again, because it has just connected."""
        self._failures.pop(voter, None)

    def abandon(self) -> None:
        """Forget all open polls, because the voters changed."""
        for poll in self._open_polls.values():
            poll.has_ended = True
        self._open_polls.clear()

    def deadline_ms(self, *, wanted: bool) -> int | None:
        """Return when a poll is due next, or when the next may start if one is `wanted`. None if neither applies."""
        deadlines_ms = [poll.deadline_ms for poll in self._open_polls.values()]
        if wanted and len(self._open_polls) < self._parameters.polls_max:
            deadlines_ms.append(self._next_start_ms)
        return min(deadlines_ms, default=None)
