"""The node's news for the RPC process: the final state when it connects, then every block and status.

Invariant: `opening` shows the node at the moment of the call, however slowly the reader takes it. Every block comes
before the status that names it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from genesis.spec import ChainSpec
from node.feed import messages as feed
from node.feed.view import NodeView
from node.ledger.chain import ExecutedBlock
from node.ledger.listener import Listener
from node.ledger.storage import REVERSE_KEPT

SYNC_DISTANCE = 5  # a node that is more blocks behind the highest known one is syncing


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDescription:
    """A node's name, version and role, and its chain's specification."""

    spec: ChainSpec
    name: str
    version: str
    is_validator: bool


class Stream(Listener):
    """The publisher of blocks and statuses."""

    def __init__(
        self,
        view: NodeView,
        description: NodeDescription,
        publish_frame: Callable[[feed.ToRpc], None],
        is_read: Callable[[], bool] = lambda: True,
    ) -> None:
        self._node_view = view
        self._is_read = is_read
        self._identity = description
        self._publish_frame = publish_frame
        self._last_status: feed.NodeStatus | None = None

    def opening(self) -> Iterator[feed.ToRpc]:
        """Return the first frames for a new reader; the state is that of the moment of the call."""
        chain = self._node_view.chain
        pages = chain.storage.pages(feed.SNAPSHOT_PAGE_BYTES)
        return self._opening_frames(chain.final, chain.above_final(), pages, self.status())

    def on_imported(self, block: ExecutedBlock) -> None:
        """Publish a new block, with its changes."""
        if self._is_read():  # sorting the changes of a full block takes about 20 ms
            self._publish_frame(_block_frame(block))
        self.publish_status()

    def on_tip(self, block: bytes) -> None:
        """Publish the status: the pool changes with the tip."""
        del block
        self.publish_status()

    def on_accepted(self, block: bytes, *, reverted: bool) -> None:
        """Publish the status with another best block."""
        del block, reverted
        self.publish_status()

    def on_final(self, blocks: list[ExecutedBlock]) -> None:
        """Publish the status with another final block."""
        del blocks
        self.publish_status()

    def publish_status(self) -> None:
        """Publish the node's status if it changed."""
        status = self.status()
        if status != self._last_status:
            self._last_status = status
            self._publish_frame(status)

    def status(self) -> feed.NodeStatus:
        """Return the node's status."""
        view = self._node_view
        best, final = view.machine.best, view.machine.final
        highest_height = max(best.height, view.sync.highest_height)
        queue = view.pools.transactions.queue
        return feed.NodeStatus(
            accepted_id=best.id,
            accepted_height=best.height,
            final_id=final.id,
            final_height=final.height,
            highest_height=highest_height,
            is_syncing=highest_height - best.height > SYNC_DISTANCE or final.height < view.sync.trusted_height,
            peers=len(view.network.transport.peers()),
            ready=queue.ready_count,
            future=queue.future_count,
        )

    # --- inside

    def _opening_frames(
        self,
        block: ExecutedBlock,
        blocks_above: list[ExecutedBlock],
        pages: Iterator[list[tuple[bytes, bytes]]],
        status: feed.NodeStatus,
    ) -> Iterator[feed.ToRpc]:
        yield self._hello_frame()
        for page in pages:
            yield feed.Snapshot(
                block.stored.header,
                [[key, value] for key, value in page],
                last=False,
            )
        yield feed.Snapshot(block.stored.header, [], last=True)
        for height in range(block.facts.height, max(0, block.facts.height - REVERSE_KEPT), -1):
            frame = self._reverse_frame(height)
            if frame is None:
                break
            yield frame
        for block_above in blocks_above:
            yield _block_frame(block_above)
        yield status

    def _hello_frame(self) -> feed.FeedHello:
        view, description = self._node_view, self._identity
        spec = description.spec
        return feed.FeedHello(
            chain_name=spec.name,
            chain_id=spec.id,
            chain_type=spec.chain_type,
            parameters=spec.parameters,
            genesis_hash=view.chain.genesis,
            properties=json.dumps(spec.properties),
            spec_version=view.chain.runtime.version.spec_version,
            node_name=description.name,
            node_version=description.version,
            is_validator=description.is_validator,
            peer_id=view.network.transport.peer_id,
            listen_addresses=list(view.network.transport.addresses),
        )

    def _reverse_frame(self, height: int) -> feed.Reverse | None:
        storage = self._node_view.chain.storage
        changes, final_id = storage.reverse_at(height), storage.id_at(height)
        encoded = storage.header(final_id) if final_id is not None else None
        if changes is None or final_id is None or encoded is None:
            return None
        return feed.Reverse(
            final_id,
            encoded,
            [[key, value] for key, value in sorted(changes.items())],
        )


def _block_frame(block: ExecutedBlock) -> feed.ImportedBlock:
    changes: list[list[bytes | None]] = [[key, value] for key, value in sorted(block.changes.items())]
    return feed.ImportedBlock(block.facts.id, block.stored.header, list(block.extrinsics), changes)
