"""Every attack, in the order in which they are tried: what may cost a node its life, or its peers, comes last."""

from __future__ import annotations

from typing import Final

from devnet.proofs.flood.attack import Attack
from devnet.proofs.flood.blobs import uploads
from devnet.proofs.flood.peers import (
    addresses,
    answers,
    blocks,
    gossip,
    polls,
    pool,
    records,
    requests,
    transactions,
    validators,
    votes,
)
from devnet.proofs.flood.rpc import aborting, batches, crowds, limits, origin, parsing, subscriptions
from devnet.proofs.flood.sockets import held

_IN_ORDER: Final = (
    requests.pings,
    requests.statuses,
    requests.block_requests,
    requests.certificate_requests,
    records.small_records,
    records.muxer_frames,
    polls.poll_queries,
    polls.unasked_chits,
    polls.wanted_ids,
    votes.far_votes,
    votes.own_key_ballots,
    votes.forged_votes,
    votes.forgers_with_new_names,
    votes.forged_certificates,
    gossip.forged_heartbeats,
    gossip.forged_evidence,
    blocks.small_orphans,
    blocks.tiny_extrinsics,
    blocks.unsealed_blocks,
    blocks.unasked_blocks,
    answers.made_up_answers,
    transactions.remark_batches,
    transactions.refused_extrinsics,
    pool.replacements,
    pool.futures,
    validators.identity_churn,
    validators.self_made_validators,
    held.silent_peers,
    held.slow_posts,
    held.idle_websockets,
    crowds.half_heads,
    crowds.proving_crowd,
    crowds.crumbs,
    crowds.subscribing_addresses,
    crowds.crumbs_for_a_store,
    origin.foreign_origin,
    batches.batch_of_metadata,
    batches.batch_of_heights,
    batches.batch_of_keys,
    limits.forged_submissions,
    limits.small_forged_submissions,
    limits.long_futures,
    limits.watched_keys,
    limits.proofs_at_the_limit,
    limits.certified_headers,
    limits.nested_fees,
    subscriptions.many_subscriptions,
    subscriptions.unread_subscriptions,
    subscriptions.slow_readers,
    aborting.aborting_clients,
    parsing.json_bombs,
    parsing.parse_bomb,
    parsing.parse_bomb_by_websocket,
    uploads.slow_uploads,
    uploads.full_quota,
    held.half_metrics_requests,
    addresses.false_addresses,
)
ATTACKS: Final[dict[str, Attack]] = {attack.name: attack for attack in _IN_ORDER}
