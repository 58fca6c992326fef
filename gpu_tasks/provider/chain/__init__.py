"""The chain as the provider's programs see it.

In reading order:

* `side_pay`: what judging, auditing and standing by paid, read in the block that paid it
* `bond_losses`: losses of devices' bonds, with their causes
* `demand`: what is asked for in services, and whether a provider may be drawn
* `port`: what a daemon needs of a chain
* `roll_calls`: the newest roll call, and whose rows are to be looked at
* `task_records`: tasks and bids by name
* `live`: that, behind a node's JSON-RPC
"""
