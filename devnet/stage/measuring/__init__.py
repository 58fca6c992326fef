"""What scenarios, the demo and benchmarks read off a running devnet, and put under load.

In reading order:

* `ledger`: units and money, from the events of final blocks
* `task_audits`: what the judges of an audited task are due
* `task_ledger`: tasks at auction, what each of their events should have moved, and a thread that reads them
* `final_blocks`: whether all nodes have the same ones, and lost none
* `latency`: from the start of a slot to accepted, and to final
* `load`: transfers, as many as go
* `observer`: a peer that only listens, and finds conflicting signatures
"""
