"""One machine as many devices before roll calls: the real pallets, a machine that computes so much a slot and no more.

In reading order:

* `crowd`: a machine, its owners and its fake devices on a chain with one honest machine's worth of power
* `__main__`: a line for each number of devices; `out/capacity.json`
"""
