"""Execution of requests in limited worker processes on this machine's devices.

In reading order:

* `gpu`: the hardware and its consumption
* `diagnoses`: results of the doctor's checks
* `inventory`: the machine's parts, of any vendor
* `free_memory`: the free memory of a device
* `workloads`: the workloads of this daemon
* `worker_wire`: messages between a daemon and its worker process
* `limits`: the kernel's limits on a worker
* `sandbox`: isolation of a worker with bubblewrap, where available
* `live_worker`: the worker process's answers to many requests at once, token by token
* `worker`: the worker process itself
* `worker_process`: a child process and its pipes, at the daemon
* `pace`: a worker's measured pace, and the time for requests
* `executor`: requests to a worker process, at the daemon
* `live`: streamed answers of a live worker process, at the daemon
* `bench`: one device: its workers and its meter
* `worker_start`: the backend for each hardware
* `chain_worker`: the process that computes for roll calls
* `chain_process`: requests to that process, at the daemon
* `chain_rates`: the rate of a device, and its work for a roll call
* `device_times`: working and idle times of each device, with reasons
* `line`: the queue for devices: races before checks
* `worker_pool`: all devices side by side
* `containers`: programs of strangers, in containers that they cannot leave
"""
