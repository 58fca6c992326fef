"""`make market`: what four providers on a real devnet compute and earn.

In reading order:

* `family`: the processes of a network and all that they started
* `turns`: devices of a known speed
* `bare`: the same workload on the same devices with nothing beside it
* `trades`: units of one size, posted and followed with `ogpu`, and what came of them
* `shares`: a provider that is slowed down on purpose beside a free one
* `__main__`: all of it, and the bars
"""
