"""Roll calls, in which all devices prove their throughput in the same blocks.

In reading order:

* `roll_call`: the windows of a roll call, and the throughput that a proof states
* `proofs`: the chain's records of a device's throughput, and the work that proves it
* `standing`: the valid proofs of devices, for readers of the chain
* `events`: the events and errors of Capacity
* `capacity`: the pallet
"""
