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
        node_view: NodeView,
        description: NodeDescription,
        publish_frame: Callable[[feed.ToRpc], None],
        is_read: Callable[[], bool] = lambda: True,
    ) -> None:
        self._node_view = node_view
        self._is_read = is_read
        self._identity = description
        self._publish_frame = publish_frame
        self._last_status: feed.NodeStatus | None = None

    def opening(self) -> Iterator[feed.ToRpc]:
        """Return the first frames for a new reader; the state is that of the moment of the call."""
        chain = self._node_view.chain
        snapshot_pages = chain.storage.pages(feed.SNAPSHOT_PAGE_BYTES)
        return self._opening_frames(chain.final, chain.above_final(), snapshot_pages, self.status())

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
        node_status = self.status()
        if node_status != self._last_status:
            self._last_status = node_status
            self._publish_frame(node_status)

    def status(self) -> feed.NodeStatus:
        """Return the node's status."""
        node_view = self._node_view
        best_facts, final_facts = node_view.machine.best, node_view.machine.final
        highest_height = max(best_facts.height, node_view.sync.highest_height)
        transaction_queue = node_view.pools.transactions.queue
        return feed.NodeStatus(
            accepted_id=best_facts.id,
            accepted_height=best_facts.height,
            final_id=final_facts.id,
            final_height=final_facts.height,
            highest_height=highest_height,
            is_syncing=highest_height - best_facts.height > SYNC_DISTANCE
            or final_facts.height < node_view.sync.trusted_height,
            peers=len(node_view.network.transport.peers()),
            ready=transaction_queue.ready_count,
            future=transaction_queue.future_count,
        )

    # --- inside

    def _opening_frames(
        self,
        final_block: ExecutedBlock,
        blocks_above: list[ExecutedBlock],
        snapshot_pages: Iterator[list[tuple[bytes, bytes]]],
        node_status: feed.NodeStatus,
    ) -> Iterator[feed.ToRpc]:
        yield self._hello_frame()
        for snapshot_page in snapshot_pages:
            yield feed.Snapshot(
                final_block.stored.header,
                [[storage_key, stored_value] for storage_key, stored_value in snapshot_page],
                last=False,
            )
        yield feed.Snapshot(final_block.stored.header, [], last=True)
        for height in range(final_block.facts.height, max(0, final_block.facts.height - REVERSE_KEPT), -1):
            reverse_frame = self._reverse_frame(height)
            if reverse_frame is None:
                break
            yield reverse_frame
        for block_above in blocks_above:
            yield _block_frame(block_above)
        yield node_status

    def _hello_frame(self) -> feed.FeedHello:
        node_view, description = self._node_view, self._identity
        chain_spec = description.spec
        return feed.FeedHello(
            chain_name=chain_spec.name,
            chain_id=chain_spec.id,
            chain_type=chain_spec.chain_type,
            parameters=chain_spec.parameters,
            genesis_hash=node_view.chain.genesis,
            properties=json.dumps(chain_spec.properties),
            spec_version=node_view.chain.runtime.version.spec_version,
            node_name=description.name,
            node_version=description.version,
            is_validator=description.is_validator,
            peer_id=node_view.network.transport.peer_id,
            listen_addresses=list(node_view.network.transport.addresses),
        )

    def _reverse_frame(self, height: int) -> feed.Reverse | None:
        storage = self._node_view.chain.storage
        reverse_changes, final_id = storage.reverse_at(height), storage.id_at(height)
        encoded_header = storage.header(final_id) if final_id is not None else None
        if reverse_changes is None or final_id is None or encoded_header is None:
            return None
        return feed.Reverse(
            final_id,
            encoded_header,
            [[storage_key, stored_value] for storage_key, stored_value in sorted(reverse_changes.items())],
        )


def _block_frame(executed_block: ExecutedBlock) -> feed.ImportedBlock:
    block_changes: list[list[bytes | None]] = [
        [storage_key, new_value] for storage_key, new_value in sorted(executed_block.changes.items())
    ]
    return feed.ImportedBlock(
        executed_block.facts.id, executed_block.stored.header, list(executed_block.extrinsics), block_changes
    )
