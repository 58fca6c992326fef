"""Blocks to and from peers, those that wait for their parents, and where this node stands.

In reading order:

* `waiting`: blocks that wait, a share for each peer
* `intake`: a block's header, then its body, no deeper than what was proven
* `sync`: what peers send and ask for; blocks on their way into the tree
* `standing`: this node's tip and final block, told to peers
"""
