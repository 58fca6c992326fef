"""Figures for Prometheus, under Substrate's names if it has them, so that its dashboards work here.

Invariant: setting a figure costs no I/O.
"""

from __future__ import annotations

import time

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from gpu_tasks.market.claims.claims import ClaimOutcome, ClaimStage
from gpu_tasks.market.claims.disputes import DisputeStage
from gpu_tasks.market.claims.findings import Verdict

SECONDS_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0)
FULL_NODE = 1  # Substrate's numbers for roles
AUTHORITY = 4
CLAIM_STATUSES = tuple(stage.name.lower() for stage in ClaimStage)
DISPUTE_STATUSES = tuple(stage.name.lower() for stage in DisputeStage)
UNDECIDED = "undecided"
"""No decision, so nobody was convicted."""
DISPUTE_OUTCOMES = (*(verdict.name.lower() for verdict in Verdict), UNDECIDED)


class Metrics:
    """The figures of one node."""

    def __init__(self, chain_id: str, name: str, node_version: str, *, is_validator: bool) -> None:
        self.registry = CollectorRegistry()
        chain = self._chain = {"chain": chain_id}

        height_gauge = self._labelled(
            "substrate_block_height", "Height of the best, the final and the highest known block", "status"
        )
        self.best_height = height_gauge.labels(status="best", **chain)
        self.final_height = height_gauge.labels(status="finalized", **chain)
        self.sync_target = height_gauge.labels(status="sync_target", **chain)
        self.leaves = self.gauge("substrate_number_leaves", "Tips of the tree of blocks")
        self.ready = self.gauge("substrate_ready_transactions_number", "Extrinsics in the ready queue")
        self.future = self.gauge("ogpu_future_transactions_number", "Extrinsics that wait for a lower nonce")
        self.peers = self.gauge("substrate_sub_libp2p_peers_count", "Connected peers")
        self._labelled("substrate_build_info", "Version", "name", "version").labels(
            name=name, version=node_version, **chain
        ).set(1)
        self.gauge("substrate_node_roles", "1 full node, 4 authority").set(AUTHORITY if is_validator else FULL_NODE)
        self.gauge("substrate_process_start_time_seconds", "Unix time").set(int(time.time()))
        self.accepted_seconds = self._duration(
            "ogpu_accepted_seconds", "Time from the start of a block's slot to its acceptance"
        )
        self.final_seconds = self._duration(
            "ogpu_final_seconds", "Time from the start of a block's slot to its finality"
        )
        self.final_age = self.gauge("ogpu_final_age_seconds", "Time since the slot of the last final block")
        self.import_seconds = self._duration("ogpu_block_import_seconds", "Time to check and execute a block of a peer")
        self.build_seconds = self._duration("ogpu_block_build_seconds", "Time to build a block")
        self.commit_seconds = self._duration("ogpu_commit_seconds", "Time to write final blocks to the disk")
        self.event_seconds = self._duration("ogpu_consensus_event_seconds", "Time to carry out one consensus event")
        self.extrinsics = self._counter("ogpu_final_extrinsics", "Extrinsics in final blocks")
        self.soft_reverts = self._counter("ogpu_soft_reverts", "Accepted blocks that finality overruled")
        self.rejected = self.gauge("ogpu_rejected_blocks", "Blocks that broke a rule, since the start")
        self.abstained = self.gauge("ogpu_abstained_blocks", "Blocks that failed by a fault of this node")
        self.penalties = self.gauge("ogpu_penalties", "Messages that no honest peer sends")
        claims = self._labelled("ogpu_claims", "Claims of results that are not over, by stage", "status")
        self.claims = {status: claims.labels(status=status, **chain) for status in CLAIM_STATUSES}
        claims_ended = self._counter("ogpu_claims_ended", "Claims that ended since the start, by outcome", "outcome")
        self.claims_ended = {
            outcome: claims_ended.labels(outcome=outcome.name.lower(), **chain) for outcome in ClaimOutcome
        }
        disputes = self._labelled("ogpu_disputes", "Disputes about items and inputs, by stage", "status")
        self.disputes = {status: disputes.labels(status=status, **chain) for status in DISPUTE_STATUSES}
        disputes_ended = self._counter("ogpu_disputes_ended", "Disputes that ended since the start", "outcome")
        self.disputes_ended = {outcome: disputes_ended.labels(outcome=outcome, **chain) for outcome in DISPUTE_OUTCOMES}
        self.attestations = self.gauge("ogpu_attestations", "Execution attestations in the final chain")
        self.seat = self.gauge("ogpu_seat", "Weight of this node's seat in oGPU, 0 without one")
        self.next_seat = self.gauge("ogpu_next_seat", "Its weight in the next epoch, once the set is known")
        self.stake = self.gauge("ogpu_stake", "Stake behind this node's candidate, in oGPU")
        self.jailed = self.gauge("ogpu_jailed", "1 if this node's candidate is in jail, else 0")
        self.validators = self.gauge("ogpu_validators", "Seats of the set in office")
        self.missed_slots = self._counter("ogpu_missed_slots", "Own slots between final blocks that hold no block")
        self.missed_votes = self._counter(
            "ogpu_missed_votes", "Certificates of final blocks that lack this node's vote"
        )
        self.round = self.gauge("ogpu_finality_round", "Round of the finality gadget in its epoch")
        self.epoch = self.gauge("ogpu_epoch", "Epoch of the finality gadget")

    def gauge(self, name: str, text: str) -> Gauge:
        """Add a figure of this chain from another part of the program, such as a market's open work."""
        return Gauge(name, text, ["chain"], registry=self.registry).labels(**self._chain)

    def _duration(self, name: str, help_text: str) -> Histogram:
        histogram = Histogram(name, help_text, ["chain"], registry=self.registry, buckets=SECONDS_BUCKETS)
        return histogram.labels(**self._chain)

    def _counter(self, name: str, help_text: str, *label_names: str) -> Counter:
        counter = Counter(name, help_text, ["chain", *label_names], registry=self.registry)
        return counter if label_names else counter.labels(**self._chain)

    def _labelled(self, name: str, help_text: str, *label_names: str) -> Gauge:
        return Gauge(name, help_text, ["chain", *label_names], registry=self.registry)
