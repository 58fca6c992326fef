"""Blocks to and from peers, those that wait for their parents, and where this node stands.

In reading order:

* `waiting_blocks`: blocks that wait, a share for each peer
* `checkpoint_watch`: a checkpoint that the network contradicts
* `sets_ahead`: the sets of epochs that this node has not reached, as handoffs of peers prove them
* `sync`: what peers send and ask for; blocks on their way into the tree
* `proven_keys`: session keys that peers prove while they are connected
* `status`: this node's tip and final block, told to peers
"""
