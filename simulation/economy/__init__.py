"""A chain under random steps of everybody, its books kept beside it and compared after each.

In reading order:

* `figures`: what a run has shown, what is missing for it to show anything, and how that is told
* `season`: one chain from block 0 on: blocks, calls by right and wrong signers, finality that stands still
"""
