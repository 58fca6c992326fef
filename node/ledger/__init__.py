"""The chain as one node holds it: final blocks on disk, and in memory the tree of executed blocks above them.

In reading order:

* `storage`: the database (LevelDB): final blocks, their state, and the blocks kept above them
* `layers`: a block's state as changes over its parent's
* `epochs`: validators and seed of each epoch, read from the final state and the handoffs
* `chain`: the tree of blocks; checks, executes, makes final
* `trusted_point`: a checkpoint or the last final block, and the time for which it can be trusted
* `ledger`: the parts above, opened, and the recovery of consensus after a restart
* `listener`: notifications about blocks
"""
