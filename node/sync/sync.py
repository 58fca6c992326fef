"""Blocks from other nodes on their way into the tree: in order, once, and by whoever has them.

What always holds: waiting blocks are bounded in number and bytes; a block that broke a rule is not executed again; an
answer that was not asked for is ignored; nothing that a peer claims about heights decides anything: only blocks that
check out do.
"""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias, TypeVar

from consensus import events as ev
from consensus.headers import NotYetError
from node.errors import NodeError
from node.ledger.chain import Chain, UnknownParentError, UnwelcomeError, Welcome
from node.peers.messages import BLOCKS, GetBlocks, PeerStatus, encode_answer
from node.peers.peers import Peers
from node.sync.orphans import Orphan, Orphans
from runtime.blocks.block import BLOCK, Block, block_id, extrinsics_root
from runtime.encoding.codec import DecodeError
from runtime.frame.errors import InvalidBlock

QUEUE_MAX = 512
QUEUE_BYTES_MAX = 64 * 1024 * 1024
BAD_MAX = 1_024  # blocks that broke a rule, remembered
EARLY_MAX = 64
LOOK_AHEAD = 4  # blocks; between two imports a worker's pipe is written and read once, so a verdict takes three of them
REQUESTS_MAX = 64
ANSWERS_PER_SECOND_MAX = 16  # a small question that makes us read and send a megabyte
STANDINGS_MAX = 1_024
_LOG = logging.getLogger(__name__)
Peer: TypeAlias = bytes
K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A block that is to be imported when its turn comes."""

    block_id: bytes
    block: Block
    size: int
    peer: Peer


class Sync:
    """Takes blocks and requests of peers, gives events for the machine."""

    def __init__(
        self,
        chain: Chain,
        peers: Peers,
        now_ms: Callable[[], int],
        is_welcome: Welcome,
        foresee: Callable[[Iterable[bytes]], None] = lambda _: None,
    ) -> None:
        """`foresee` hears of the extrinsics of blocks that will be imported soon."""
        self._chain = chain
        self._peers = peers
        self._now_ms = now_ms
        self._is_welcome = is_welcome
        self._foresee = foresee
        self._foreseen: OrderedDict[bytes, None] = OrderedDict()
        self._queue: deque[_Waiting] = deque()
        self._queued_bytes = 0
        self._orphans = Orphans()
        self._early: OrderedDict[bytes, _Waiting] = OrderedDict()
        self._bad: OrderedDict[bytes, None] = OrderedDict()
        self._requests: dict[Peer, GetBlocks] = {}
        self._asked: dict[Peer, tuple[int, int]] = {}
        self._standings: dict[Peer, PeerStatus] = {}
        self.faulty: OrderedDict[bytes, None] = OrderedDict()
        self.highest_height = 0
        self.rejected = self.abstained = 0

    @property
    def has_work(self) -> bool:
        """Whether a block waits to be imported."""
        return bool(self._queue)

    # --- what peers send

    def on_block(self, data: bytes, peer: Peer) -> None:
        """A block was announced: it goes before blocks that are being synced."""
        waiting = self._decoded(data, peer)
        if waiting is not None and self._has_room(waiting):
            self._queue.appendleft(waiting)
            self._queued_bytes += waiting.size

    def on_answer(self, payload: bytes, peer: Peer) -> None:
        """The answer to a request of ours."""
        request = self._requests.pop(peer, None)
        if request is None:
            return
        try:
            blocks = BLOCKS.decode(payload)
        except DecodeError as error:
            self._peers.penalise(peer, f"malformed answer: {error}", self._now_ms())
            return
        last: _Waiting | None = None
        for data in blocks:
            waiting = self._decoded(data, peer)
            # What an answer always is: oldest first, each block the parent of the next.
            if waiting is None or (last is not None and waiting.block.header.parent_hash != last.block_id):
                self._peers.penalise(peer, "an answer that is no chain of blocks", self._now_ms())
                return
            last = waiting
            if not self._has_room(waiting):
                return
            self._queue.append(waiting)
            self._queued_bytes += waiting.size
        if last is not None and last.block_id != request.block and last.block.header.number > request.above:
            self._ask(peer, GetBlocks(request.block, last.block.header.number))

    def on_request(self, request: GetBlocks, peer: Peer) -> bytes | None:
        """The answer to a peer's request; None when the block is not here, or the peer asks too often."""
        second, count = self._asked.get(peer, (0, 0))
        now_second = self._now_ms() // 1_000
        count = count + 1 if second == now_second else 1
        _remember(self._asked, peer, (now_second, count), STANDINGS_MAX)
        if count > ANSWERS_PER_SECOND_MAX:
            return None
        blocks = self._chain.branch(request.block, request.above)
        return encode_answer(blocks) if blocks else None

    def on_status(self, status: PeerStatus, peer: Peer) -> list[ev.Event]:
        """A peer says where it stands; its tip is fetched when it is unknown, and proves nothing before."""
        _remember(self._standings, peer, status, STANDINGS_MAX)
        if status.tip in self._chain or status.tip in self._bad or status.tip in self._orphans:
            return []
        # One claim of height 2^32-1 would else have the node say for ever that it is syncing.
        if self._is_plausible(status):
            self.highest_height = max(self.highest_height, status.tip_height)
        return [ev.BlockWanted(status.tip, peer)]

    def fetch(self, block: bytes, peer: Peer, above: int) -> None:
        """The machine wants a block: ask, unless what is already on its way will bring it."""
        if block in self._orphans:
            block = self._orphans.missing_ancestor(block)
        if all(waiting.block_id != block for waiting in self._queue):
            self._ask(peer, GetBlocks(block, above))

    def standing(self, peer: Peer) -> PeerStatus | None:
        """What a peer last said about itself."""
        return self._standings.get(peer)

    def forget_peer(self, peer: Peer) -> None:
        """A connection ended."""
        self._requests.pop(peer, None)
        self._standings.pop(peer, None)

    # --- into the tree

    def import_next(self) -> list[ev.Event]:
        """Import the next waiting block; what the machine has to know of it."""
        self._look_ahead()
        waiting = self._queue.popleft()
        self._queued_bytes -= waiting.size
        if (known := self._chain.get(waiting.block_id)) is not None:
            return [ev.BlockImported(known.facts)]
        if waiting.block_id in self._bad or waiting.block_id in self.faulty:
            return []
        try:
            facts = self._chain.import_block(waiting.block, self._now_ms(), self._is_welcome)
        except UnwelcomeError:
            # A proposer may seal any number of headers in its slot; executing them all would be our work for its one.
            return []
        except UnknownParentError:
            return self._adopt_later(waiting)
        except NotYetError:
            _remember(self._early, waiting.block_id, waiting, EARLY_MAX)
            return []
        except InvalidBlock as error:
            return self._reject(waiting, error)
        except NodeError:  # the database, not the block
            raise
        except Exception:  # noqa: BLE001  # a fault of our own, whatever it is, ends here
            # No verdict, and no blame for the peer: the block may be good for everybody else.
            _LOG.exception("block 0x%s failed by a fault of this node: it abstains from it", waiting.block_id.hex())
            _remember(self.faulty, waiting.block_id, None, BAD_MAX)
            self.abstained += 1
            return []
        self.highest_height = max(self.highest_height, facts.height)
        for child in self._orphans.take_children(facts.id):
            size = len(child.data)
            self._queue.appendleft(_Waiting(child.block_id, BLOCK.decode(child.data), size, child.peer.encode()))
            self._queued_bytes += size
        return [ev.BlockImported(facts)]

    def retry_early(self) -> None:
        """Time passed, or finality moved: blocks that could not be judged yet get another chance.

        A block is announced once: one that came before its slot (clocks differ), or in an epoch that our final chain
        did not determine yet, would else have to be found missing and asked for.
        """
        self._queue.extend(self._early.values())
        self._queued_bytes += sum(waiting.size for waiting in self._early.values())
        self._early.clear()

    # --- inside

    def _look_ahead(self) -> None:
        """While one block is executed here, the workers have the signatures of the next ones before them."""
        for waiting in islice(self._queue, 1, 1 + LOOK_AHEAD):
            if waiting.block_id not in self._foreseen:
                _remember(self._foreseen, waiting.block_id, None, QUEUE_MAX)
                self._foresee(waiting.block.extrinsics)

    def _has_room(self, waiting: _Waiting) -> bool:
        return len(self._queue) < QUEUE_MAX and self._queued_bytes + waiting.size <= QUEUE_BYTES_MAX

    def _decoded(self, data: bytes, peer: Peer) -> _Waiting | None:
        try:
            block = BLOCK.decode(data)
        except DecodeError as error:
            self._peers.penalise(peer, f"malformed block: {error}", self._now_ms())
            return None
        if extrinsics_root(block.extrinsics) != block.header.extrinsics_root:
            # The id covers the header alone: a wrong body must not condemn the block that it was put to.
            self._peers.penalise(peer, "a block with another body than its header's", self._now_ms())
            return None
        decoded_id = block_id(block.header)
        return None if decoded_id in self._bad else _Waiting(decoded_id, block, len(data), peer)

    def _adopt_later(self, waiting: _Waiting) -> list[ev.Event]:
        parent = waiting.block.header.parent_hash
        self._orphans.add(Orphan(waiting.block_id, parent, BLOCK.encode(waiting.block), waiting.peer.decode()))
        return [ev.BlockWanted(self._orphans.missing_ancestor(parent), waiting.peer)]

    def _reject(self, waiting: _Waiting, error: Exception) -> list[ev.Event]:
        _LOG.warning("block %d 0x%s is invalid: %s", waiting.block.header.number, waiting.block_id.hex(), error)
        _remember(self._bad, waiting.block_id, None, BAD_MAX)
        self.rejected += 1
        self._peers.penalise(waiting.peer, f"sent an invalid block: {error}", self._now_ms())
        return [ev.BlockRejected(waiting.block_id)]

    def _ask(self, peer: Peer, request: GetBlocks) -> None:
        if self._peers.request_blocks(peer, request):
            _remember(self._requests, peer, request, REQUESTS_MAX)

    def _is_plausible(self, status: PeerStatus) -> bool:
        """Heights grow by one a slot at most: nobody can be further than the time since genesis allows."""
        return status.final_height <= status.tip_height <= self._chain.highest_possible(self._now_ms())


def _remember(store: dict[K, V], key: K, value: V, limit: int) -> None:
    store[key] = value
    if len(store) > limit:
        store.pop(next(iter(store)))
