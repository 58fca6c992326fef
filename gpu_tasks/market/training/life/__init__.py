"""The life of a task: the effects of its calls and deadlines.

In reading order:

* `submitting`: the submission of a task
* `bidding`: bids, sealed and opened
* `ending`: the end of slots, standbys, bids and the task itself, or another auction
* `replicating`: tasks that several providers compute, and the comparison of their results
* `awarding`: from the last commitment to the award
* `failing`: providers that do not start, or die
* `inputs`: missing inputs
* `judging`: audits, disputes, and the effects of rulings
* `fraud_proofs`: proofs that a stated trace is wrong
* `metering`: work that is paid by time
* `running`: starts, milestones, results
* `attested_steps`: attestations of milestones and results: their conditions and their effect
* `leaving`: cancelled, amended and closed tasks
"""
