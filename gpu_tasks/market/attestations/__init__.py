"""Execution attestations, of any market: their form, and the pallet that puts them into blocks.

In reading order:

* `usage`: the resources that a provider states for its work, and the bounds of any machine
* `kinds`: all kinds in one form: their list in a block, its order and its limits
* `work_source`: the interface and the registry of markets whose work is attested
* `statement`: a provider's signed statement of a unit: program, device, result
* `attestations`: the pallet: the inherent by which a block's author attaches attestations
"""
