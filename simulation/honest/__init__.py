"""Honest parties in random units and tasks: results of one backend, checked with another, with kills in between.

* `work`: random requests of all workloads, and their backends on this machine
* `bit_flips`: a backend with one flipped bit
* `machines`: a provider's process over its folder, and kills
* `ledger`: the simulated chain and network of a case
* `play`: a case from the result to the end of its checks
* `parts`: the cases of a run, in parts
"""
