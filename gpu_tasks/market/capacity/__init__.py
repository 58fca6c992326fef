"""What a device may claim: at roll calls all devices that are enrolled prove their throughput in the same blocks.

In reading order:

* `roll_call`: when which part of a roll call is open, and what a commit proves
* `proofs`: what the chain keeps of a device, and which rows and inspectors are drawn
* `standing`: what stands of devices, for who reads the chain
* `events`: what Capacity tells the world, and why a call of it can fail
* `capacity`: the pallet
"""
