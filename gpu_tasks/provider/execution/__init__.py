"""Where requests are computed: limited worker processes on this machine's devices.

In reading order:

* `gpu`: the hardware, and what it consumes
* `diagnoses`: what is said of a thing that was looked at
* `inventory`: what this machine has, of whatever maker
* `workloads`: which workloads this daemon has
* `worker_wire`: what a worker process and its daemon say to each other
* `limits`: what a worker may use
* `sandbox`: the walls around it, where this machine has some
* `worker`: a worker process, from inside
* `worker_process`: a process and its pipes, from outside
* `executor`: a worker process, from outside
* `bench`: one device: its workers and its meter
* `worker_start`: which backend computes on which hardware
* `chain_worker`: the process that computes for roll calls, from inside
* `chain_process`: the same, from outside
* `device_times`: how long each device did what, or stood still, and why
* `line`: who is next on a device: races before judgements
* `worker_pool`: all devices side by side
* `containers`: strangers' programs, in containers that they cannot leave
"""
