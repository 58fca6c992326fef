"""What demo, proofs and benchmarks read off a running devnet, and put under load.

In reading order:

* `ledger`: units and money, from the events of final blocks
* `task_audits`: what the judges of an audited task are due
* `task_ledger`: tasks at auction, and what each event of theirs should have moved
* `task_following`: the same, read in a thread while something else goes on
* `final_blocks`: whether all nodes have the same ones, and lost none
* `latency`: from the start of a slot to accepted, and to final
* `load`: transfers, as many as go
* `observer`: a peer that only listens, and finds conflicting signatures
* `observing`: that peer as a process beside a devnet
* `vote_records`: votes that were sent, beside the sign-states of who sent them
* `report`: the JSON that each leaves behind
* `timeline`: the lines that each prints as it goes
* `choice`: some names out of a catalogue
"""
