"""Floods by one stranger on a live devnet, and whether the network holds.

In reading order:

* `strict_node`: `ogpu-node` with the slots of a public network on a devnet
* `network`: the devnet that is attacked, and processes that leave it a part of each processor
* `clients`: HTTP by hand, and a WebSocket over trio
* `attack`: what an attack is, what an attacker works with, clients that it keeps connected
* `intruder`: a stranger among the peers
* `peer_blocks`, `peer_messages`: attacks on the peer-to-peer port
* `rpc_attacks`: attacks of clients on JSON-RPC, sockets and blob stores
* `attacker`: one attack in a process of its own; every attack in order
* `judging`: what was seen, the bars, and which of them an attack missed
* `measures`: what honest clients see, and what the processes cost
* `course`: a quiet stretch, then one attack after the other, each with its recovery
"""
