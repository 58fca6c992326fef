"""What a drawn provider does: race, judge, and see both to their ends.

In reading order:

* `parts`: what all duties work with
* `race_steps`: what chain and journal ask for next in a race; pure
* `cases`: the same for a seat in a case; pure
* `appeals`: which verdicts have to be appealed; pure
* `keyed_tasks`: long work beside the loop
* `duty`: what all duties are: a step for each block, and work beside it
* `sent_steps`: journal first, then the node, and again until the chain shows it
* `work`: from a unit to its result
* `leaf_work`: leaves of a batch, shown or computed again
* `race`: taking the steps of a race
* `verdicts`: finding the right result of a unit before the courts
* `seats`: taking the steps of a case, whatever that is about
* `judging`: the same of cases about units and leaves
* `checks`: showing the leaves of a batch, and auditing those of others
* `batch_disputes`: showing the own tree of a batch that others answered differently
* `roll_calls`: taking the steps of roll calls
* `losses`: devices' bond losses, reported and noted
* `endings`: what became of races and cases
* `side_earnings`: what judging, auditing and standing by brought, noted as it ends
* `resumer`: devices that a missed race paused are offered again; why a device is paused, and until when
* `devices`: the own devices: which may work here, which are paused and resumed
* `other_daemons`: another daemon with the same provider key
* `offences`: reporting double proposals
"""
