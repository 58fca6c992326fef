"""A model that learns to guess the next byte of a customer's text, in integers: the same bits on every machine.

In reading order:

* `request`: requests and outputs as canonical SCALE bytes with limits, and the cost of a step
* `arithmetic`: the operations of a backend, and the reference; with `training_step` it is the specification
* `backends`: the backends by name, and the NumPy backend of every machine
* `training_step`: one step: forward, backward, momentum, with the bounds of all its values
* `state`: weights and momenta as bytes
* `run`: a run in segments: states as bytes, steps from any of them
* `conformance`: fixed work with published hashes; a backend that differs in one must not serve
* `tensors`: the trained model as floats, for other programs
* `sampling`: a trained model continues a text
* `service`: `train-int8` as a `Workload` and a `StepwiseWorkload`
* `form`: `train-int8` as programs see it: a text, sizes, a rate
"""
