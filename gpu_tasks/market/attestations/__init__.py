"""Execution attestations, of units and of tasks: their form, and the pallet that puts them into blocks.

In reading order:

* `usage`: what a provider says that its work consumed, and what no machine can have consumed
* `statement`: a provider's signed statement of what it ran, on what, with what result
* `task_statement`: the same of a task: a milestone that it has reached, or its result
* `kinds`: both kinds in one form: what a block lists, in which order, how much of it
* `task_forms`: when one of a task may be put into a block, and what it then does
* `attestations`: the pallet: what the author of a block puts into it about executed work
"""
