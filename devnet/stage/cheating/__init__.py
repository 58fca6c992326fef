"""A provider and a node that cheat: the production programs with one step made dishonest, for development networks.

In reading order:

* `lies`: false statements about a batch; pure functions
* `executors`: executors that return wrong work as if it were right
* `swapped_worker`: a worker like the honest one, with other weights
* `races`: daemons that cheat about races of units
* `daemons`: daemons that cheat about batches, leaves, tasks, programs and roll calls
* `equivocating_node`: `ogpu-node` that proposes twice in each of its slots
"""
