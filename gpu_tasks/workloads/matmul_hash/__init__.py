"""A chain of integer matrix products and the hash of its end: the smallest workload, the same bits on every machine.

In reading order:

* `request`: requests and outputs as canonical SCALE bytes with limits
* `service`: `matmul-hash` as a `Workload`: two backends, its vectors, and a check that computes again
* `form`: `matmul-hash` as programs see it
"""
