"""Transformers in exact integers: the arithmetic that `decoder-int8` and `embed-int8` share, and its backends.

In reading order:

* `arithmetic`: the specification: each operation in integers, and the reference without a float
* `numpy_backend`: the same in float64, with products in float32
* `torch_backend`: the same in PyTorch, which is optional
* `backends`: the backends by name
* `rows`: matrices and gains of a model file, and the checks of their values
* `tables`: the tables of a model file, computed in integers
* `conformance`: fixed work with published hashes
* `rounding`: float matrices to integer rows
* `effort`: the operations of a transformer that are no products, for estimates of its time
"""
