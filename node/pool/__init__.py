"""What waits for a block: extrinsics and attestations, their signature checks, their gossip.

* `refusal`: why the pool does not take something
* `transaction_queue`: the extrinsics that wait: who is ready, who leaves when it is full; pure
* `verify_worker`, `verifier`: signatures, checked in a process of its own and remembered
* `relay`: extrinsics that were admitted, to peers that have not seen them
* `transaction_pool`: the way into the queue from users and peers, and what becomes of it when the chain moves
* `attestation_pool`: the same for execution attestations
* `pools`: all of it, put together
"""
