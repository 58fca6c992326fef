"""The form of a run in segments that the chain, providers and checkers read.

In reading order:

* `trace`: the root over a run's states
"""
