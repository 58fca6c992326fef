"""The chain as one node holds it: on the disk what is final, in memory the tree of executed blocks above it.

In reading order:

* `packed`: changes of a state in one value of the database
* `storage`: the database (LevelDB): final blocks, their state, and the blocks kept above them
* `layers`: a block's state as what it changed in its parent's
* `epochs`: validators and seed of each epoch, read from the final state and the handoffs
* `foreseen`: what was found out about a block before its turn
* `chain`: the tree of blocks; checks, executes, makes final
* `opening`: a chain over its database; an empty one gets block 0
* `trusted_point`: a checkpoint or the last final block, and for how long one may go by it
* `ledger`: all of it opened, and what a restart gives to consensus
* `listener`: what others are told about blocks
"""
