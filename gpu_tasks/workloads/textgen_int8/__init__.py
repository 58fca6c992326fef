"""Byte-level text generation by an integer transformer, the same bits on every machine.

In reading order:

* `request`: the published service, its ids, and requests as canonical SCALE bytes
* `integer_ops`: the arithmetic: this file is the specification, and it uses integers only
* `model`: the model file: a header and integer arrays, in one canonical order
* `transformer`: tokens to logits: one forward pass for every backend
* `backends`: the backends by name, and the NumPy backend of every machine
* `decoding`: a request to its completion, and the check of a completion
* `batching`: many requests at once
* `conformance`: fixed work with a published hash; a backend with another hash must not serve
* `service`: `textgen-int8` as a `Workload`
* `form`: `textgen-int8` as programs see it: a text to continue, a temperature
"""
