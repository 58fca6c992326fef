"""The proofs behind the make targets: attacks and failures on live devnets, judged.

In reading order:

* `work`: honest units, with a provider killed midway
* `sessions`: many sessions, settled to the grain
* `files`: a file of requests whose customer is killed while it posts
* `batch_kills`: a batch of 4,096 requests whose provider is killed while it computes
* `market`: the throughput of a market of four providers, beside the same tokens computed bare
* `chats`: chats in sessions, at the engine's speed and with either side killed amid answers
* `auction`: tasks from file to paid result, with providers killed on the way
* `containers`: jobs and leases in containers, left by either side
* `telemetry`: the progress of tasks, watched through failing brokers
* `roll_call`: devices prove their throughput: one daemon dies, one lies and is refuted, one machine is too weak
* `cheats`: every known way to cheat the market, with units, batches, sessions and tasks
* `elections`: changing sets on real nodes, each computed again
* `seats`: an operator takes a seat, changes keys, moves, and leaves, by the documents' commands
* `equivocation`: a validator proposes twice
* `crash_strikes`: the ways in which nodes are killed and lose their files
* `crash`: these strikes under load, judged
* `stolen_key`: a budget from its creation to its end, and a thief with a delegate's key
* `public_clients`: programs that use public client libraries alone
* `clients`: these unmodified public clients, against a node and a devnet
* `flood`: floods by one stranger, and the network's resistance
* `liars`: nodes and blob stores that lie to the command-line programs
* `escape`: a container that tries to escape its limits, one way after the other
"""
