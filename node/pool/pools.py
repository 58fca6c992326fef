"""The pools of one node, put together, and their tasks.

Invariant: extrinsics, attestations, heartbeats and evidence gossip with separate memories, so a flood of one kind does
not erase the memory of another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import trio

from node.clock import Clock
from node.ledger.chain import Chain
from node.p2p.meter import Seconds
from node.peers.network import new_gossip
from node.peers.peers import Peers
from node.pool.attestation_pool import AttestationPool
from node.pool.evidence_pool import EvidencePool
from node.pool.heartbeat_pool import HeartbeatPool
from node.pool.relay import Relay
from node.pool.transaction_pool import OnStatus, TransactionPool
from node.pool.verifier import Verifier
from runtime.frame.call import Call
from runtime.frame.runtime import Bound

VERIFY_WORKERS = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Pools:
    """The pool room; `verifier` also serves the chain."""

    verifier: Verifier
    transactions: TransactionPool
    attestations: AttestationPool
    heartbeats: HeartbeatPool
    evidence: EvidencePool

    def start(self, nursery: trio.Nursery) -> None:
        """Check signatures and admit arrivals, in tasks of `nursery`."""
        for _ in range(VERIFY_WORKERS):
            nursery.start_soon(self.verifier.run_worker)
        nursery.start_soon(self.transactions.run)

    def inherents(self, bound: Bound) -> Iterable[Call]:
        """Yield an author's inherents in the order of the pallets; `bound` reflects those attached before."""
        yield from self.evidence.inherents(bound)
        yield from self.attestations.inherents(bound)
        yield from self.heartbeats.inherents(bound)


def make_pools(
    *,
    chain: Chain,
    verifier: Verifier,
    clock: Clock,
    peers: Peers,
    preferred: Callable[[], bytes],
    on_status: OnStatus,
    clock_seconds: Seconds,
) -> Pools:
    """Create empty pools; `preferred` returns the tip, `on_status` receives the statuses of watched extrinsics.

    `clock_seconds` is the clock of the node's CPU, by which peers pay for refused messages.
    """

    def blame(peer: str, reason: str) -> None:
        peers.penalise(peer.encode(), reason, clock.now_ms())

    extrinsic_relay = Relay(peers, new_gossip())
    transactions = TransactionPool(
        chain=chain,
        verifier=verifier,
        clock=clock,
        relay=extrinsic_relay,
        on_status=on_status,
        blame=blame,
        clock_seconds=clock_seconds,
    )
    attestations = AttestationPool(chain, peers, new_gossip(), preferred, blame, clock_seconds)
    heartbeats = HeartbeatPool(chain, peers, new_gossip(), preferred, blame, clock_seconds)
    return Pools(
        verifier=verifier,
        transactions=transactions,
        attestations=attestations,
        heartbeats=heartbeats,
        evidence=EvidencePool(chain, peers, new_gossip(), preferred, blame, clock_seconds),
    )
