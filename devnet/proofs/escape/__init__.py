"""A stranger's container that tries to leave its limits, one way after the other: `make escape`.

In reading order:

* `probing`: the program that tries the kernel
* `listener`: somebody who answers on a port
* `ground`: a private piece of network: this machine, the world, a cloud's metadata
* `scene`: an engine, a provider's secrets, and how a program is run there
* `attempt`: what an attempt is, and what it is judged by
* `resources`: attempts on disk, memory, processes, time, logs, open files
* `kernel`: attempts on mounts, system settings, users, devices, system calls
* `neighbours`: attempts on the network, on other containers, on the provider's files
* `victim`: a provider that is killed
* `handed_over`: attempts by what is handed over: outputs, images; and what a killed provider leaves
* `catalogue`: every attempt, in order
* `course`: one attempt after the other, and whether the provider is unharmed after each
"""
