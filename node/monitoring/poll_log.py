"""The last polls, for people: the asked validators and the block, each answer, the time of acceptance.

Invariant: it only records messages. Consensus does not depend on it, and it keeps `POLLS_KEPT` polls.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from consensus.parameters import Condition
from consensus.validators import ValidatorSet
from consensus.wire import Chits, PullQuery
from node.feed.messages import Value

POLLS_KEPT = 64

ConditionsMet = tuple[tuple[Condition, int], ...]
"""Each condition of acceptance (`beta` polls in a row with `alpha` of the weight), and the polls that met it."""

Electorate = Callable[[int], tuple[ValidatorSet, Mapping[bytes, int]]]
"""Return the validator set that an open poll samples, and each sampled validator's vote weight by session key."""


@dataclass(slots=True)
class _Poll:
    """One poll of this node."""

    tip: bytes
    height: int
    started_ms: int
    members: ValidatorSet
    votes: Mapping[bytes, int]
    answers: dict[bytes, tuple[bytes, bytes, int] | None] = field(default_factory=dict)
    accepted_ms: int | None = None
    confidence: ConditionsMet = ()


class PollLog:
    """The recent polls and their answers."""

    def __init__(self, stashes_of: Callable[[ValidatorSet], dict[bytes, bytes]]) -> None:
        """`stashes_of` maps the current peers to validators of a set."""
        self._stashes_of = stashes_of
        self._polls_by_request: OrderedDict[int, _Poll] = OrderedDict()

    def on_query(self, peer: bytes, query: PullQuery, now_ms: int, electorate: Electorate) -> None:
        """Record a question of this node to a peer in an open poll."""
        poll = self._polls_by_request.get(query.request)
        if poll is None:
            # While the poll is open: consensus forgets its set and its weights with its end.
            poll = self._polls_by_request[query.request] = _Poll(
                query.tip, query.height, now_ms, *electorate(query.request)
            )
            if len(self._polls_by_request) > POLLS_KEPT:
                self._polls_by_request.popitem(last=False)
        poll.answers.setdefault(peer, None)

    def on_chits(self, peer: bytes, chits: Chits, now_ms: int) -> None:
        """Record a peer's answer."""
        poll = self._polls_by_request.get(chits.request)
        # The first answer only, as in the poll itself.
        if poll is not None and peer in poll.answers and poll.answers[peer] is None:
            poll.answers[peer] = (chits.tip, chits.at_height, now_ms - poll.started_ms)

    def on_accepted(self, height: int, now_ms: int, confidence: ConditionsMet) -> None:
        """Record that a block at this height is accepted: the polls about it sufficed."""
        for poll in self._polls_by_request.values():
            # A block is accepted with its ancestors, so earlier polls about these sufficed too.
            if poll.height <= height and poll.accepted_ms is None:
                poll.accepted_ms = now_ms - poll.started_ms
                poll.confidence = confidence

    def show(self) -> list[Value]:
        """Return the polls, newest first, with the stashes behind the peers that were asked."""
        return [
            _shown_poll(request_number, poll, self._stashes_of(poll.members))
            for request_number, poll in reversed(self._polls_by_request.items())
        ]


def _drawn_members(poll: _Poll) -> list[Value]:
    """Return the voters of a poll, the asker among them if it drew itself: stake in grains, and votes."""
    return [
        {"validator": member.stash, "stake": member.weight, "votes": poll.votes[member.session]}
        for member in poll.members.members
        if member.session in poll.votes
    ]


def _shown_poll(request_number: int, poll: _Poll, stashes: dict[bytes, bytes]) -> Value:
    answers: list[Value] = []
    for peer, answer in poll.answers.items():
        fields: dict[str, Value] = {"peer": peer.decode(), "validator": stashes.get(peer)}
        if answer is not None:
            fields |= {"prefers": answer[0], "at_height": answer[1], "after_ms": answer[2]}
        answers.append(fields)
    agreeing = sum(answer is not None and poll.tip in answer[:2] for answer in poll.answers.values())
    return {
        "request": request_number,
        "block": poll.tip,
        "height": poll.height,
        "asked": len(poll.answers),
        "answered": sum(answer is not None for answer in poll.answers.values()),
        "agreed": agreeing,
        "validators": len(poll.members.members),
        "stake": poll.members.total,
        "votes": sum(poll.votes.values()),
        "drawn": _drawn_members(poll),
        "accepted_after_ms": poll.accepted_ms,
        "confidence": [
            {"alpha": condition.alpha, "beta": condition.beta, "polls": count} for condition, count in poll.confidence
        ],
        "answers": answers,
    }
