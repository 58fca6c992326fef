"""Roll calls, in which all enrolled devices prove their throughput in the same blocks.

In reading order:

* `roll_call`: the windows of a roll call, and the throughput that a commit proves
* `proofs`: the chain's records of a device's proof, and the draws of rows and inspectors
* `standing`: the valid proofs of devices, for readers of the chain
* `events`: the events and errors of Capacity
* `capacity`: the pallet
"""
