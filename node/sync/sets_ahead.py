"""The sets of epochs that this node's own blocks have not reached, as handoffs of peers prove them one after the other.

A node that joins learns so who sits now, and how far the chain is at least, long before it has executed it.

Invariant: a set is known only if more than two thirds of the one before it certified it; a few peers
are asked at a time, each once, and one certificate is checked at a turn; what is known decides nothing: only this
node's own blocks do, and where they seat others than a handoff has proved, the node stops.
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
"""Questions of one peer: an honest peer asks as often, since it waits for its answer. More are penalised."""
ANSWER_BYTES_PER_SECOND = 128 * 1024
ANSWER_BYTES_BURST = 4 * 1024 * 1024
"""To one peer: a question of five bytes makes us send 0.86 MB on a mainnet. Beyond it an answer has one handoff."""
STRANGERS_BYTES_PER_SECOND = 2 * 1024 * 1024
STRANGERS_BYTES_BURST = 8 * 1024 * 1024
"""To all peers together that proved no validator's key, whose names are free. Beyond it their answers are empty."""
STRANGERS = b""
"""The name under which the answers to all strangers are counted."""
ASK_MS = 250
MORE_MS = 1_000
"""Without an answer, until another peer is asked beside those that were: a good answer is three quarters of a megabyte,
so all are not asked for the same at once."""
PATIENCE_MS = 5_000
"""How long an answer may take; then its peer counts as silent."""
ASKED_MAX = 4
"""Peers that are asked at a time: one after the other, 13 that never answer kept a joiner from its sets for ever."""
OWED_MAX = 64
SETS_KEPT_MAX = 512
"""Different ones, ahead of this node's own chain: some 40 KB each. More are asked for when its blocks come closer."""
_LOG = logging.getLogger("node")


# Whom a question goes to next: who answered before, then who was silent least often, in the order of arrival.
#
# Always: who was silent, had nothing or sent something wrong is left alone for a while; each silence in a row doubles
# that, up to a bound, and puts it behind everybody who was silent less often: however many peers say nothing, each of
# them holds up an honest one once. What is remembered is bounded.
REST_MS = 60_000
"""For a peer that did not answer, had none, or sent a wrong one: an honest one must not be banned for being asked."""
REST_DOUBLINGS_MAX = 3
"""Of silences in a row: an honest peer whose line was down is asked again within eight minutes."""
REMEMBERED_MAX = 1_024


@dataclass(slots=True)
class _Record:
    """What one peer did with the questions that it had."""

    rests_until_ms: int = 0
    silences: int = 0  # since it last answered rightly
    is_proven: bool = False


class QuestionTurns:
    """Of all peers that were asked."""

    def __init__(self) -> None:
        self._records: dict[Peer, _Record] = {}

    def __len__(self) -> int:
        return len(self._records)

    def next(self, peers: Iterable[Peer], now_ms: int) -> Peer | None:
        """Whose turn it is of those that could be asked; None if all of them rest."""
        awake = [peer for peer in peers if self._of(peer).rests_until_ms <= now_ms]
        return min(awake, key=self._place, default=None)

    def on_right(self, peer: Peer) -> None:
        """What it answered was of use."""
        self._renew(peer, _Record(is_proven=True))

    def on_silence(self, peer: Peer, now_ms: int) -> None:
        """It did not answer in time."""
        silences = self._of(peer).silences + 1
        rest_ms = REST_MS << min(silences - 1, REST_DOUBLINGS_MAX)
        self._renew(peer, _Record(now_ms + rest_ms, silences))

    def on_useless(self, peer: Peer, now_ms: int) -> None:
        """It is gone, had nothing, or sent something wrong."""
        self._renew(peer, _Record(now_ms + REST_MS, self._of(peer).silences))

    def _of(self, peer: Peer) -> _Record:
        return self._records.get(peer) or _Record()

    def _place(self, peer: Peer) -> tuple[bool, int]:
        record = self._of(peer)
        return not record.is_proven, record.silences

    def _renew(self, peer: Peer, record: _Record) -> None:
        self._records.pop(peer, None)
        self._records[peer] = record
        if len(self._records) > REMEMBERED_MAX:  # peer ids cost nothing: new ones fill no memory
            del self._records[next(iter(self._records))]


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request that is out."""

    request: GetHandoffs
    since_ms: int


class SetsAhead:
    """Asks, answers, follows, compares."""

    def __init__(self, chain: Chain, peers: Peers, now_ms: Callable[[], int], checkpoint: CheckpointWatch) -> None:
        self._chain = chain
        self._peers = peers
        self._checkpoint = checkpoint
        self._now_ms = now_ms
        self._own_epoch = self._epoch_of(chain.final.facts.height)
        own = self._own_set(self._own_epoch)
        assert own is not None, "the set in office is determined by the final state"
        self._table = SetTable(own)
        self._rates = PeerRates(ANSWERS_PER_SECOND, ANSWERS_BURST)
        self._sent = PeerRates(ANSWER_BYTES_PER_SECOND, ANSWER_BYTES_BURST)
        self._sent_to_strangers = PeerRates(STRANGERS_BYTES_PER_SECOND, STRANGERS_BYTES_BURST)
        self._asked: dict[Peer, _Asked] = {}
        self._owed: dict[Peer, int] = {}  # answers, late ones too
        self._turns = QuestionTurns()
        self._waiting: deque[bytes] = deque()
        self._from: Peer = b""
        self._next_ask_ms = 0

    @property
    def newest(self) -> ValidatorSet:
        """The set of the latest epoch that is known."""
        return self._table.newest

    @property
    def proven_height(self) -> int:
        """The highest block that is known to be final: the last one of the epoch before the newest; 0 of the first."""
        return self._chain.parameters.boundary(self.newest.epoch - 1)

    @property
    def has_work(self) -> bool:
        """Whether a handoff waits to be followed."""
        return bool(self._waiting)

    # --- for peers

    def on_request(self, request: GetHandoffs, peer: Peer) -> bytes | None:
        """The answer to a peer's request, empty where nothing is here; None when it asks too often, or for too many."""
        if not 0 < request.count <= HANDOFFS_PER_ANSWER_MAX:
            self._peers.penalise(peer, "asked for more handoffs than an answer holds", self._now_ms())
            return None
        now_ms = self._now_ms()
        if not self._rates.may(peer, now_ms):
            self._peers.penalise(peer, "asked for handoffs too often", now_ms)
            return None
        found: list[bytes] = []
        for epoch in range(request.from_epoch, request.from_epoch + request.count):
            handoff = self._chain.storage.handoff(epoch)
            if handoff is None or not self._may_send(len(handoff), peer, now_ms, is_first=not found):
                break
            found.append(handoff)
        return HANDOFFS.encode(tuple(found))

    def _may_send(self, size: int, peer: Peer, now_ms: int, *, is_first: bool) -> bool:
        # The first one is sent beyond the peer's own share: a peer without an answer is asked nothing for a minute.
        if not self._sent.may(peer, now_ms, size) and not is_first:
            return False
        return not self._peers.is_stranger(peer) or self._sent_to_strangers.may(STRANGERS, now_ms, size)

    # --- of peers

    def ask(self, standings: Mapping[Peer, PeerStatus]) -> None:
        """Ask a peer that says it is epochs ahead, if it is time to."""
        now_ms = self._now_ms()
        self._give_up(now_ms)
        is_busy = self._waiting or len(self._asked) >= ASKED_MAX or now_ms < self._next_ask_ms
        if is_busy or self._table.count() >= SETS_KEPT_MAX:
            return
        ahead = (peer for peer, status in standings.items() if self._is_worth_asking(peer, status, now_ms))
        peer = self._turns.next(ahead, now_ms)
        if peer is None:
            return
        request = GetHandoffs(self.newest.epoch, HANDOFFS_PER_ANSWER_MAX)
        if self._peers.request_handoffs(peer, request):
            self._asked[peer] = _Asked(request, now_ms)
            self._owed[peer] = min(self._owed.get(peer, 0) + 1, OWED_MAX)
            self._next_ask_ms = now_ms + MORE_MS
        else:
            self._turns.on_useless(peer, now_ms)
            self._next_ask_ms = now_ms + ASK_MS

    def on_answer(self, payload: bytes, peer: Peer) -> None:
        """The answer to a request of ours: what is in it waits to be followed, one at a turn."""
        owed = self._owed.get(peer, 0)
        if not owed:
            self._peers.penalise(peer, "handoffs that were not asked for", self._now_ms())
            return
        self._owed[peer] = owed - 1
        asked = self._asked.pop(peer, None)
        if asked is None:  # it was given up
            return
        self._next_ask_ms = min(self._next_ask_ms, asked.since_ms + ASK_MS)
        try:
            found = HANDOFFS.decode(payload)
        except DecodeError as error:
            self._refuse(peer, f"malformed handoffs: {error}")
            return
        if not found:  # of a database that is older than handoffs, or a claim that was none
            self._turns.on_useless(peer, self._now_ms())
        # Another peer was quicker; or this node's own blocks have led it to fewer sets than it had been told of.
        if self._waiting or self.newest.epoch < asked.request.from_epoch:
            return
        # This node's own blocks, or handoffs of another peer, may have come past some of them since.
        self._waiting, self._from = deque(found[self.newest.epoch - asked.request.from_epoch :]), peer

    def follow_next(self) -> Peer | None:
        """Check one handoff that waits -> whose it was; None if none waits."""
        if not self._waiting:
            return None
        peer, data = self._from, self._waiting.popleft()
        try:
            following = self._followed(HANDOFF.decode(data))
        except (DecodeError, InvalidHandoffError) as error:
            self._waiting.clear()
            self._refuse(peer, f"a wrong handoff: {error}")
            return peer
        self._table.write(following)
        if not self._waiting:
            self._turns.on_right(peer)
            _LOG.info("handoffs prove the sets up to epoch %d: #%d is final", following.epoch, self.proven_height)
        return peer

    def forget_peer(self, peer: Peer) -> None:
        """A connection ended."""
        self._owed.pop(peer, None)
        self._asked.pop(peer, None)

    # --- beside this node's own blocks

    def compare(self) -> None:
        """See that this node's own final blocks seat whom the handoffs said. Raise `NodeError`."""
        epoch = self._epoch_of(self._chain.final.facts.height)
        if epoch == self._own_epoch:
            return
        own = self._own_set(epoch)
        if own is None:
            return
        self._own_epoch = epoch
        if epoch > self.newest.epoch:
            self._begin_from(own)
            return
        try:
            self._table.write(own)
        except SetChangedError as error:
            if not self._is_below_checkpoint():
                raise NodeError(_conflict(epoch)) from error
            # Of sets whose stake is out anybody may have the keys: the checkpoint says which of the two was the lie.
            _LOG.warning("handoffs of peers led to another history than this node's blocks in epoch %d", epoch)
            self._begin_from(own)
        self._table.forget_before(epoch)

    # --- inside

    def _followed(self, handoff: Handoff) -> ValidatorSet:
        """Return the set after the newest, as a handoff proves it. Raise `InvalidHandoffError`."""
        chain = self._chain
        height, checkpoint = chain.parameters.boundary(self.newest.epoch), chain.rules.checkpoint
        if height > chain.highest_possible(self._now_ms()):
            raise InvalidHandoffError("of a block whose time has not come")
        following = follow(self.newest, handoff, chain.parameters, chain.genesis, signatures.verify_ed25519)
        if checkpoint is not None and checkpoint.height == height and blake2_256(handoff.header) != checkpoint.id:
            source = f"more than two thirds of the validators of epoch {self.newest.epoch}"
            self._checkpoint.on_other(blake2_256(handoff.header), source, self._now_ms())
            raise InvalidHandoffError("of another block than the checkpoint")
        return following

    def _begin_from(self, own: ValidatorSet) -> None:
        self._table = SetTable(own)
        self._waiting.clear()  # they follow a set that is past

    def _own_set(self, number: int) -> ValidatorSet | None:
        """Return the set of an epoch, as this node's own final blocks determine it."""
        epoch = self._chain.epochs(number)
        return None if epoch is None else epoch.validators

    def _is_below_checkpoint(self) -> bool:
        checkpoint = self._chain.rules.checkpoint
        return checkpoint is not None and self._chain.final.facts.height < checkpoint.height

    def _epoch_of(self, final_height: int) -> int:
        """Return the epoch that is open when a block is final."""
        return self._chain.parameters.epoch_of(final_height + 1)

    def _is_worth_asking(self, peer: Peer, status: PeerStatus, now_ms: int) -> bool:
        """Whether a peer claims to be past the epoch of the newest set: that proves nothing, and costs a question."""
        is_possible = status.final_height <= self._chain.highest_possible(now_ms)
        is_ahead = self._epoch_of(status.final_height) > self.newest.epoch
        return is_possible and is_ahead and peer not in self._asked

    def _give_up(self, now_ms: int) -> None:
        """Wait no longer for whoever had its time."""
        late = [peer for peer, asked in self._asked.items() if now_ms >= asked.since_ms + PATIENCE_MS]
        for peer in late:
            del self._asked[peer]
            self._turns.on_silence(peer, now_ms)

    def _refuse(self, peer: Peer, reason: str) -> None:
        # While it owes another answer this may be a late one to an earlier question, and right: it only has to rest,
        # so who leaves a question open gains one wrong answer a minute, which is what a penalty a minute allows.
        if not self._owed.get(peer, 0):
            self._peers.penalise(peer, reason, self._now_ms())
        self._turns.on_useless(peer, self._now_ms())


def _conflict(epoch: int) -> str:
    return (
        f"two histories: in epoch {epoch} this node's own final blocks seat other validators than a handoff says that "
        "more than two thirds of the set before have certified. More than a third of the stake has signed both, or "
        "this node was told another past: it stops, and nothing is lost. Keep the log and the database, report it, and "
        "ask people whom you trust for a recent final block before you start it again, with --checkpoint HEIGHT:HASH"
    )
