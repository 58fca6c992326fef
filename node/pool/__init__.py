"""The entries that wait for a block: extrinsics, attestations, heartbeats and evidence, their checks and their gossip.

In reading order:

* `refusal`: the reasons for which a pool refuses an entry
* `pooled`: an extrinsic in the pool, and the result of a step of the queue
* `bans`: entries that were invalid shortly before; pure
* `transaction_queue`: the extrinsics that wait: order, limits, eviction; pure
* `verify_worker`, `verifier`: signature checks in a separate process, and remembered results
* `relay`: gossip of admitted extrinsics to peers that have not seen them
* `arrivals`: extrinsics that wait for a check, in turn by source
* `manners`: the cost of each peer's refused messages, and the peers ignored for it; pure
* `entrance`: the two stages of admission: before and after the signature check
* `judged_state`: the state on which a pool judges messages
* `gossip_pool`: messages of one kind, taken from peers and passed on
* `transaction_pool`: the admission rules of the queue, and its changes when the chain moves
* `attestation_pool`: the same for execution attestations
* `heartbeat_pool`: the same for heartbeats
* `evidence_pool`: the same for evidence of offences
* `pools`: all pools, put together
"""
