"""The proofs behind the make targets: attacks and failures on live devnets, judged.

In reading order:

* `work`: honest units, with a provider killed midway
* `cheating`: the providers and the node that cheat
* `cheat_judgement`: what must have become of a cheat and of everybody else, judged from the final chain
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
* `containers`: jobs and leases in containers, left by either side
* `auction`: tasks from file to paid result, whoever dies on the way
* `market`: what a market of four providers computes, beside the same tokens computed bare
* `files`: a file of requests whose customer is killed while it posts
* `batch_kills`: a batch of 4,096 requests whose provider is killed while it computes
* `roll_call`: devices prove their throughput, one daemon dies, one lies, one has too little
* `telemetry`: tasks are watched, whatever brokers do
* `batch_cheats`: every lie about a batch that one answers alone, or two alike: drawn leaves find it
* `differing`: batches that two answer differently: a court computes one leaf, the liar loses
* `task_cheats`: every known way to cheat about a task
* `cheats`: every known way to cheat the market, with units and with tasks
"""
