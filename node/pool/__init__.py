"""What waits for a block: extrinsics, attestations, heartbeats and evidence, their signature checks, their gossip.

In reading order:

* `refusal`: why the pool does not take something
* `pooled`: an extrinsic in the pool, and what a step of the queue did
* `bans`: what was invalid a moment ago; pure
* `transaction_queue`: the extrinsics that wait: who is ready, who leaves when it is full; pure
* `verify_worker`, `verifier`: signatures, checked in a process of its own and remembered
* `relay`: extrinsics that were admitted, to peers that have not seen them
* `arrivals`: extrinsics that wait to be judged, those of each source in turn
* `manners`: the cost of each peer's refused messages, and the peers ignored for it; pure
* `entrance`: the two stages of the way in: before a signature is checked and after it
* `judged_state`: the state on which a pool judges messages
* `gossip_pool`: messages of one kind, taken from peers and passed on
* `transaction_pool`: the rules of the way into the queue, and what becomes of it when the chain moves
* `attestation_pool`: the same for execution attestations
* `heartbeat_pool`: the same for signs of life
* `evidence_pool`: the same for evidence of offences
* `pools`: all of it, put together
"""
