"""The sets of epochs that this node's own blocks have not reached, each proven by a handoff from peers.

A joining node learns the current set and a lower bound of the chain's height long before it has executed the chain.

Invariant: a set is known only if more than two thirds of the set before it certified it. The node asks a few peers at a
time, each once, and checks one certificate a turn. Known sets decide nothing, only this node's own blocks do. If these
seat other validators than a handoff proved, the node stops.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from consensus.handoffs import HANDOFF, Handoff, InvalidHandoffError, follow
from consensus.sets import SetChangedError, SetTable
from consensus.validators import ValidatorSet
from node.errors import NodeError
from node.ledger.chain import Chain
from node.p2p.meter import PeerRates
from node.peers.messages import HANDOFFS, HANDOFFS_PER_ANSWER_MAX, GetHandoffs, PeerStatus
from node.peers.peers import Peers
from node.sync.checkpoint_watch import CheckpointWatch
from node.sync.waiting_blocks import Peer
from runtime.cryptography import signatures
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.codec import DecodeError

ANSWERS_PER_SECOND = 4.0
ANSWERS_BURST = 16
"""The rate of questions of one peer. An honest peer waits for its answer, so it stays below. More are penalised."""
ANSWER_BYTES_PER_SECOND = 128 * 1024
ANSWER_BYTES_BURST = 4 * 1024 * 1024
"""The rate of bytes to one peer: on a mainnet a question of five bytes makes this node send 0.86 MB. Beyond the rate an
answer has one handoff."""
STRANGERS_BYTES_PER_SECOND = 2 * 1024 * 1024
STRANGERS_BYTES_BURST = 8 * 1024 * 1024
"""The rate of bytes to all peers without a proven validator key: their names are free. Beyond it their answers are
empty."""
STRANGERS = b""
"""The name under which answers to all strangers are counted."""
ASK_MS = 250
MORE_MS = 1_000
"""The time without an answer until another peer is asked too. A good answer is three quarters of a megabyte, so the
node does not ask all peers at once."""
PATIENCE_MS = 5_000
"""The time for an answer; after it the peer counts as silent."""
ASKED_MAX = 4
"""Peers that are asked at a time. With one at a time, 13 silent peers kept a joining node from its sets for ever."""
OWED_MAX = 64
SETS_KEPT_MAX = 512
"""The most different sets ahead of this node's own chain, about 40 KB each. The rest is requested when its blocks come
closer."""
_LOG = logging.getLogger("node")


# The choice of the peer for the next question: earlier answers first, then the fewest silences, then by arrival.
# Invariant: a peer that was silent, or sent nothing or a wrong answer, rests for a while. Each further silence doubles
# the rest, up to a bound, and puts the peer behind all peers with fewer silences. Any number of silent peers therefore
# delays an honest one once each. The records are bounded.
REST_MS = 60_000
"""The rest of a peer without a right answer. It is no ban: an honest peer must not be banned because it was asked."""
REST_DOUBLINGS_MAX = 3
"""The most doublings for silences in a row: an honest peer whose line was down is asked again within eight minutes."""
REMEMBERED_MAX = 1_024


@dataclass(slots=True)
class _Record:
    """The results of one peer's questions."""

    rests_until_ms: int = 0
    silences: int = 0  # since its last right answer
    is_proven: bool = False


class QuestionTurns:
    """The records of all peers that were asked."""

    def __init__(self) -> None:
        self._records_by_peer: dict[Peer, _Record] = {}

    def __len__(self) -> int:
        return len(self._records_by_peer)

    def next(self, peers: Iterable[Peer], now_ms: int) -> Peer | None:
        """Return the peer whose turn it is; None if all of them rest."""
        awake_peers = [peer for peer in peers if self._record_of(peer).rests_until_ms <= now_ms]
        return min(awake_peers, key=self._place_of, default=None)

    def on_right(self, peer: Peer) -> None:
        """Record a useful answer."""
        self._keep_newest(peer, _Record(is_proven=True))

    def on_silence(self, peer: Peer, now_ms: int) -> None:
        """Record a missing answer."""
        silences = self._record_of(peer).silences + 1
        rest_ms = REST_MS << min(silences - 1, REST_DOUBLINGS_MAX)
        self._keep_newest(peer, _Record(now_ms + rest_ms, silences))

    def on_useless(self, peer: Peer, now_ms: int) -> None:
        """Record a peer that is disconnected, had no handoffs, or sent a wrong answer."""
        self._keep_newest(peer, _Record(now_ms + REST_MS, self._record_of(peer).silences))

    def _record_of(self, peer: Peer) -> _Record:
        return self._records_by_peer.get(peer) or _Record()

    def _place_of(self, peer: Peer) -> tuple[bool, int]:
        record = self._record_of(peer)
        return not record.is_proven, record.silences

    def _keep_newest(self, peer: Peer, record: _Record) -> None:
        self._records_by_peer.pop(peer, None)
        self._records_by_peer[peer] = record
        if len(self._records_by_peer) > REMEMBERED_MAX:  # peer ids are free, so new ones must not fill memory
            del self._records_by_peer[next(iter(self._records_by_peer))]


@dataclass(frozen=True, slots=True)
class _Asked:
    """An open request."""

    sent_request: GetHandoffs
    since_ms: int


class SetsAhead:
    """Requests for handoffs, answers to peers, proofs of sets, and the comparison with own blocks."""

    def __init__(self, chain: Chain, peers: Peers, now_ms: Callable[[], int], checkpoint: CheckpointWatch) -> None:
        self._chain = chain
        self._peers = peers
        self._checkpoint = checkpoint
        self._now_ms = now_ms
        self._own_epoch = self._epoch_of(chain.final.facts.height)
        own_set = self._own_set(self._own_epoch)
        assert own_set is not None, "the final state determines the set in office"
        self._set_table = SetTable(own_set)
        self._rates = PeerRates(ANSWERS_PER_SECOND, ANSWERS_BURST)
        self._sent_buckets = PeerRates(ANSWER_BYTES_PER_SECOND, ANSWER_BYTES_BURST)
        self._sent_to_strangers = PeerRates(STRANGERS_BYTES_PER_SECOND, STRANGERS_BYTES_BURST)
        self._asked_questions: dict[Peer, _Asked] = {}
        self._owed_answers: dict[Peer, int] = {}  # answers, late ones too
        self._question_turns = QuestionTurns()
        self._waiting_handoffs: deque[bytes] = deque()
        self._answering_peer: Peer = b""
        self._next_ask_ms = 0

    @property
    def newest(self) -> ValidatorSet:
        """The set of the latest known epoch."""
        return self._set_table.newest

    @property
    def proven_height(self) -> int:
        """The highest block known as final: the last one before the newest set's epoch; 0 for the first epoch."""
        return self._chain.parameters.boundary(self.newest.epoch - 1)

    @property
    def has_work(self) -> bool:
        """True if a handoff waits for its check."""
        return bool(self._waiting_handoffs)

    # --- answers to peers

    def on_request(self, request: GetHandoffs, peer: Peer) -> bytes | None:
        """Return the answer to a peer's request, empty if there are no handoffs; None if the peer breaks a limit."""
        if not 0 < request.count <= HANDOFFS_PER_ANSWER_MAX:
            self._peers.penalise(peer, "a request for more handoffs than an answer holds", self._now_ms())
            return None
        now_ms = self._now_ms()
        if not self._rates.may(peer, now_ms):
            self._peers.penalise(peer, "too many requests for handoffs", now_ms)
            return None
        handoffs: list[bytes] = []
        for epoch in range(request.from_epoch, request.from_epoch + request.count):
            handoff = self._chain.storage.handoff(epoch)
            if handoff is None or not self._may_send(len(handoff), peer, now_ms, is_first=not handoffs):
                break
            handoffs.append(handoff)
        return HANDOFFS.encode(tuple(handoffs))

    def _may_send(self, size_bytes: int, peer: Peer, now_ms: int, *, is_first: bool) -> bool:
        # The first handoff may exceed the peer's share: the peer would not ask this node for a minute after an empty
        # answer.
        if not self._sent_buckets.may(peer, now_ms, size_bytes) and not is_first:
            return False
        return not self._peers.is_stranger(peer) or self._sent_to_strangers.may(STRANGERS, now_ms, size_bytes)

    # --- questions to peers

    def ask(self, standings: Mapping[Peer, PeerStatus]) -> None:
        """Ask a peer that claims to be epochs ahead, if a question is due."""
        now_ms = self._now_ms()
        self._give_up(now_ms)
        is_busy = self._waiting_handoffs or len(self._asked_questions) >= ASKED_MAX or now_ms < self._next_ask_ms
        if is_busy or self._set_table.count() >= SETS_KEPT_MAX:
            return
        peers_ahead = (peer for peer, status in standings.items() if self._is_worth_asking(peer, status, now_ms))
        peer = self._question_turns.next(peers_ahead, now_ms)
        if peer is None:
            return
        request = GetHandoffs(self.newest.epoch, HANDOFFS_PER_ANSWER_MAX)
        if self._peers.request_handoffs(peer, request):
            self._asked_questions[peer] = _Asked(request, now_ms)
            self._owed_answers[peer] = min(self._owed_answers.get(peer, 0) + 1, OWED_MAX)
            self._next_ask_ms = now_ms + MORE_MS
        else:
            self._question_turns.on_useless(peer, now_ms)
            self._next_ask_ms = now_ms + ASK_MS

    def on_answer(self, payload: bytes, peer: Peer) -> None:
        """Take the answer to a request of this node: its handoffs wait for their checks, one a turn."""
        owed_answers = self._owed_answers.get(peer, 0)
        if not owed_answers:
            self._peers.penalise(peer, "handoffs without a request", self._now_ms())
            return
        self._owed_answers[peer] = owed_answers - 1
        asked = self._asked_questions.pop(peer, None)
        if asked is None:  # it was given up
            return
        self._next_ask_ms = min(self._next_ask_ms, asked.since_ms + ASK_MS)
        try:
            handoffs = HANDOFFS.decode(payload)
        except DecodeError as error:
            self._refuse(peer, f"malformed handoffs: {error}")
            return
        if not handoffs:  # its database is older than handoffs, or its claim was false
            self._question_turns.on_useless(peer, self._now_ms())
        # Another peer was faster; or this node's own blocks replaced a longer chain of sets with a shorter one.
        if self._waiting_handoffs or self.newest.epoch < asked.sent_request.from_epoch:
            return
        # Own blocks, or another peer's handoffs, may have passed some of these sets meanwhile.
        self._waiting_handoffs, self._answering_peer = (
            deque(handoffs[self.newest.epoch - asked.sent_request.from_epoch :]),
            peer,
        )

    def follow_next(self) -> Peer | None:
        """Check one waiting handoff, and return its sender; None if none waits."""
        if not self._waiting_handoffs:
            return None
        peer, handoff_bytes = self._answering_peer, self._waiting_handoffs.popleft()
        try:
            following = self._followed_set(HANDOFF.decode(handoff_bytes))
        except (DecodeError, InvalidHandoffError) as error:
            self._waiting_handoffs.clear()
            self._refuse(peer, f"an invalid handoff: {error}")
            return peer
        self._set_table.write(following)
        if not self._waiting_handoffs:
            self._question_turns.on_right(peer)
            _LOG.info("handoffs prove the sets up to epoch %d: #%d is final", following.epoch, self.proven_height)
        return peer

    def forget_peer(self, peer: Peer) -> None:
        """Forget a peer whose connection ended."""
        self._owed_answers.pop(peer, None)
        self._asked_questions.pop(peer, None)

    # --- comparison with this node's own blocks

    def compare(self) -> None:
        """Check that own final blocks seat the validators of the handoffs. Raise `NodeError` if they differ."""
        final_epoch = self._epoch_of(self._chain.final.facts.height)
        if final_epoch == self._own_epoch:
            return
        own_set = self._own_set(final_epoch)
        if own_set is None:
            return
        self._own_epoch = final_epoch
        if final_epoch > self.newest.epoch:
            self._begin_from(own_set)
            return
        try:
            self._set_table.write(own_set)
        except SetChangedError as error:
            if not self._is_below_checkpoint():
                raise NodeError(_conflict(final_epoch), code="two_histories") from error
            # Anybody may hold the keys of former validators. The checkpoint shows which history is the false
            # one.
            _LOG.warning("handoffs of peers contradict this node's blocks in epoch %d", final_epoch)
            self._begin_from(own_set)
        self._set_table.forget_before(final_epoch)

    # --- inside

    def _followed_set(self, handoff: Handoff) -> ValidatorSet:
        """Return the set after the newest, proven by a handoff. Raise `InvalidHandoffError` if the proof fails."""
        chain = self._chain
        boundary_height, checkpoint = chain.parameters.boundary(self.newest.epoch), chain.rules.checkpoint
        if boundary_height > chain.highest_possible(self._now_ms()):
            raise InvalidHandoffError("of a future block")
        following = follow(self.newest, handoff, chain.parameters, chain.genesis, signatures.verify_ed25519)
        if (
            checkpoint is not None
            and checkpoint.height == boundary_height
            and blake2_256(handoff.header) != checkpoint.id
        ):
            source = f"more than two thirds of the validators of epoch {self.newest.epoch}"
            self._checkpoint.on_other(blake2_256(handoff.header), source, self._now_ms())
            raise InvalidHandoffError("of another block than the checkpoint")
        return following

    def _begin_from(self, own_set: ValidatorSet) -> None:
        self._set_table = SetTable(own_set)
        self._waiting_handoffs.clear()  # they follow a set that is replaced

    def _own_set(self, epoch: int) -> ValidatorSet | None:
        """Return the set of an epoch by this node's own final blocks."""
        own_epoch = self._chain.epochs(epoch)
        return None if own_epoch is None else own_epoch.validators

    def _is_below_checkpoint(self) -> bool:
        checkpoint = self._chain.rules.checkpoint
        return checkpoint is not None and self._chain.final.facts.height < checkpoint.height

    def _epoch_of(self, final_height: int) -> int:
        """Return the epoch that is open when a block is final."""
        return self._chain.parameters.epoch_of(final_height + 1)

    def _is_worth_asking(self, peer: Peer, status: PeerStatus, now_ms: int) -> bool:
        """Return whether a peer claims to be past the newest set's epoch: no proof, but worth a question."""
        is_possible = status.final_height <= self._chain.highest_possible(now_ms)
        is_ahead = self._epoch_of(status.final_height) > self.newest.epoch
        return is_possible and is_ahead and peer not in self._asked_questions

    def _give_up(self, now_ms: int) -> None:
        """Give up peers that ran out of time."""
        late_peers = [peer for peer, asked in self._asked_questions.items() if now_ms >= asked.since_ms + PATIENCE_MS]
        for peer in late_peers:
            del self._asked_questions[peer]
            self._question_turns.on_silence(peer, now_ms)

    def _refuse(self, peer: Peer, refusal_reason: str) -> None:
        # A peer that owes another answer may send a late, right answer to an earlier question: it only has to rest. A
        # peer that leaves a question open thus gains one wrong answer a minute, no more than the penalties allow.
        if not self._owed_answers.get(peer, 0):
            self._peers.penalise(peer, refusal_reason, self._now_ms())
        self._question_turns.on_useless(peer, self._now_ms())


def _conflict(epoch: int) -> str:
    return (
        f"two histories: in epoch {epoch} this node's final blocks seat other validators than a certified handoff. "
        "Either more than a third of the stake has signed both, or this node followed a false history. It stops, "
        "and nothing is lost. Keep the log and the database, report it, and ask people whom you trust for a recent "
        "final block. Then start with --checkpoint HEIGHT:HASH"
    )
