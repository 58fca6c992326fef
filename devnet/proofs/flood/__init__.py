"""Floods by one stranger on a live devnet, and the requirements on the network meanwhile.

In reading order:

* `strict_node`: `ogpu-node` with the slots of a public network on a devnet
* `network`: the attacked devnet, and processes that compete for its processors
* `clients`: HTTP by hand, and a WebSocket over trio
* `attack`: the definition of an attack, the attacker's tools, and its open connections
* `intruder`: a stranger among the peers
* `peer_blocks`, `peer_messages`: attacks on the peer-to-peer port
* `rpc_attacks`: attacks of clients on JSON-RPC, sockets and blob stores
* `attacker`: one attack in a process of its own; every attack in order
* `judging`: the measurements, the requirements, and the failed ones
* `measures`: the latency of honest clients, and the resources of the processes
* `course`: a quiet stretch, then one attack after the other, each with its recovery
"""
