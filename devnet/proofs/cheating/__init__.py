"""A provider that cheats: the production daemon with one step made dishonest. For demonstrations and tests only.

In reading order:

* `attempts`: sending what should be refused, and telling the chain's answer
* `lies`: what may be stated of a batch instead of what is right; pure
* `executors`: executors that return wrong work and say that it is right
* `swapped_worker`: a worker like the honest one, with other weights
* `copied`: commits what a rival committed, and opens it with what the rival revealed
* `replayed`: sends the attestation of an earlier race again, as it was and renamed
* `late`: holds the attestation back until the window has passed
* `intruder`: commits to, and attests, units that others were drawn for
* `bent_batches`: one wrong answer in the middle of a batch; and a tree that is shown to nobody
* `lying_daemons`: answers batches with such a lie, and shows as many leaves of it as it can; passes without a look
* `bent_runs`: executors that train wrongly: a bit in one weight, a skipped tenth
* `bent_outputs`: runs a customer's program, and gives something else than it left
* `made_up_rows`: commits to rows of a roll call that nobody computed
* `task_daemons`: states a milestone again; shows nobody a checkpoint; judges without looking
* `equivocating_node`: `ogpu-node` that proposes twice in each of its slots
"""
