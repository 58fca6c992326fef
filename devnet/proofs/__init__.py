"""The proofs behind the make targets: attacks and failures on live devnets, judged.

In reading order:

* `work`: honest units, with a provider killed midway
* `files`: a file of requests whose customer is killed while it posts
* `batch_kills`: a batch of 4,096 requests whose provider is killed while it computes
* `market`: what a market of four providers computes, beside the same tokens computed bare
* `auction`: tasks from file to paid result, whoever dies on the way
* `containers`: jobs and leases in containers, left by either side
* `telemetry`: tasks are watched, whatever brokers do
* `roll_call`: devices prove their throughput, one daemon dies, one lies, one has too little
* `cheats`: every known way to cheat the market, with units, batches and tasks
* `elections`: sets change on real nodes, each reckoned anew
* `seats`: an operator takes a seat, changes keys, moves, and leaves, as the documents say
* `equivocation`: a validator proposes twice
* `crash_strikes`: the ways in which nodes are killed and lose their files
* `crash`: these strikes under load, judged
* `public_clients`: programs with nothing but public client libraries
* `clients`: these unmodified public clients, against a node and a devnet
* `flood`: floods by one stranger, and whether the network holds
* `liars`: nodes and blob stores that lie to the programs which people run
* `escape`: a container that tries to leave its limits, one way after the other
"""
