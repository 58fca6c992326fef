"""Where requests are computed: limited worker processes on this machine's devices.

In reading order:

workshop.py     all devices side by side
line.py         who is next on a device: races before judgements
starting.py     which backend computes on which hardware
bench.py        one device: its workers and its meter
executor.py     a worker process, from outside
worker.py       a worker process, from inside
worker_wire.py  what the two say to each other
limits.py       what a worker may use
workloads.py    which workloads this daemon has
gpu.py          the hardware, and what it consumes
"""
