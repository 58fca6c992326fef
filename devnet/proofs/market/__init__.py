"""`make market`: the throughput and the earnings of four providers on a real devnet.

In reading order:

* `processes`: the processes of a network and their children; devices of a known speed
* `bare`: the same workload without a network
* `__main__`: units of each size, a slowed provider beside a free one, and the requirements
"""
