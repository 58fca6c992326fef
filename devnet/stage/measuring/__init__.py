"""Readings of a running devnet, and load on it, for scenarios, the demo and benchmarks.

In reading order:

* `ledger`: units and money, from the events of final blocks
* `claim_money`: the payments of a claim by the money table, from its events
* `session_ledger`: sessions, and the payments of their claims and places
* `task_claims`: the payments of the claims and disputes of tasks
* `task_ledger`: tasks at auction, the transfers that each event requires, and a thread that reads them
* `final_blocks`: a comparison of all nodes' final blocks
* `latency`: from the start of a slot to accepted, and to final
* `load`: transfers between the development accounts
* `observer`: a peer that only listens, and finds conflicting signatures
"""
