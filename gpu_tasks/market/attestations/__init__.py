"""Execution attestations, of any market: their form, and the pallet that puts them into blocks.

In reading order:

* `usage`: what a provider says that its work consumed, and what no machine can have consumed
* `kinds`: all kinds in one form: what a block lists, in which order, how much of it
* `work_source`: what a market must do to have its work attested, and how others find it
* `statement`: a provider's signed statement of a unit: what it ran, on what, with what result
* `attestations`: the pallet: what the author of a block puts into it about executed work
"""
