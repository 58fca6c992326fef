"""A chain under random steps of all actors, with books beside it that are compared after each step.

In reading order:

* `figures`: the figures of a run, the conditions under which it proves something, and the report
* `season`: one chain from block 0 on: blocks, calls by right and wrong signers, stalled finality
"""
