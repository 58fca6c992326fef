"""What a machine, a key and a chain lack for a provider to earn, each with its reason and what to do.

In reading order:

* `machine`: this machine: user, disk, GPUs, walls, whether its workers conform
* `chain`: the node, the registration, the devices, the blob store
"""
