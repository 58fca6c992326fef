"""The node: chain, network and disk around the consensus machine, and the process that answers JSON-RPC.

In reading order:

* `errors`, `ports`: the errors that stop a node, and the exit codes; the default ports
* `config`, `clock`, `durable`: the settings of the command line, the time, small files
* `process`: a bounded log; the process itself; its garbage collection
* `p2p`, `peers`: the transport; above it, the messages between nodes
* `ledger`: the chain as this node holds it
* `sync`: blocks to and from peers
* `pool`: the entries that wait for a block
* `duty`: the duties of a validator
* `feed`: the stream to the RPC process, and its requests
* `monitoring`: log lines and figures for people
* `rpc`: the RPC process
* `loop`: carries out the effects of the consensus machine
* `service`: the node, put together from these rooms
* `run`, `chain_commands`, `key_commands`, `cli`: the command line
"""
