"""Integer matrix chains with independent rows: the work fits any device size, and the check of a few rows is small.

In reading order:

* `challenge`: the seed and the shape of the work, its number of operations, and the hashes of a row
* `arithmetic`: the interface of a backend, its random numbers, the reference in plain integers, the backend in NumPy
* `torch_chain`: the backend in PyTorch, which is optional
* `prover`: the root over the hashes of all rows, and the backends by name with their vectors
"""
