"""The provider's view of the chain.

In reading order:

* `side_pay`: payments for standing by, read in the block that paid them
* `bond_losses`: losses of devices' bonds, with their causes
* `claim_money`: payments and losses of checks and votes, read in the block that made them
* `demand`: demand in services, and a provider's eligibility
* `port`: the daemon's interface to a chain
* `offences`: offences that the node saw, proven by the client
* `roll_calls`: the newest roll call, and the proofs of devices
* `task_records`: tasks and bids by name
* `live`: the interface over a node's JSON-RPC
"""
