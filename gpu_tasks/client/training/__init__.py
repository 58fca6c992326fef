"""Tasks at auction as their customer sees them: submit, follow, hold, fetch, verify.

In reading order:

* `sealed_orders`: from a task file to the order that is submitted, its input sealed and stored
* `stages`: how far a task is, in words, and why it waits
* `records`: a task and its auctions in rows and facts
* `run_blobs`: checkpoints and results, fetched, opened and checked
* `program_outputs`: what a program left, fetched, opened and checked
* `held_checkpoints`: checkpoints that the customer holds, so that they count
* `block_statements`: the blocks of a task's life, read for what was stated and signed
* `shifts`: who worked on a task, who took over, from which checkpoint, and why
* `task_payments`: what each party was paid, lost, and has back
* `progress`: a task from block to block, until it ends
"""
