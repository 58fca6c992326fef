"""What the RPC process is told: the final state when it connects, then every block, status and fate of an extrinsic."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from consensus.machine import Machine
from genesis.spec import ChainSpec
from node.config import Config
from node.feed import messages as feed
from node.ledger.chain import Chain, ExecutedBlock
from node.ledger.storage import REVERSE_KEPT
from node.listener import Listener
from node.p2p.transport import Transport
from node.pool.attestation_pool import AttestationPool
from node.pool.queue import PoolRefusalError
from node.pool.transaction_pool import TransactionPool
from node.sync.sync import Sync
from node.version import VERSION
from runtime.blocks.block import BLOCK

OFFENCES_KEPT = 64
PROOF_KEYS_MAX = 1_024
SYNC_DISTANCE = 5  # blocks behind the highest known one, from which on a node says that it is syncing


@dataclass(slots=True)
class FeedSource(Listener):
    """The node as the RPC process sees it."""

    config: Config
    spec: ChainSpec
    chain: Chain
    machine: Machine
    pool: TransactionPool
    attestations: AttestationPool
    sync: Sync
    transport: Transport
    addresses: Callable[[], list[str]]
    polls: Callable[[], list[feed.Value]]
    publish: Callable[[feed.ToRpc], None]

    def __post_init__(self) -> None:
        self._offences: deque[dict[str, feed.Value]] = deque(maxlen=OFFENCES_KEPT)
        self._last: feed.NodeStatus | None = None

    # --- the stream

    def opening(self) -> Iterator[feed.ToRpc]:
        """What a new reader is told first; the state is that of this very moment."""
        final, above = self.chain.final, self.chain.above_final()
        pages, status = self.chain.storage.pages(feed.SNAPSHOT_PAGE_BYTES), self.status()
        return self._opening(final, above, pages, status)

    def on_imported(self, block: ExecutedBlock) -> None:
        """A new block, with what it changed."""
        self.publish(_block_frame(block))
        self.publish_status()

    def on_tip(self, block: bytes) -> None:
        """The pool moved with the tip."""
        del block
        self.publish_status()

    def on_accepted(self, block: bytes, *, reverted: bool) -> None:
        """The best block is another one."""
        del block, reverted
        self.publish_status()

    def on_final(self, blocks: list[ExecutedBlock]) -> None:
        """The final block is another one."""
        del blocks
        self.publish_status()

    def on_offence(self, author: bytes, slot: int, first: bytes, second: bytes) -> None:
        """Keep the evidence for whoever wants to report it."""
        self._offences.append({"author": author, "slot": slot, "first": first, "second": second})

    def publish_status(self) -> None:
        """Say where the node stands, if that changed."""
        status = self.status()
        if status != self._last:
            self._last = status
            self.publish(status)

    def status(self) -> feed.NodeStatus:
        """Where the node stands."""
        best, final = self.machine.best, self.machine.final
        highest = max(best.height, self.sync.highest_height)
        return feed.NodeStatus(
            accepted_id=best.id,
            accepted_height=best.height,
            final_id=final.id,
            final_height=final.height,
            highest_height=highest,
            is_syncing=highest - best.height > SYNC_DISTANCE,
            peers=len(self.transport.peers()),
            ready=self.pool.pool.ready_count,
            future=self.pool.pool.future_count,
        )

    # --- requests

    async def answer(self, request: feed.Request) -> feed.Value:
        """Answer a request of the RPC process."""
        match request:
            case feed.Submit(_, extrinsic):
                return await self.pool.submit(extrinsic)
            case feed.Pending():
                return list(self.pool.pending())
            case feed.ListPeers():
                return [self._peer(one.peer, one.role.name) for one in self.transport.peers()]
            case feed.BlockAt(_, block):
                return self._block(block)
            case feed.IdAt(_, height):
                return self.chain.storage.id_at(height)
            case feed.CertificateAt(_, height):
                found = self.chain.storage.certificate_at(height)
                return [self.chain.storage.id_at(found[0]), found[1]] if found is not None else None
            case feed.Prove(_, block, keys):
                return self._prove(block, keys)
            case feed.Inspect(_, topic):
                return self._inspect(topic)
            case feed.SubmitAttestation(_, attestation):
                return self.attestations.submit(attestation)

    # --- inside

    def _opening(
        self,
        final: ExecutedBlock,
        above: list[ExecutedBlock],
        pages: Iterator[list[tuple[bytes, bytes]]],
        status: feed.NodeStatus,
    ) -> Iterator[feed.ToRpc]:
        yield self._hello()
        for page in pages:
            yield feed.Snapshot(final.stored.header, [[key, value] for key, value in page], last=False)
        yield feed.Snapshot(final.stored.header, [], last=True)
        for height in range(final.facts.height, max(0, final.facts.height - REVERSE_KEPT), -1):
            found = self._reverse(height)
            if found is None:
                break
            yield found
        for block in above:
            yield _block_frame(block)
        yield status

    def _hello(self) -> feed.FeedHello:
        return feed.FeedHello(
            chain_name=self.spec.name,
            chain_id=self.spec.id,
            chain_type=self.spec.chain_type,
            parameters=self.spec.parameters,
            genesis_hash=self.chain.genesis,
            properties=json.dumps(self.spec.properties),
            spec_version=self.chain.runtime.version.spec_version,
            node_name=self.config.name,
            node_version=VERSION,
            is_validator=self.config.is_validator,
            peer_id=self.transport.peer_id,
            listen_addresses=self.addresses(),
        )

    def _reverse(self, height: int) -> feed.Reverse | None:
        storage = self.chain.storage
        changes, block = storage.reverse_at(height), storage.id_at(height)
        header = storage.header(block) if block is not None else None
        if changes is None or block is None or header is None:
            return None
        return feed.Reverse(block, header, [[key, value] for key, value in sorted(changes.items())])

    def _block(self, block: bytes) -> feed.Value:
        stored = self.chain.stored(block)
        if stored is None:
            return None
        return [stored.header, list(BLOCK.decode(stored.header + stored.body).extrinsics)]

    def _prove(self, block: bytes, keys: list[bytes]) -> feed.Value:
        if len(keys) > PROOF_KEYS_MAX:
            raise PoolRefusalError(-32602, "Invalid params", f"at most {PROOF_KEYS_MAX} keys")
        proof = self.chain.prove(block, keys)
        if proof is None:
            raise PoolRefusalError(4003, "State already discarded", f"for 0x{block.hex()}")
        return list(proof)

    def _inspect(self, topic: str) -> feed.Value:
        epoch, round_ = self.machine.gadget_round
        if topic == "offences":
            return list(self._offences)
        if topic == "consensus":
            return {"epoch": epoch, "round": round_, "tip": self.machine.tip.id, "leaves": self.chain.leaves()}
        if topic == "polls":
            return self.polls()
        if topic == "pool":
            pool = self.pool.pool
            return {"ready": pool.ready_count, "future": pool.future_count, "bytes": pool.bytes_used}
        if topic == "network":
            return [
                {"peer": one.peer, "address": one.address, "received": one.received_bytes, "sent": one.sent_bytes}
                for one in self.transport.peers()
            ]
        raise PoolRefusalError(-32602, "Invalid params", f"topic {topic} is unknown")

    def _peer(self, peer: str, role: str) -> dict[str, feed.Value]:
        standing = self.sync.standing(peer.encode())
        best = standing.tip if standing else self.chain.genesis
        return {"peerId": peer, "roles": role, "bestHash": best, "bestNumber": standing.tip_height if standing else 0}


def _block_frame(block: ExecutedBlock) -> feed.ImportedBlock:
    changes: list[list[bytes | None]] = [[key, value] for key, value in sorted(block.changes.items())]
    return feed.ImportedBlock(block.facts.id, block.stored.header, list(block.extrinsics), changes)
