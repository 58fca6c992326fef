"""The computations of units and tasks, bit-identical on every backend. They use no input or output and no clock.

In reading order:

* `workload`: a workload as the market's daemons use it: bytes in, bytes out, and a check of the output
* `fingerprints`: fingerprints of runs in steps by the trails of their segments
* `stepwise`: a workload that runs in steps and can continue from the state at the end of any segment
* `streamed`: a workload that serves several requests at once, token by token
* `form`: a workload as the programs of customers and providers use it: names, request form, display, unit of cost
* `integer_arrays`: arrays of integers as a backend supplies them, and the reference in NumPy
* `sampling`: fingerprints of whole computations, by one integer of each row at places drawn from a seed
* `matmul_hash`: a chain of integer matrix products and the hash of its end: the smallest workload
* `backend_choice`: backends by name: NumPy, the reference, PyTorch on a device
* `torch_backends`: the backends of workloads in PyTorch, which is optional
* `train_int8`: training of a next-byte model in integers, in segments that can be checked one by one
* `render_tile`: pictures of scenes by integer path tracing, in tiles that fit together
* `matmul_chain`: matrix chains whose rows can be computed alone: a device's proof of its throughput
* `integer_transformer`: transformers in exact integers: their arithmetic, its backends, the arrays of a model file
* `decoder_int8`: language models of the Llama family
* `embed_int8`: encoders of the BERT class
* `importing`: float models to model files
* `registry`: the list of workloads, and the only module that names them
* `model_forms`: the forms of the registry, and one for each model in the user's store
* `pictures`: pictures that are bought as tiles, for programs that know no workload by name
"""
