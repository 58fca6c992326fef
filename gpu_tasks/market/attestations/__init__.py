"""Execution attestations: their form, and the pallet that puts them into blocks.

In reading order:

* `statement`: a provider's signed statement of what it ran, on what, with what result
* `task_statement`: the same of a task: a milestone that it has reached, or its result
* `attestations`: the pallet: what the author of a block puts into it about executed work
"""
