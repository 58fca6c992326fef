"""`make market`: what four providers on a real devnet compute and earn.

In reading order:

* `processes`: the processes of a network and all that they started; devices of a known speed
* `bare`: the same workload on the same devices with nothing beside it
* `__main__`: units of each size, a slowed provider beside a free one, and the bars
"""
