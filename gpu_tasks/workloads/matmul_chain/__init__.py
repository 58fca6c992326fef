"""Integer matrix chains whose rows can be computed alone: work sized to a device, a check that is not.

In reading order:

* `challenge`: a seed and the shape of the work, and what that work counts
* `arithmetic`: what a backend is, its chance, and the reference in plain integers, and the backend in NumPy
* `torch_chain`: the backend in PyTorch, for whoever has it
* `prover`: all rows under one root, rows drawn later shown and checked; the backends by name, their vectors
"""
