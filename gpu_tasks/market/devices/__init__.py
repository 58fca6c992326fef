"""GPUs with their owners, bonds and work.

In reading order:

* `records`: a provider's public data, and a device
* `events`: the events and errors of Devices
* `run_queue`: the units of one device in their order, as pure functions
* `device_work`: the work and the collateral of devices: the part of the pallet that markets move
* `devices`: the pallet Devices: owners, bonds and queues
* `checkers`: the validators that may check, and since when each can read inputs
"""
