"""A transaction pool over a real chain, with its tasks and its signature worker, and scripted peers."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from block_maker import Maker
from node.clock import Clock
from node.p2p.frames import FrameKind
from node.p2p.gossip import Gossip
from node.peers.peers import Peers
from node.pool.arrivals import Arrival
from node.pool.relay import Relay
from node.pool.transaction_pool import TransactionPool
from node.pool.verifier import Verifier
from played_transport import PlayedTransport
from runtime.cryptography.hashing import blake2_256


class Played:
    """A pool with its tasks running, and its messages."""

    def __init__(self, maker: Maker) -> None:
        self.statuses: list[tuple[bytes, str, bytes | None]] = []
        self.transport = PlayedTransport("peer", "other")
        peers = Peers(self.transport)
        peers.peer_ids = lambda: self.transport.connected  # type: ignore[method-assign]  # a played one has no links
        self.verifier = Verifier()
        self.pool = TransactionPool(
            chain=maker.chain,
            verifier=self.verifier,
            clock=Clock(),
            relay=Relay(peers, Gossip(random.Random(1))),
            on_status=self._status,
        )

    def _status(self, extrinsic_hash: bytes, status: str, block: bytes | None) -> None:
        self.statuses.append((extrinsic_hash, status, block))

    def told(self, name: str) -> list[bytes]:
        """Return the extrinsics sent to a peer."""
        return [payload for peer, kind, payload in self.transport.sent if (peer, kind) == (name, FrameKind.TX)]

    def arrival(self, raw: bytes) -> Arrival:
        """Return a transaction as this node's user submits it."""
        return Arrival(raw, None, blake2_256(raw))

    async def settled(self) -> None:
        """Wait until no extrinsic waits for a check."""
        while self.pool.entrance.arrivals._under_way:
            await trio.sleep(0.001)


@asynccontextmanager
async def running(maker: Maker) -> AsyncIterator[Played]:
    played = Played(maker)
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(played.verifier.run_worker)
            nursery.start_soon(played.pool.run)
            yield played
            nursery.cancel_scope.cancel()
