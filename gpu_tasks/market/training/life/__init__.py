"""The life of a task: the effects of its calls and deadlines.

In reading order:

* `submitting`: the submission of a task
* `bidding`: bids, sealed and opened
* `ending`: the end of slots, standbys, bids and the task itself, or another auction
* `replicating`: tasks that several providers compute, and the comparison of their results
* `awarding`: from the last commitment to the award
* `failing`: providers that do not start, or die
* `slot_claims`: the claims of slots, and the end of a task with its last one
* `task_disputes`: disputes about a task
* `inputs`: missing inputs
* `sides`: partners of a gang with different results
* `metering`: work that is paid by time
* `running`: starts, milestones, results
* `attested_steps`: attestations of milestones and results: their conditions and their effect
* `leaving`: cancelled and stopped tasks
"""
