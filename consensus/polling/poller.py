"""Polling: when to ask which validators, and the effect of their answers on the chain.

Invariant: polls run only while some block is undecided. A vote for an unknown block counts for the block that its voter
prefers at the requested height, or not at all.
"""

from collections.abc import Iterable

from consensus.events import SendTo
from consensus.neighbours import Neighbours
from consensus.parameters import Parameters
from consensus.polling import sampling
from consensus.polling.polls import Poll, Polls
from consensus.polling.topological import Topological
from consensus.validators import ValidatorSet
from consensus.wire import PullQuery


class Poller:
    """The polls over one chain."""

    def __init__(self, parameters: Parameters, chain: Topological, randbelow: sampling.RandBelow) -> None:
        """Start without polls."""
        self._parameters = parameters
        self._chain = chain
        self._randbelow = randbelow
        self.polls = Polls(parameters)

    def start(self, validators: ValidatorSet, neighbours: Neighbours, now_ms: int) -> list[SendTo]:
        """Open a poll if one is due, and return its queries. This node's own vote counts at once."""
        session, voters = neighbours.session, neighbours.voters
        chain = self._chain
        if not chain.is_processing or not self.polls.may_start(now_ms):
            return []
        weights = sampling.draw(self._parameters, validators, self._randbelow)
        poll = self.polls.start(weights, voters, now_ms)
        if session is not None and session in weights:
            self.polls.answer(poll.request, session, (chain.preference, chain.preference), now_ms)
        query = PullQuery(poll.request, chain.preference, chain.tree[chain.root].height + 1)
        return [SendTo(voters[voter], query) for voter in weights if voter in voters]

    def answer(self, request: int, keys: Iterable[bytes], vote: tuple[bytes, bytes], now_ms: int) -> bool:
        """Count a peer's chits (tip, block at the requested height) for each of its keys.

        Return False if no open poll asked for them.
        """
        return any([self.polls.answer(request, session, vote, now_ms) for session in keys])  # noqa: C419 - each seat votes

    def finish(self, now_ms: int) -> bool:
        """Close the polls with enough answers and apply them to the chain. Return True if there were any."""
        chain = self._chain
        finished = False
        for poll in self.polls.open():
            is_due = self.polls.is_due(poll, now_ms)
            if not is_due and not self._may_be_settled(poll):
                continue
            resolved_votes = self._resolved_votes(poll)
            if is_due:
                is_over = self.polls.is_over(poll, chain.support(resolved_votes), chain.thresholds, now_ms)
            else:
                # Votes for unknown blocks may count for any block once those arrive: they are as open as missing ones.
                unknown_weight = sum(poll.weights[voter] for voter in poll.votes) - sum(
                    weight for _, weight in resolved_votes
                )
                is_over = chain.is_settled(resolved_votes, poll.missing() + unknown_weight)
            if is_over:
                self.polls.close(poll, now_ms)
                self.polls.learn(successful=chain.record(resolved_votes))
                finished = True
        return finished

    def deadline_ms(self) -> int | None:
        """Return the time of the next action in ms, None if there is none."""
        return self.polls.deadline_ms(wanted=self._chain.is_processing)

    def _may_be_settled(self, poll: Poll) -> bool:
        """Return True if a new answer came and the missing weight is below the preference threshold.

        A cheap test before `is_settled`: with more weight missing, a poll cannot be settled.
        """
        if not poll.is_new:
            return False
        poll.is_new = False
        return poll.missing() < self._chain.thresholds.preference

    def _resolved_votes(self, poll: Poll) -> list[tuple[bytes, int]]:
        resolved_votes = []
        for voter, voted_blocks in poll.votes.items():
            # A vote for an unknown tip counts for the known block below it.
            known = next((block_id for block_id in voted_blocks if block_id in self._chain.tree), None)
            if known is not None:
                resolved_votes.append((known, poll.weights[voter]))
        return resolved_votes
