"""Two answer a batch, one of them wrongly in one place: each shows its tree, a court computes one leaf, the liar loses.

In reading order:

* `scenes`: what is tried
* `traces`: what final blocks and daemons say of one batch, as values
* `judging`: what must have come of it, and the figures
* `course`: one batch after the other on a devnet
"""
