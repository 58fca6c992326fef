"""What the chain and those who compute both read of a run in segments.

In reading order:

* `trace`: the root over a run's states, and the form of a proof that the trace is wrong
"""
