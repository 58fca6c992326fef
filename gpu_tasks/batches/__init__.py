"""Many requests in one unit: the forms of a batch that chain, providers, checkers and customers read.

In reading order:

* `requests`: the requests as the customer seals them, with the limits of their number and size
* `outcomes`: the outcome of each request: an output with its tokens, or a refusal
* `leaves`: an outcome as a leaf of the tree: its tokens, and a salted hash
* `sum_tree`: the tree over the leaves, whose root binds their number, order and sums; paths that show no leaf's hash
* `leaf_draws`: the line of a batch's leaves, each as long as the work that it claims
* `item_draws`: the draw of a claim's items to check: points on that line, at the rate of the claim
"""
