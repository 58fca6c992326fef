"""What executes extrinsics and blocks, checks them, and builds new ones.

In reading order:

block_fullness          what still fits into the block
transaction_checks      whether a signed extrinsic may be applied now
supply                  no grain appears or vanishes
executive               a block, from its first hook to its roots
block_builder           the same steps, for a block under construction
pool_validation         the same checks, as the pool asks them
"""
