"""Networks of many nodes, simulated or real, for users and for proofs.

In reading order:

* `simulation`: the consensus of a network in virtual time
* `launcher`: `ogpu-devnet`, a real network on one machine
* `stage`: the parts of scenarios on such a network
* `demo`: real inference, mined and paid
* `proofs`: attacks and failures, judged
"""
