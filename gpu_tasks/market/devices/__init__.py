"""Who owns which GPU, what it is bonded with, what it works on.

In reading order:

* `records`: a provider's public data, and a device
* `events`: what Devices tells the world, and why a call of it can fail
* `endpoints`: where a provider's blob store may be said to answer
* `devices`: the pallet Devices: who owns which GPU, its bond, and the one unit it works on
* `judges`: who in office may judge, and since when it can read inputs
"""
