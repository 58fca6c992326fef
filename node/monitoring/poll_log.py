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

    def on_query(self, peer: bytes, poll_query: PullQuery, now_ms: int, electorate: Electorate) -> None:
        """Record a question of this node to a peer in an open poll."""
        logged_poll = self._polls_by_request.get(poll_query.request)
        if logged_poll is None:
            # While the poll is open: consensus forgets its set and its weights with its end.
            logged_poll = self._polls_by_request[poll_query.request] = _Poll(
                poll_query.tip, poll_query.height, now_ms, *electorate(poll_query.request)
            )
            if len(self._polls_by_request) > POLLS_KEPT:
                self._polls_by_request.popitem(last=False)
        logged_poll.answers.setdefault(peer, None)

    def on_chits(self, peer: bytes, chits: Chits, now_ms: int) -> None:
        """Record a peer's answer."""
        logged_poll = self._polls_by_request.get(chits.request)
        # The first answer only, as in the poll itself.
        if logged_poll is not None and peer in logged_poll.answers and logged_poll.answers[peer] is None:
            logged_poll.answers[peer] = (chits.tip, chits.at_height, now_ms - logged_poll.started_ms)

    def on_accepted(self, height: int, now_ms: int, confidence: ConditionsMet) -> None:
        """Record that a block at this height is accepted: the polls about it sufficed."""
        for logged_poll in self._polls_by_request.values():
            # A block is accepted with its ancestors, so earlier polls about these sufficed too.
            if logged_poll.height <= height and logged_poll.accepted_ms is None:
                logged_poll.accepted_ms = now_ms - logged_poll.started_ms
                logged_poll.confidence = confidence

    def show(self) -> list[Value]:
        """Return the polls, newest first, with the stashes behind the peers that were asked."""
        return [
            _shown_poll(request_number, logged_poll, self._stashes_of(logged_poll.members))
            for request_number, logged_poll in reversed(self._polls_by_request.items())
        ]


def _drawn_members(logged_poll: _Poll) -> list[Value]:
    """Return the voters of a poll, the asker among them if it drew itself: stake in grains, and votes."""
    return [
        {"validator": poll_member.stash, "stake": poll_member.weight, "votes": logged_poll.votes[poll_member.session]}
        for poll_member in logged_poll.members.members
        if poll_member.session in logged_poll.votes
    ]


def _shown_poll(request_number: int, logged_poll: _Poll, stashes: dict[bytes, bytes]) -> Value:
    shown_answers: list[Value] = []
    for peer, peer_answer in logged_poll.answers.items():
        shown_fields: dict[str, Value] = {"peer": peer.decode(), "validator": stashes.get(peer)}
        if peer_answer is not None:
            shown_fields |= {"prefers": peer_answer[0], "at_height": peer_answer[1], "after_ms": peer_answer[2]}
        shown_answers.append(shown_fields)
    agreeing = sum(
        peer_answer is not None and logged_poll.tip in peer_answer[:2] for peer_answer in logged_poll.answers.values()
    )
    return {
        "request": request_number,
        "block": logged_poll.tip,
        "height": logged_poll.height,
        "asked": len(logged_poll.answers),
        "answered": sum(peer_answer is not None for peer_answer in logged_poll.answers.values()),
        "agreed": agreeing,
        "validators": len(logged_poll.members.members),
        "stake": logged_poll.members.total,
        "votes": sum(logged_poll.votes.values()),
        "drawn": _drawn_members(logged_poll),
        "accepted_after_ms": logged_poll.accepted_ms,
        "confidence": [
            {"alpha": condition.alpha, "beta": condition.beta, "polls": success_count}
            for condition, success_count in logged_poll.confidence
        ],
        "answers": shown_answers,
    }
