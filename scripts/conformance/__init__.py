"""The same hashes of exact workloads on every backend and Python version of this machine (`make conformance`).

In reading order:

* `plain_training`: `train-int8` in plain Python integers, from the request to the states
* `cases`: the inputs: seeds, shapes, requests
* `planted`: backends that are wrong in one bit
* `transformers`: texts of `decoder-int8` and `embed-int8`, and of a model file: alone, in batches, in chunks
* `instructions`: sets of processor instructions, and the variables that choose one
* `answers`: the hashes of a backend; a process for each
* `verdict`: the hashes that must be equal, and those that must differ
"""
