"""Tasks at auction as their customer sees them: submit, follow, hold, fetch, verify.

In reading order:

* `image_upload`: the parts of an image, stored each once
* `sealing`: from a task file to the order that is submitted, its input sealed and stored
* `stages`: how far a task is, in words, and why it waits
* `bid_rows`: the bids of an auction, in rows
* `records`: a task and its auctions in rows and facts
* `purse`: what is locked for a task, and what a call would bring back
* `run_blobs`: checkpoints and results, fetched, opened and checked
* `program_outputs`: what a program left, fetched, opened and checked
* `recomputing`: a run computed again, so that a dispute names what is wrong
* `holding`: checkpoints that the customer holds, so that they count
* `block_statements`: the blocks of a task's life, read for what was stated and signed
* `awarded_states`: who won an earlier auction, read in the state of the block of its award
* `happened`: what the blocks of a task's life tell that its record does not
* `shifts`: who worked on a task, who took over, from which checkpoint, and why
* `task_payments`: what each party was paid, lost, and has back
* `task_story`: these two, read for one task
* `requeueing`: a program that its time limit cut off, submitted again
* `following`: a task from block to block, until it ends
"""
