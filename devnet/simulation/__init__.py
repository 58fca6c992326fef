"""Deterministic simulation of a whole network: the real consensus machine, virtual time, planned faults.

In reading order:

* `packets`: messages between nodes; the last blocks of epochs, and the handoffs that prove them
* `keys`: real and fast stand-in signatures
* `elections`: the active set of each epoch
* `world`: virtual time, delay, loss and partitions, the observer that checks all nodes
* `node`: an honest node around the machine, with a disk that survives crashes
* `joiner`: a node that joins by handoffs alone
* `byzantine`: nodes that break the rules
* `edges`: faults at the boundary between two epochs
* `gadgets`: finality gadgets alone, over two epochs
* `twins`: one key with two gadgets
* `scenario`: the roles of the nodes and their storm; one run, judged
* `__main__`: many seeds of many scenarios
"""
