"""Tasks at auction: what a provider bids for, how it runs what it wins, takes over and judges.

In reading order:

* `policy`: what its operator bids for; pure
* `policy_file`: where that stands, and what it asks of machine and clock
* `bid_terms`: price, promise and collateral of a bid, or why there is none; pure
* `replica_places`: the places and offers of what several compute; pure
* `places`: what chain and journal ask for next; pure
* `run_folder`: states on the disk
* `task_inputs`: from a task to its request
* `checkpoint_blobs`: runs in the stores
* `sold_time`: programs of customers, made ready, metered, ended
* `task_runs`: the run of a task, step by step
* `task_book`: the tasks that this daemon has to do with
* `state_answers`: states for judges
* `task_verdicts`: what is right about a task
* `fraud_search`: where somebody else's result is wrong
* `bids`: bids
* `working`: what becomes of them; milestones and results as attestations
* `judging_tasks`: taking the steps of a case
"""
