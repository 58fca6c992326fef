"""A provider and a node that cheat: the production programs with one step made dishonest, for development networks.

In reading order:

* `lies`: what may be stated of a batch instead of what is right; pure
* `executors`: executors that return wrong work and say that it is right
* `swapped_worker`: a worker like the honest one, with other weights
* `races`: daemons that cheat about races of units
* `daemons`: daemons that cheat about batches, leaves, tasks, programs and roll calls
* `equivocating_node`: `ogpu-node` that proposes twice in each of its slots
"""
