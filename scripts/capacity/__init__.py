"""One machine as many devices at roll calls: the real pallets, and a machine with a fixed rate of operations.

In reading order:

* `crowd`: a machine, its owners and its fake devices on a chain with one honest machine's worth of power
* `__main__`: a line for each number of devices; `out/capacity.json`
"""
