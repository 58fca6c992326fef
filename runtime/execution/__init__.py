"""The execution of extrinsics and blocks, their checks, and building new blocks.

In reading order:

* `block_fullness`: the room left in the block
* `transaction_checks`: the checks of a signed extrinsic before it is applied
* `supply`: the check that no grain appears or vanishes
* `executive`: a block, from its first hook to its roots
* `block_builder`: the same steps, for a block under construction
* `pool_validation`: the same checks, for the transaction pool
"""
