"""Tasks at auction: a provider's bids, and its work on the tasks that it wins, takes over and judges.

In reading order:

* `policy`: the operator's policy for bids; pure
* `policy_file`: the policy's file, and conditions of machine and clock
* `bid_terms`: price, promise and collateral of a bid, or the reason for none; pure
* `replica_places`: places and offers of replicated tasks; pure
* `places`: the next step for a task, from chain and journal; pure
* `run_folder`: states on the disk
* `task_inputs`: the request of a task, opened and checked
* `checkpoint_blobs`: runs sealed in the blob stores
* `sold_time`: customers' programs: prepared, metered, ended
* `task_runs`: the run of a task, step by step
* `task_book`: the tasks of this daemon
* `state_answers`: states for judges
* `task_verdicts`: a judge's search for the right answer about a task
* `fraud_search`: the search for another provider's wrong result
* `bids`: bids
* `working`: the work on won tasks; milestones and results as attestations
* `judging_tasks`: the steps of cases about tasks
"""
