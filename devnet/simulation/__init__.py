"""Deterministic simulation of a whole network: the real consensus machine, virtual time, planned faults.

In reading order:

* `packets`: what nodes send each other
* `keys`: real and fast stand-in signatures
* `weather`: delay, loss, partitions
* `world`: virtual time, the links, the observer that checks everybody
* `node`: an honest node around the machine, with a disk that survives crashes
* `roles`: full nodes, and the shapes of networks
* `byzantine`: nodes that break the rules
* `scenario`: who misbehaves and which storm they meet; one run, judged
* `report`: figures of many runs
* `__main__`: many seeds of many scenarios
"""
