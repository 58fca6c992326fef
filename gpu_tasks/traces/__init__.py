"""The form of a run in segments that the chain, providers and judges read.

In reading order:

* `trace`: the root over a run's states, and the form of a proof that the trace is wrong
"""
