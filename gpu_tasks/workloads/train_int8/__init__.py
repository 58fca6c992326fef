"""A model that learns to guess the next byte of a customer's text, in integers: the same bits on every machine.

In reading order:

* `request`: what is asked and answered, as canonical SCALE bytes with limits, and what a step costs
* `arithmetic`: what a backend supplies, and the reference; together with `training_step` it is the specification
* `backends`: which backends there are, and the one that everybody has: NumPy
* `training_step`: forward, backward, momentum: one step, with the bounds of all its values
* `state`: weights and momenta as bytes
* `run`: a run in segments: states as bytes, steps from any of them
* `conformance`: fixed work whose hashes are published; a backend that misses one must not serve
* `service`: `train-int8` as a `Workload` and a `StepwiseWorkload`
* `form`: `train-int8` as programs see it: a text, sizes, a rate
"""
