"""The data plane: sealed blobs, addressed by hash, kept off chain.

In reading order:

* `sealing`: content encrypted once, its key sealed to each reader
* `pieces`: a sealed blob that is too long for a store
* `unit_input`: what a customer seals for the racers of a unit
* `unit_output`: what a unit gives: an outcome for each of its requests, and their root
* `program_left`: what a program leaves: its outputs, and its last lines
* `endpoint`: where a blob store answers, and where nobody may be sent
* `name_lookup`: names to addresses, in threads that nobody waits for
* `side_by_side`: trying several at once, with one deadline
* `inventory`: what a provider says that its machine has, and that it bids for
* `presence`: the proof that a daemon of a provider key runs
* `blob_client`: blobs over HTTP: store one, fetch one
* `market_reads`: what providers and customers ask a node about the market, typed
* `proven_rates`: what devices have proven at roll calls, and why the chain gives one no work
* `training_reads`: what providers and customers ask a node about tasks, typed
* `run_states`: what a checkpoint and a result hold, and whether it is what was stated
* `appeals`: what an appeal against a verdict about a unit binds and brings
"""
