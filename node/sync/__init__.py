"""Blocks to and from peers, those that wait for their parents, and where this node stands.

* `sync`: what peers send and ask for; blocks on their way into the tree
* `orphans`: blocks that came before their parents
* `standing`: this node's tip and final block, told to peers
"""
