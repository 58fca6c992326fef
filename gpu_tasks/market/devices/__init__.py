"""Who owns which GPU, what it is bonded with, what it works on.

In reading order:

* `records`: a provider's public data, and a device
* `events`: what Devices tells the world, and why a call of it can fail
* `run_queue`: the units of one device, in their order; pure
* `device_work`: what devices work on, and what secures it: the part of the pallet that markets move
* `devices`: the pallet Devices: who owns which GPU, its bond, and how many units it takes
* `judges`: who in office may judge, and since when it can read inputs
"""
