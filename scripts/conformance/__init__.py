"""One root for all: the exact workloads on every backend and Python version of this machine (`make conformance`).

In reading order:

* `plain_training`: `train-int8` in plain Python integers, from the request to the states
* `cases`: what is computed: seeds, shapes, requests
* `planted`: backends that are wrong in one bit
* `text_ways`: texts alone, in batches, in chunks
* `answers`: what a backend gives, in hashes; a process for each
* `verdict`: what must be equal, and what must not be
"""
