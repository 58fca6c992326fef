"""The chain as one node holds it: on the disk what is final, in memory the tree of executed blocks above it.

In reading order:

* `storage`: the database (LevelDB): final blocks, their state, and the blocks kept above them
* `layers`: a block's state as what it changed in its parent's
* `epochs`: validators and seed of each epoch, read from the final state and the handoffs
* `chain`: the tree of blocks; checks, executes, makes final
* `trusted_point`: a checkpoint or the last final block, and for how long one may go by it
* `ledger`: all of it opened, and what a restart gives to consensus
* `listener`: what others are told about blocks
"""
