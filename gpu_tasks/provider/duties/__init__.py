"""The duties of a drawn provider: race, judge, and follow both to their ends.

In reading order:

* `parts`: the resources that all duties share
* `race_steps`: the next step of a race, from chain and journal; pure
* `cases`: the same for a seat in a case; pure
* `appeals`: the verdicts to appeal; pure
* `keyed_tasks`: long work beside the loop
* `duty`: the base of all duties: a step for each block, and work beside it
* `sent_steps`: messages: journal first, then the node, repeated until the chain shows them
* `work`: from a unit to its result
* `leaf_work`: leaves of a batch, shown or computed again
* `race`: the steps of a race
* `verdicts`: a judge's search for the right result of a unit
* `seats`: the steps of any case
* `judging`: the steps of cases about units and leaves
* `checks`: showing this provider's leaves of a batch, and auditing those of others
* `batch_disputes`: showing this provider's tree of a disputed batch
* `claim_items`: items of claims, fetched, checked and computed again
* `statements`: statements of checkers and voters: found, committed, and opened once that is final
* `checking`: checks of claims, by the checker and by the provider
* `voting`: votes about disputed items
* `roll_calls`: the steps of roll calls
* `losses`: devices' bond losses, reported and noted
* `endings`: the outcomes of races and cases
* `side_earnings`: payments for judging, auditing and standing by
* `resumer`: resuming devices after a missed race; reasons and ends of pauses
* `devices`: this provider's devices: served, paused and resumed
* `other_daemons`: another daemon with the same provider key
* `offences`: reporting double proposals
"""
