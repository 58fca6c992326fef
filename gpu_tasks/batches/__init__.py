"""Many requests in one unit: what chain, providers, judges and customers all read of a batch.

In reading order:

* `requests`: the requests as the customer seals them, and how many and how large they may be
* `outcomes`: what came of each request: an output with its tokens, or that it is no request
* `leaves`: an outcome as a leaf of the tree: its tokens, and a salted hash
* `sum_tree`: the tree over the leaves, whose root binds their number, order and sums; paths that show no leaf's hash
* `leaf_draws`: which leaves are looked at, each as likely as what it claims
"""
