"""The duties of a drawn provider: race, check, vote, and follow each to its end.

In reading order:

* `parts`: the resources that all duties share
* `race_steps`: the next step of a race, from chain and journal; pure
* `keyed_tasks`: long work beside the loop
* `duty`: the base of all duties: a step for each block, and work beside it
* `sent_steps`: messages: journal first, then the node, repeated until the chain shows them
* `work`: from a unit to its result
* `race`: the steps of a race
* `sides`: the deliveries of all sides of a dispute about different results
* `item_sources`: the items of claims as duties use them, with a source for each market
* `unit_items`: items of units, fetched, checked and computed again
* `statements`: statements of checkers and voters: found, committed, and opened once that is final
* `checking`: checks of claims, by the checker and by the provider
* `voting`: votes about disputed items, different results and inputs
* `dispute_appeals`: appeals of votes that contradict this provider's computation
* `kept_rows`: the rows of open proofs on the disk
* `row_items`: items of roll calls: rows, delivered, fetched and computed again
* `roll_calls`: the steps of roll calls
* `losses`: devices' bond losses, reported and noted
* `endings`: the outcomes of races
* `side_earnings`: payments for checking, voting and standing by
* `resumer`: resuming devices after a missed race; reasons and ends of pauses
* `devices`: this provider's devices: served, paused and resumed
* `other_daemons`: another daemon with the same provider key
* `offences`: reporting double proposals
"""
