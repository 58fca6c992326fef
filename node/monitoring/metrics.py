"""Figures for Prometheus, under Substrate's names if it has them, so that its dashboards work here.

Invariant: setting a figure costs no I/O.
"""

from __future__ import annotations

import time

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from gpu_tasks.market.leaf_checks.checks import CheckOutcome

SECONDS_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0)
FULL_NODE = 1  # Substrate's numbers for roles
AUTHORITY = 4
CHECK_STATUSES = ("draw", "leaves", "auditor", "audit", "court", "customer")
"""The steps for which a check of a batch waits: the draw of leaves; their publication; an auditor; the decision on an
audit of passed leaves; judges of a leaf; a dispute by its customer."""
DISPUTE_STATUSES = ("trees", "judges")
"""The steps for which a dispute of racers waits: the tree of each side; judges of the leaf in which they differ."""
DISPUTE_OUTCOMES = ("settled", "redrawn", "refunded")


class Metrics:
    """The figures of one node."""

    def __init__(self, chain_id: str, name: str, node_version: str, *, is_validator: bool) -> None:
        self.registry = CollectorRegistry()
        chain_label = self._chain = {"chain": chain_id}

        def gauge(name_: str, help_text: str, *label_names: str) -> Gauge:
            return Gauge(name_, help_text, ["chain", *label_names], registry=self.registry)

        def seconds(name_: str, help_text: str) -> Histogram:
            return Histogram(name_, help_text, ["chain"], registry=self.registry, buckets=SECONDS_BUCKETS).labels(
                **chain_label
            )

        def counter(name_: str, help_text: str, *label_names: str) -> Counter:
            new_counter = Counter(name_, help_text, ["chain", *label_names], registry=self.registry)
            return new_counter if label_names else new_counter.labels(**chain_label)

        height_gauge = gauge(
            "substrate_block_height", "Height of the best, the final and the highest known block", "status"
        )
        self.best_height = height_gauge.labels(status="best", **chain_label)
        self.final_height = height_gauge.labels(status="finalized", **chain_label)
        self.sync_target = height_gauge.labels(status="sync_target", **chain_label)
        self.leaves = gauge("substrate_number_leaves", "Tips of the tree of blocks").labels(**chain_label)
        self.ready = gauge("substrate_ready_transactions_number", "Extrinsics in the ready queue").labels(**chain_label)
        self.future = gauge("ogpu_future_transactions_number", "Extrinsics that wait for a lower nonce").labels(
            **chain_label
        )
        self.peers = gauge("substrate_sub_libp2p_peers_count", "Connected peers").labels(**chain_label)
        gauge("substrate_build_info", "Version", "name", "version").labels(
            name=name, version=node_version, **chain_label
        ).set(1)
        node_role = AUTHORITY if is_validator else FULL_NODE
        gauge("substrate_node_roles", "1 full node, 4 authority").labels(**chain_label).set(node_role)
        gauge("substrate_process_start_time_seconds", "Unix time").labels(**chain_label).set(int(time.time()))
        self.accepted_seconds = seconds(
            "ogpu_accepted_seconds", "Time from the start of a block's slot to its acceptance"
        )
        self.final_seconds = seconds("ogpu_final_seconds", "Time from the start of a block's slot to its finality")
        self.final_age = gauge("ogpu_final_age_seconds", "Time since the slot of the last final block").labels(
            **chain_label
        )
        self.import_seconds = seconds("ogpu_block_import_seconds", "Time to check and execute a block of a peer")
        self.build_seconds = seconds("ogpu_block_build_seconds", "Time to build a block")
        self.commit_seconds = seconds("ogpu_commit_seconds", "Time to write final blocks to the disk")
        self.event_seconds = seconds("ogpu_consensus_event_seconds", "Time to carry out one consensus event")
        self.extrinsics = counter("ogpu_final_extrinsics", "Extrinsics in final blocks")
        self.soft_reverts = counter("ogpu_soft_reverts", "Accepted blocks that finality overruled")
        self.rejected = gauge("ogpu_rejected_blocks", "Blocks that broke a rule, since the start").labels(**chain_label)
        self.abstained = gauge("ogpu_abstained_blocks", "Blocks that failed by a fault of this node").labels(
            **chain_label
        )
        self.penalties = gauge("ogpu_penalties", "Messages that no honest peer sends").labels(**chain_label)
        check_gauge = gauge("ogpu_leaf_checks", "Checks of batches by their leaves, by status", "status")
        self.checks = {
            check_status: check_gauge.labels(status=check_status, **chain_label) for check_status in CHECK_STATUSES
        }
        disputes = gauge("ogpu_leaf_disputes", "Batches with racers that disagree, by status", "status")
        self.disputes = {
            dispute_status: disputes.labels(status=dispute_status, **chain_label) for dispute_status in DISPUTE_STATUSES
        }
        checks_ended = counter("ogpu_leaf_checks_ended", "Checks that ended since the start, by outcome", "outcome")
        self.checks_ended = {
            check_outcome: checks_ended.labels(outcome=check_outcome.name.lower(), **chain_label)
            for check_outcome in CheckOutcome
        }
        disputes_ended = counter("ogpu_leaf_disputes_ended", "Disputes that ended since the start", "outcome")
        self.disputes_ended = {
            dispute_outcome: disputes_ended.labels(outcome=dispute_outcome, **chain_label)
            for dispute_outcome in DISPUTE_OUTCOMES
        }
        self.attestations = gauge("ogpu_attestations", "Execution attestations in the final chain").labels(
            **chain_label
        )
        self.seat = gauge("ogpu_seat", "Weight of this node's seat in oGPU, 0 without one").labels(**chain_label)
        self.next_seat = gauge("ogpu_next_seat", "Its weight in the next epoch, once the set is known").labels(
            **chain_label
        )
        self.stake = gauge("ogpu_stake", "Stake behind this node's candidate, in oGPU").labels(**chain_label)
        self.jailed = gauge("ogpu_jailed", "1 if this node's candidate is in jail, else 0").labels(**chain_label)
        self.validators = gauge("ogpu_validators", "Seats of the set in office").labels(**chain_label)
        self.missed_slots = counter("ogpu_missed_slots", "Own slots between final blocks that hold no block")
        self.missed_votes = counter("ogpu_missed_votes", "Certificates of final blocks that lack this node's vote")
        self.round = gauge("ogpu_finality_round", "Round of the finality gadget in its epoch").labels(**chain_label)
        self.epoch = gauge("ogpu_epoch", "Epoch of the finality gadget").labels(**chain_label)

    def gauge(self, name: str, text: str) -> Gauge:
        """Add a figure of this chain from another part of the program, such as a market's open work."""
        return Gauge(name, text, ["chain"], registry=self.registry).labels(**self._chain)
