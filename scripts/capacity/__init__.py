"""One machine that claims to be many devices at roll calls, over the real pallets.

In reading order:

* `crowd`: the machine with a fixed rate of operations, its owners and its fake devices, in one roll call
* `__main__`: a line for each number of devices; `out/capacity.json`
"""
