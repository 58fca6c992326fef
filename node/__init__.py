"""The node: chain, network and disk around the consensus machine, and the process that answers JSON-RPC.

In reading order:

* `errors`, `ports`: what stops a node, and the exit codes; where it listens
* `config`, `clock`, `durable`: what the command line says, the time, small files
* `process`: a log that strangers cannot fill; the process itself; its garbage
* `p2p`, `peers`: the transport; above it, what nodes say to each other
* `ledger`: the chain as this node holds it
* `sync`: blocks to and from peers
* `pool`: what waits for a block
* `duty`: what a validator does
* `feed`: what the RPC process is told and asks
* `monitoring`: what people watch
* `rpc`: the RPC process
* `loop`: carries out what the consensus machine says
* `service`: the node, put together from these rooms
* `chain_options`, `run`, `chain_commands`, `key_commands`, `cli`: the command line
"""
