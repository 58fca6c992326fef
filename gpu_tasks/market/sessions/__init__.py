"""Sessions: a reserved place at a provider, paid by the customer's vouchers.

In reading order:

* `vouchers`: the customer's signed promises to pay, off the chain
* `records`: a session, its legs, its claims and the places of devices
* `spares`: the proof and the pay of a spare
* `money`: the pay of a place, the collateral, the limits of a claim
* `events`: the events and errors of Sessions
* `storage`: the storage, its parameters and schedules
* `places`: offered, occupied and drawn places of devices
* `life`: a session from its opening to its end, and its claims
* `sessions`: the pallet Sessions
* `sessions_api`: queries of customers, providers and checkers
"""
