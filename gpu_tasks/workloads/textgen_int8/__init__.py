"""Byte-level text generation by an integer transformer, the same bits on every machine.

In reading order:

* `request`: the published service, and what a customer may ask of it, as canonical SCALE bytes
* `integer_ops`: the arithmetic: this file is the specification, and it holds integers only
* `model`: the model file: a header and integer arrays, in one canonical order
* `transformer`: tokens to logits: the forward pass, once, for every backend
* `backends`: which backends there are, and the one that everybody has: NumPy
* `decoding`: request to completion, and the check of one
* `batching`: many requests at once
* `conformance`: fixed work whose hash is published; a backend that misses one must not serve
* `service`: `textgen-int8` as a `Workload`
* `form`: `textgen-int8` as programs see it: a text to continue, a temperature
"""
