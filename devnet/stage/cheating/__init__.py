"""A provider and a node that cheat: the production programs with one step made dishonest, for development networks.

In reading order:

* `lies`: false statements about a batch; pure functions
* `executors`: executors that return wrong work as if it were right
* `wrong_models`: language models computed with other weights, fewer layers, fewer bits or another seed
* `wrong_worker`: a worker like the honest one, with one of these models
* `races`: daemons that cheat about races of units
* `daemons`: daemons that cheat about batches, leaves, tasks, programs and roll calls
* `session_cheats`: daemons that cheat in sessions
* `equivocating_node`: `ogpu-node` that proposes twice in each of its slots
"""
