"""Tasks at auction: a provider's bids, and its work on the tasks that it wins, takes over and checks.

In reading order:

* `policy`: the operator's policy for bids; pure
* `policy_file`: the policy's file, and conditions of machine and clock
* `bid_terms`: price, promise and collateral of a bid, or the reason for none; pure
* `replica_places`: places and offers of replicated tasks; pure
* `places`: the next step for a task, from chain and journal; pure
* `run_folder`: states and trails on the disk
* `task_inputs`: the request of a task, opened and checked
* `checkpoint_blobs`: runs sealed in the blob stores
* `sold_time`: customers' programs: prepared, metered, ended
* `task_runs`: the run of a task, step by step
* `task_book`: the tasks of this daemon
* `task_items`: the items of tasks: delivered, fetched and computed again
* `task_disputes`: disputes about own tasks, and decisions to appeal
* `bids`: bids
* `working`: the work on won tasks; milestones and results as attestations
"""
