"""A chain under random steps of everybody, its books kept beside it and compared after each.

In reading order:

* `crowd`: what the crowd sees of the chain when it chooses its next call
* `hooks`: what the hooks of one block may weigh
* `hearings`: what the courts of a chain did, as a run counts it
* `task_ends`: how slots and tasks ended, as a run counts it
* `figures`: what a run has shown, what is missing for it to show anything, and how that is told
* `season`: one chain from block 0 on: blocks, calls by right and wrong signers, finality that stands still
* `seasons`: chains one after another, or several at a time
"""
