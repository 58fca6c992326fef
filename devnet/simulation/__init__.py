"""Deterministic simulation of a whole network: the real consensus machine, virtual time, planned faults.

In reading order:

* `packets`: messages between nodes; the last blocks of epochs, and the handoffs that they make
* `keys`: real and fast stand-in signatures
* `elections`: who sits in which epoch
* `world`: virtual time, delay, loss and partitions, the observer that checks everybody
* `node`: an honest node around the machine, with a disk that survives crashes
* `joiner`: a node that joins by handoffs alone
* `byzantine`: nodes that break the rules
* `edges`: trouble where one set takes over from another
* `gadgets`: finality gadgets alone, over two epochs
* `twins`: one key has two of them
* `scenario`: who misbehaves and which storm they meet; one run, judged
* `__main__`: many seeds of many scenarios
"""
