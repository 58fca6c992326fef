"""The life of a task: what its calls and its deadlines do.

In reading order:

* `submitting`: how a task begins
* `bidding`: bids, sealed and opened
* `ending`: how slots, standbys, bids and the task itself end, or go to auction again
* `replicating`: tasks that several compute, and what comes of their comparison
* `awarding`: from the last commitment to the award
* `failing`: who does not start, or dies
* `inputs`: inputs that are not to be had
* `judging`: audits, disputes, and what the courts make of them
* `fraud_proofs`: proofs that a stated trace is wrong
* `metering`: work that is paid by time
* `running`: starts, milestones, results
* `attested_steps`: attestations of milestones and results: the conditions, and what attaching one does
* `leaving`: cancelled, amended and closed tasks
"""
