"""What a unit or a task computes, bit-identical on every backend. No input or output, no clock.

In reading order:

* `workload`: what a workload is to the market's daemons: bytes in, bytes out, and a check of the bytes
* `stepwise`: what a workload is that runs in steps, and goes on from the state at the end of any segment
* `segment_checks`: one segment of such a run checked, and a proof of fraud read with one state
* `form`: what it is to the programs of customers and providers: names, request form, display, unit of cost
* `matmul_hash`: a chain of integer matrix products and the hash of its end: the smallest workload
* `backend_choice`: which backend a name means: NumPy, the reference, PyTorch on a device
* `integer_arrays`: arrays of integers as a backend supplies them, and the reference in NumPy
* `torch_backends`: the backends of workloads in PyTorch, for whoever has it
* `textgen_int8`: byte-level text generation by an integer transformer
* `train_int8`: training of a next-byte model in integers, in segments that can be checked one by one
* `render_tile`: pictures of scenes by paths of light in integers, in tiles that fit together
* `matmul_chain`: matrix chains whose rows can be computed alone: what a device computes to show its throughput
* `registry`: which workloads there are: the one place that names them
* `pictures`: pictures that are bought as tiles, for programs that know no workload
"""
