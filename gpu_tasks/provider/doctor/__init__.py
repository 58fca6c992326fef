"""Checks for the problems that keep a provider from earning, each with its reason and remedy.

In reading order:

* `machine`: this machine: user, disk, GPUs, sandbox, conformance of its workers
* `chain`: the node, the registration, the devices, the blob store
"""
