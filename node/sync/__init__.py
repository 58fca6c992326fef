"""Blocks to and from peers, those that wait for their parents, and where this node stands.

* `sync`: what peers send and ask for; blocks on their way into the tree
* `intake`: a block's header, then its body, no deeper than what was proven
* `waiting`: blocks that wait, a share for each peer
* `standing`: this node's tip and final block, told to peers
"""
