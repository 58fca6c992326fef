"""Blocks from other nodes on their way into the tree: in order, once each, from any peer.

Invariants:

* Waiting blocks are bounded in number and bytes, for each peer and in all.
* A block is decoded only as far as it was proven.
* A block that broke a rule is not examined again.
* An answer without a request costs its peer a penalty.
* A peer's claims about heights decide nothing: only valid blocks do.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import islice
from typing import NamedTuple, TypeAlias, TypeVar

from consensus import events as ev
from consensus.headers import InvalidHeaderError, NotYetError, OtherCheckpointError, proposer, read_header
from node.errors import NodeError
from node.ledger.chain import Chain, Foreseen, OnTheirWay, ProvenBlock, UnknownParentError
from node.ledger.epochs import UNKNOWN_SEED
from node.p2p.meter import PeerRates
from node.peers.messages import BLOCKS, GetBlocks, PeerStatus, encode_answer
from node.peers.peers import PENALTIES_MAX, Peers
from node.sync.checkpoint_watch import CheckpointWatch
from node.sync.sets_ahead import SetsAhead
from node.sync.waiting_blocks import Peer, Room, Waiting
from runtime.blocks.block import BLOCK, HEADER, HEADER_BYTES_MAX, extrinsics_root, seal_payload
from runtime.cryptography import signatures
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.codec import DecodeError
from runtime.encoding.scale import decode_compact
from runtime.frame.errors import InvalidBlock

MEBIBYTE = 1024 * 1024
BAD_MAX = 1_024  # remembered blocks that broke a rule
REQUESTS_MAX = 64
OWED_MAX = 64  # outstanding answers of one peer
LOOK_AHEAD = 4  # blocks
LOOK_AHEAD_BYTES = 2 * MEBIBYTE  # of them together: their decoded form takes about ten times as much
FORESEEN_MAX = 512
WAITS_MAX = 50
"""Turns of 10 ms for which an import waits for a worker's signature checks. The worker may have died with them."""
ANSWERS_PER_SECOND_MAX = 16  # a small question that makes this node read and send a megabyte
STANDINGS_MAX = 1_024
AGAIN_MS = 5_000
"""The time between two searches for tips that peers named and that are still missing. The machine gives up earlier."""
UNATTACHED_PER_SECOND = 2.0
UNATTACHED_BURST = 32
"""Blocks of one peer whose parent is not here. An honest peer announces its own blocks, one in each slot that it has.
"""
_LOG = logging.getLogger(__name__)
K = TypeVar("K")
V = TypeVar("V")
Welcome: TypeAlias = Callable[[ev.BlockFacts], bool]
"""Return whether to execute a block whose header is valid (`Machine.is_welcome`)."""
Foresee: TypeAlias = Callable[[Iterable[bytes]], "Foreseen | None"]
"""Announce the extrinsics of a block that is about to be executed: their signatures can be checked in advance."""


# A block is judged before its body is decoded: first its header, then the length of its body.
# Invariant: no part of a body is decoded before its header is valid. The number of extrinsics is checked against the
# length before any is cut out. A header without its parent counts only with its proposer's seal.
SIGNED_BYTES_MIN = 100
"""No signed extrinsic is shorter: an address and a signature alone have 98 bytes."""
INHERENTS_MAX = 256
"""The most extrinsics that may be shorter: the author's inherents, of which there are a few."""


class WrongBodyError(Exception):
    """The body does not match its header: no node that executed the block has sent it."""


def read_waiting(block_bytes: bytes, peer: Peer) -> Waiting:
    """Return a block with its decoded header. Raise `DecodeError` if the header is malformed."""
    # Encodings are canonical, so the header's hash is that of the bytes that it was decoded from.
    header, header_end = HEADER.decode_prefix(block_bytes[:HEADER_BYTES_MAX])
    return Waiting(blake2_256(block_bytes[:header_end]), header, block_bytes, header_end, peer)


def read_body(waiting_block: Waiting) -> ProvenBlock:
    """Return the whole block. Raise `WrongBodyError` if the body does not match the header."""
    try:
        extrinsic_count, _ = decode_compact(waiting_block.data, waiting_block.body_start)
        # 50,000 extrinsics of one byte took 0.25 s to cut out and to hash (a trie's nodes are per extrinsic).
        if extrinsic_count > INHERENTS_MAX + (len(waiting_block.data) - waiting_block.body_start) // SIGNED_BYTES_MIN:
            raise WrongBodyError("more extrinsics than a body of that length can hold")
        block = BLOCK.decode(waiting_block.data)
    except (DecodeError, IndexError) as error:
        raise WrongBodyError(f"malformed body: {error}") from error
    if extrinsics_root(block.extrinsics) != waiting_block.header.extrinsics_root:
        # The id covers the header alone: a wrong body must not condemn the block to which a peer attached it.
        raise WrongBodyError("a body that does not match its header")
    return ProvenBlock(
        block, waiting_block.data[: waiting_block.body_start], waiting_block.data[waiting_block.body_start :]
    )


def check_unattached(chain: Chain, block: Waiting) -> None:
    """Check that a header without its parent has the seal of its slot's proposer.

    Raise `NotYetError` if this node cannot know that yet, and `InvalidHeaderError` if the seal is wrong.
    """
    header = block.header
    epoch = chain.parameters.epoch_of(header.number)
    header_epoch = chain.epochs(epoch)
    if header_epoch is None:
        raise NotYetError("the epoch is not determined here")
    parts = read_header(header)
    member = next(
        (member for member in header_epoch.validators.members if member.stash == parts.author),
        None,
    )
    if member is None or parts.pre_digest.epoch != epoch:
        raise InvalidHeaderError("the author is no validator of the epoch")
    if not signatures.verify_ed25519(member.session, seal_payload(chain.genesis, header), parts.signature):
        raise InvalidHeaderError("the seal does not verify")
    # The seed of a past epoch is not kept.
    if header_epoch.seed != UNKNOWN_SEED and proposer(header_epoch, parts.pre_digest.slot) != member.session:
        raise InvalidHeaderError("not the slot's proposer")


class _Ahead(NamedTuple):
    """A waiting block that was examined before its turn."""

    waiting: Waiting
    proven: ProvenBlock
    foreseen: Foreseen | None
    put_off_count: int = 0


class Sync:
    """The intake of blocks and requests of peers, with events for the machine."""

    def __init__(
        self, chain: Chain, peers: Peers, now_ms: Callable[[], int], is_welcome: Welcome, foresee_block: Foresee
    ) -> None:
        self._chain = chain
        self._peers = peers
        self._now_ms = now_ms
        self._is_welcome = is_welcome
        self._foresee_block = foresee_block
        self._foreseen: OrderedDict[bytes, None] = OrderedDict()
        self._seen_ahead: dict[bytes, _Ahead] = {}
        # Announced blocks have a valid header: they come before blocks that were only requested.
        self._announced = Room(peer_count_max=32, peer_bytes_max=8 * MEBIBYTE, bytes_max=32 * MEBIBYTE)
        self._answered = Room(peer_count_max=512, peer_bytes_max=16 * MEBIBYTE, bytes_max=48 * MEBIBYTE)
        self._orphans = Room(peer_count_max=64, peer_bytes_max=4 * MEBIBYTE, bytes_max=16 * MEBIBYTE)
        self._early_blocks = Room(peer_count_max=8, peer_bytes_max=4 * MEBIBYTE, bytes_max=16 * MEBIBYTE)
        self._unattached = PeerRates(UNATTACHED_PER_SECOND, UNATTACHED_BURST)
        self._bad_blocks: OrderedDict[bytes, None] = OrderedDict()
        self._requests: dict[Peer, GetBlocks] = {}
        self._last_delivered: OrderedDict[bytes, tuple[bytes, int]] = (
            OrderedDict()
        )  # the last block that each fetch delivered
        self._owed_answers: dict[
            Peer, int
        ] = {}  # answers, late ones too: a request may be given up before its answer comes
        self._asked_counts: dict[Peer, tuple[int, int]] = {}
        self._again_ms = 0
        self._standings: dict[Peer, PeerStatus] = {}
        self._checkpoint = CheckpointWatch(chain)
        self.sets_ahead = SetsAhead(chain, peers, now_ms, self._checkpoint)
        self.faulty: OrderedDict[bytes, None] = OrderedDict()
        self.highest_height = 0
        self.trusted_height = 0  # of the checkpoint: a node whose final block is below it is syncing
        self.rejected = self.abstained = 0

    @property
    def has_work(self) -> bool:
        """True if a block waits to be imported."""
        return bool(self._announced) or bool(self._answered)

    @property
    def is_late(self) -> bool:
        """True if an announced block waits for its import: votes for it are due."""
        return bool(self._announced)

    @property
    def next_bytes(self) -> int:
        """The length of the block that is imported next."""
        next_block = (self._announced or self._answered).next()
        return 0 if next_block is None else len(next_block.data)

    # --- messages of peers

    def on_block(self, block_bytes: bytes, peer: Peer) -> list[ev.Event]:
        """Take an announced block: its header is judged at once, and it comes before blocks that are being synced."""
        block = self._read_block(block_bytes, peer)
        if block is None or block.block_id in self._bad_blocks or block.block_id in self._chain:
            return []
        return self._judge_header(block)

    def on_answer(self, payload: bytes, peer: Peer) -> None:
        """Take the answer to a request of this node."""
        owed_answers = self._owed_answers.get(peer, 0)
        if not owed_answers:
            # Unpenalised, a peer sent 13 MB of these a second, which this node read and dropped.
            self._peers.penalise(peer, "an answer without a request", self._now_ms())
            return
        self._owed_answers[peer] = owed_answers - 1
        request = self._requests.pop(peer, None)
        if request is None:
            return
        try:
            blocks = BLOCKS.decode(payload)
        except DecodeError as error:
            self._peers.penalise(peer, f"malformed answer: {error}", self._now_ms())
            return
        last_block: Waiting | None = None
        for block_bytes in blocks:
            block = self._read_block(block_bytes, peer)
            if block is None or block.block_id in self._bad_blocks:
                return
            if self._checkpoint.takes(peer, request, block.block_id):
                return
            # An honest answer is oldest first, and each block is the parent of the next.
            if last_block is not None and block.header.parent_hash != last_block.block_id:
                self._peers.penalise(peer, "an answer that is no chain of blocks", self._now_ms())
                return
            is_here = self._chain.get(block.block_id) is not None
            if not is_here and not self._answered.add(block) and block.block_id not in self._answered:
                self._again_ms = 0  # no room: the fetch continues once waiting blocks are executed
                return
            last_block = block
            _remember(
                self._last_delivered,
                request.block,
                (block.block_id, block.header.number),
                REQUESTS_MAX,
            )
        if last_block is not None and last_block.block_id != request.block and last_block.header.number > request.above:
            self._send_request(peer, GetBlocks(request.block, last_block.header.number))

    def on_request(self, request: GetBlocks, peer: Peer) -> bytes | None:
        """Return the answer to a peer's request; None if the block is not here, or the peer asks too often."""
        asked_second, asked_count = self._asked_counts.get(peer, (0, 0))
        now_second = self._now_ms() // 1_000
        asked_count = asked_count + 1 if asked_second == now_second else 1
        _remember(self._asked_counts, peer, (now_second, asked_count), STANDINGS_MAX)
        if asked_count > ANSWERS_PER_SECOND_MAX:
            return None
        blocks = self._chain.branch(request.block, request.above)
        return encode_answer(blocks) if blocks else None

    def on_status(self, status: PeerStatus, peer: Peer) -> list[ev.Event]:
        """Take a peer's status; an unknown tip is fetched, and proves nothing before that."""
        _remember(self._standings, peer, status, STANDINGS_MAX)
        if status.tip in self._chain or status.tip in self._bad_blocks or status.tip in self._orphans:
            return []
        # Otherwise one claim of height 2^32-1 would make the node report for ever that it is syncing.
        if self._is_plausible(status):
            question = self._checkpoint.question(peer, status, self._now_ms())
            if question is not None:
                self._send_request(peer, question)
            self.highest_height = max(self.highest_height, status.tip_height)
            self.sets_ahead.ask(self._standings)
        return [ev.BlockWanted(status.tip, peer)]

    def want_again(self) -> list[ev.Event]:
        """Return requests for tips that peers named and that are still missing when no block waits.

        The machine gives a block up after some seconds, and 512 earlier ones may wait here for longer. On a chain that
        has halted no peer names its tip a second time: a node that joined one stopped at #540 for good.
        """
        now_ms = self._now_ms()
        if self.has_work or now_ms < self._again_ms:
            return []
        self._again_ms = now_ms + AGAIN_MS
        return [ev.BlockWanted(status.tip, peer) for peer, status in self._standings.items() if self._is_missed(status)]

    def fetch(self, block: bytes, peer: Peer, above_height: int) -> None:
        """Request a block for the machine, unless it or its descent is already on its way."""
        if block in self._orphans:
            block = self._orphans.missing_ancestor(block)
        if block in self._last_delivered:
            last_id, last_height = self._last_delivered[block]
            # The machine repeats its request until the block itself is here, after all blocks below it. Without this
            # check a sync of twenty blocks fetched its first three eight times, and had no blocks for its look-ahead
            # meanwhile.
            if last_id in self._answered:
                return
            if self._chain.get(last_id) is not None:
                above_height = max(above_height, last_height)
        if block not in self._announced and block not in self._answered:
            self._send_request(peer, GetBlocks(block, above_height))

    def standing(self, peer: Peer) -> PeerStatus | None:
        """Return a peer's last status."""
        return self._standings.get(peer)

    def forget_peer(self, peer: Peer) -> None:
        """Forget a peer whose connection ended."""
        self._requests.pop(peer, None)
        self._owed_answers.pop(peer, None)
        self._standings.pop(peer, None)
        self._answered.forget_peer(peer)
        self.sets_ahead.forget_peer(peer)

    # --- into the tree

    def look_ahead(self) -> None:
        """Have the workers check the signatures of the next blocks while this process executes one.

        Only blocks with their proposer's seal count, once each. A request by this node proves nothing, since a peer
        names any id: 1.8 MB of invented blocks delayed consensus by 220 ms, and cost nothing.
        """
        total_bytes = 0
        for coming in list(islice(self._answered, 1 + LOOK_AHEAD)):  # a copy: a ban removes some of them
            total_bytes += len(coming.data)
            if total_bytes > LOOK_AHEAD_BYTES:
                return
            if coming.block_id in self._foreseen or coming.header.number <= self._chain.final.facts.height:
                continue
            try:
                check_unattached(self._chain, coming)
            except NotYetError:
                continue
            except InvalidBlock:  # judged in its turn
                _remember(self._foreseen, coming.block_id, None, FORESEEN_MAX)
                continue
            self._see_ahead(coming)

    def put_off(self) -> OnTheirWay | None:
        """Return the missing verdicts of the next block; None if none is missing, or after too many waits."""
        next_block = (self._announced or self._answered).next()
        ahead = self._seen_ahead.get(next_block.block_id) if next_block is not None else None
        if ahead is None or ahead.foreseen is None or ahead.waiting is not next_block:
            return None
        verdicts = ahead.foreseen.verdicts
        if not verdicts.missing or ahead.put_off_count >= WAITS_MAX:
            return None
        self._seen_ahead[next_block.block_id] = ahead._replace(put_off_count=ahead.put_off_count + 1)
        return verdicts

    def import_next(self) -> list[ev.Event]:
        """Import the next waiting block, and return the events for the machine."""
        self.look_ahead()
        if not self.has_work:  # the look-ahead banned its peer
            return []
        next_block = (self._announced or self._answered).take()
        ahead = self._seen_ahead.pop(next_block.block_id, None)
        if (known := self._chain.get(next_block.block_id)) is not None:
            return [ev.BlockImported(known.facts)]
        if next_block.block_id in self._bad_blocks or next_block.block_id in self.faulty:
            return []
        was_asked = next_block.facts is None
        try:
            return self._import_block(next_block, ahead)
        except UnknownParentError:
            return self._adopt_later(next_block, was_asked=was_asked)
        except NotYetError:
            self._early_blocks.add(next_block)
            return []
        except WrongBodyError as error:
            self._ban_for_body(next_block, error)
            return []
        except InvalidBlock as error:
            return self._reject_block(next_block, error, was_asked=was_asked)
        except NodeError:  # a fault of the database, not of the block
            raise
        except Exception:  # noqa: BLE001  # any fault of our own ends here
            # No verdict, and no penalty for the peer: the block may be valid for all other nodes.
            _LOG.exception(
                "block 0x%s raised an unexpected error: this node does not vote for it", next_block.block_id.hex()
            )
            _remember(self.faulty, next_block.block_id, None, BAD_MAX)
            self.abstained += 1
            return []

    def retry_early(self) -> None:
        """Give blocks that could not be judged earlier another chance, as time passed or finality moved.

        A block is announced once. Otherwise one that came before its slot (clocks differ), or in an epoch that the
        final chain did not determine yet, would have to be missed and requested.
        """
        self._orphans.forget_to(self._chain.final.facts.height)
        if not self._answered:  # entries of blocks that were dropped with their peer
            self._seen_ahead.clear()
        for block in self._early_blocks.take_all():
            self._answered.add(block)
        self._checkpoint.look(self._now_ms())
        self.sets_ahead.compare()
        self.sets_ahead.ask(self._standings)
        self.highest_height = max(self.highest_height, self.sets_ahead.proven_height)

    # --- inside

    def _see_ahead(self, block: Waiting) -> None:
        """Check the body of a block with a valid seal, and announce its extrinsics."""
        _remember(self._foreseen, block.block_id, None, FORESEEN_MAX)
        try:
            proven_block = read_body(block)
        except WrongBodyError as error:  # its turn may never come: its parent need not exist
            self._ban_for_body(block, error)
            return
        ahead = _Ahead(block, proven_block, self._foresee_block(proven_block.block.extrinsics))
        _remember(self._seen_ahead, block.block_id, ahead, LOOK_AHEAD + 1)

    def _read_block(self, block_bytes: bytes, peer: Peer) -> Waiting | None:
        try:
            return read_waiting(block_bytes, peer)
        except DecodeError as error:
            self._peers.penalise(peer, f"malformed block: {error}", self._now_ms())
            return None

    def _judge_header(self, block: Waiting) -> list[ev.Event]:
        """Admit a block by its header: to be imported, to wait for its parent or its time, or not at all."""
        try:
            facts = self._chain.check(block.header, self._now_ms())
        except UnknownParentError:
            return self._adopt_later(block)
        except NotYetError:
            self._early_blocks.add(block)
            return []
        except InvalidBlock as error:
            return self._reject_block(block, error)
        self._announced.add(replace(block, facts=facts))
        return []

    def _import_block(self, block: Waiting, ahead: _Ahead | None) -> list[ev.Event]:
        facts = block.facts
        if facts is None:
            facts = self._chain.check(block.header, self._now_ms())
        # A proposer may seal any number of headers in its slot; this node must not execute them all.
        if not self._is_welcome(facts):
            return []
        if ahead is not None and ahead.waiting.data is block.data:
            self._chain.execute(ahead.proven, facts, ahead.foreseen)
        else:
            self._chain.execute(read_body(block), facts)
        self.highest_height = max(self.highest_height, facts.height)
        events: list[ev.Event] = [ev.BlockImported(facts)]
        for child in self._orphans.take_children(facts.id):
            events += self._judge_header(child)
        return events

    def _adopt_later(self, block: Waiting, *, was_asked: bool = False) -> list[ev.Event]:
        """Keep a sealed block whose parent is not here; its peer is penalised if it sends many."""
        parent_id, now_ms = block.header.parent_hash, self._now_ms()
        if block.header.number <= self._chain.final.facts.height:
            return []
        is_on_its_way = any(
            parent_id in room for room in (self._announced, self._answered, self._orphans, self._early_blocks)
        )
        if not is_on_its_way and not self._unattached.may(block.peer, now_ms):
            self._peers.penalise(block.peer, "too many blocks without a parent", now_ms)
            return []
        try:
            check_unattached(self._chain, block)
        except NotYetError:
            # Its seal cannot be judged before this node is near: it is requested again, with all blocks below it.
            self._answered.forget_peer(block.peer)
            return [ev.BlockWanted(block.block_id, block.peer)]
        except InvalidBlock as error:
            return self._reject_block(block, error, was_asked=was_asked)
        self._orphans.add(block)
        return [] if is_on_its_way else [ev.BlockWanted(self._orphans.missing_ancestor(parent_id), block.peer)]

    def _reject_block(self, block: Waiting, error: Exception, *, was_asked: bool = False) -> list[ev.Event]:
        _LOG.warning("block %d 0x%s is invalid: %s", block.header.number, block.block_id.hex(), error)
        _remember(self._bad_blocks, block.block_id, None, BAD_MAX)
        self._answered.forget_peer(block.peer)  # the rest of the answer descends from it
        self.rejected += 1
        if isinstance(error, OtherCheckpointError):
            self._checkpoint.on_other(block.block_id, f"peer {block.peer.decode()}", self._now_ms())
        # An honest node judged every header that it has: one invalid header in an answer is enough for a ban.
        penalty_weight = PENALTIES_MAX if was_asked and isinstance(error, InvalidHeaderError) else 1
        self._peers.penalise(block.peer, f"sent an invalid block: {error}", self._now_ms(), penalty_weight)
        return [ev.BlockRejected(block.block_id)]

    def _ban_for_body(self, block: Waiting, error: WrongBodyError) -> None:
        # Its sender assembled it: no honest node has such a block, so once is enough for a ban.
        self._peers.penalise(block.peer, str(error), self._now_ms(), PENALTIES_MAX)

    def _send_request(self, peer: Peer, request: GetBlocks) -> None:
        if self._peers.request_blocks(peer, request):
            _remember(self._requests, peer, request, REQUESTS_MAX)
            _remember(self._owed_answers, peer, min(self._owed_answers.get(peer, 0) + 1, OWED_MAX), STANDINGS_MAX)

    def _is_missed(self, status: PeerStatus) -> bool:
        is_above = status.tip_height > self._chain.final.facts.height and self._is_plausible(status)
        return is_above and status.tip not in self._chain and status.tip not in self._bad_blocks

    def _is_plausible(self, status: PeerStatus) -> bool:
        """Return whether a status is possible: heights grow by at most one a slot, so time bounds them."""
        return status.final_height <= status.tip_height <= self._chain.highest_possible(self._now_ms())


def _remember(store: dict[K, V], key: K, value: V, entries_max: int) -> None:
    store[key] = value
    if len(store) > entries_max:
        store.pop(next(iter(store)))
