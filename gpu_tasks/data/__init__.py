"""The data plane: sealed blobs, addressed by hash, kept off chain.

In reading order:

* `sealing`: content encrypted once, its key sealed to each reader
* `pieces`: a sealed blob that is too long for a store
* `unit_input`: the sealed input of a unit for its racers
* `unit_output`: the output of a unit: an outcome for each of its requests, and their root
* `run_states`: the content of a checkpoint and a result, and its check against the chain
* `claim_delivery`: the result of a unit or a task for a checker or a voter, and its checks
* `program_left`: the remains of a program: its outputs, and its last log lines
* `endpoint`: the address of a blob store, and the addresses that no client may connect to
* `name_lookup`: names to addresses, in separate daemon threads
* `side_by_side`: several attempts at once, with one deadline
* `inventory`: a provider's claims about its machine and its bids
* `presence`: the proof that a daemon of a provider key runs
* `blob_client`: blobs over HTTP: store one, fetch one
* `market_reads`: typed reads of the market for providers and customers
* `claim_reads`: typed reads of claims, disputes and ballots
* `session_reads`: typed reads of sessions
* `proven_rates`: devices' proven throughput at roll calls, and the reason why one gets no work
* `training_reads`: typed reads of tasks for providers and customers
* `appeals`: an appeal against the decision of a dispute about a unit or a task
"""
