"""Blocks to and from peers, blocks that wait for their parents, and this node's status.

In reading order:

* `waiting_blocks`: blocks that wait, with a share for each peer
* `checkpoint_watch`: detection of a checkpoint that the network contradicts
* `sets_ahead`: the sets of epochs that this node has not reached, proven by handoffs of peers
* `sync`: blocks and requests of peers, and the import of blocks into the tree
* `proven_keys`: session keys that peers prove while they are connected
* `status`: this node's tip and final block, sent to peers
"""
