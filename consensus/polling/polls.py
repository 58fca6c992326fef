"""Open polls: who was asked, who answered, and when a poll has heard enough.

Always: at most `polls_max` polls are open; each validator votes once in a poll, only if it was
asked, and only over the connection on which it proved its key; a poll that ended takes no more answers.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from consensus.parameters import Parameters, Thresholds

RTT_WEIGHT = 8  # the average forgets one eighth of the past with each answer


@dataclass(slots=True)
class Poll:
    """One question. Votes are (tip, block at the asked height) by session key."""

    request: int
    started_ms: int
    deadline_ms: int
    weights: Mapping[bytes, int]
    awaited: set[bytes]
    votes: dict[bytes, tuple[bytes, bytes]] = field(default_factory=dict)
    is_new: bool = False  # answers came that nobody has looked at
    is_timed: bool = False
    has_ended: bool = False

    def missing(self) -> int:
        """Weight that is still waited for."""
        return sum(self.weights[voter] for voter in self.awaited)


class Polls:
    """The open polls of a node, and how reliably each validator answers."""

    def __init__(self, parameters: Parameters) -> None:
        """Nothing open."""
        self._parameters = parameters
        self._open: dict[int, Poll] = {}
        self._failures: dict[bytes, int] = {}
        self._next_request = 0
        self._next_start_ms = 0
        self._interval_ms = parameters.poll_interval_ms
        self._rtt_ms = 0

    def may_start(self, now_ms: int) -> bool:
        """Whether another poll may be opened now."""
        return len(self._open) < self._parameters.polls_max and now_ms >= self._next_start_ms

    def start(self, weights: Mapping[bytes, int], reachable: Mapping[bytes, bytes], now_ms: int) -> Poll:
        """Open a poll over these voters; those unreachable or long silent are not waited for."""
        # Slower links get longer, or their votes would never be in time.
        soft = min(max(self._parameters.poll_soft_ms, 2 * self._rtt_ms), self._parameters.poll_timeout_ms)
        limit = self._parameters.poll_failures_max
        # A silent validator would cost every poll its timeout.
        awaited = {voter for voter in weights if voter in reachable and self._failures.get(voter, 0) < limit}
        assert self._next_request not in self._open, "two open polls have one number"
        poll = Poll(self._next_request, now_ms, now_ms + soft, weights, awaited)
        self._open[poll.request] = poll
        self._next_request = (self._next_request + 1) % 2**32
        self._next_start_ms = now_ms + self._interval_ms
        return poll

    def answer(self, request: int, voter: bytes, vote: tuple[bytes, bytes], now_ms: int) -> bool:
        """Count an answer; False if it answers nothing that we asked this voter, or a second time."""
        poll = self._open.get(request)
        if poll is None or voter not in poll.weights or voter in poll.votes:
            return False
        assert not poll.has_ended, "a poll that ended took an answer"
        poll.votes[voter] = vote
        poll.is_new = True
        poll.awaited.discard(voter)
        self._failures[voter] = 0
        self._learn_rtt(poll, now_ms)
        return True

    def _learn_rtt(self, poll: Poll, now_ms: int) -> None:
        """One sample a poll: when two thirds of the weight had answered.

        Of every answer a sample, a third that answers just before the deadline moved the deadline away for ever.
        """
        answered = sum(poll.weights[voter] for voter in poll.votes)
        if not poll.is_timed and 3 * answered >= 2 * sum(poll.weights.values()):
            poll.is_timed = True
            self._rtt_ms += (now_ms - poll.started_ms - self._rtt_ms) // RTT_WEIGHT

    def weights(self, request: int) -> Mapping[bytes, int]:
        """Return the votes by session key in an open poll; empty once it has ended."""
        poll = self._open.get(request)
        return {} if poll is None else poll.weights

    def open(self) -> list[Poll]:
        """Polls that have not ended."""
        return list(self._open.values())

    def is_due(self, poll: Poll, now_ms: int) -> bool:
        """Whether all awaited voters answered a poll, or its next deadline has come."""
        return not poll.awaited or now_ms >= poll.deadline_ms

    def is_over(self, poll: Poll, support: int, thresholds: Thresholds, now_ms: int) -> bool:
        """Whether a due poll ends with `support` for its best block, or waits for the timeout."""
        timeout_ms = poll.started_ms + self._parameters.poll_timeout_ms
        # At the soft deadline a poll without a useful outcome gets the rest of the time: an answer may still make it.
        if not poll.awaited or now_ms >= timeout_ms or support >= thresholds.alpha_min:
            return True
        poll.deadline_ms = timeout_ms
        return False

    def close(self, poll: Poll, now_ms: int) -> None:
        """Forget a poll; those who did not answer in their time have failed once more."""
        assert not poll.has_ended, "a poll ended twice"
        poll.has_ended = True
        del self._open[poll.request]
        for voter in poll.weights:
            if voter not in poll.votes and (voter not in poll.awaited or now_ms >= poll.deadline_ms):
                self._failures[voter] = self._failures.get(voter, 0) + 1

    def learn(self, *, successful: bool) -> None:
        """Polls that bring nothing become rarer, down to the idle interval."""
        if successful:
            self._interval_ms = self._parameters.poll_interval_ms
        else:
            self._interval_ms = min(self._interval_ms * 5 // 4 + 1, self._parameters.poll_idle_interval_ms)

    def forgive(self, voter: bytes) -> None:
        """A validator connected: wait for its answers again."""
        self._failures.pop(voter, None)

    def abandon(self) -> None:
        """Forget all open polls: the voters changed."""
        for poll in self._open.values():
            poll.has_ended = True
        self._open.clear()

    def deadline_ms(self, *, wanted: bool) -> int | None:
        """When a poll is due next, or may be started if one is `wanted`."""
        times = [poll.deadline_ms for poll in self._open.values()]
        if wanted and len(self._open) < self._parameters.polls_max:
            times.append(self._next_start_ms)
        return min(times, default=None)
