"""What a unit of inference computes, bit-identical on every backend. No input or output, no clock.

In reading order:

* `workload`: what a workload is to the market's daemons: bytes in, bytes out, and a check of the bytes
* `form`: what it is to the programs of customers and providers: names, request form, display, unit of cost
* `matmul_hash`: a chain of integer matrix products and the hash of its end: the smallest workload
* `textgen_int8`: byte-level text generation by an integer transformer
* `registry`: which workloads there are: the one place that names them
"""
