"""Floods by one stranger on a live devnet, and whether the network holds.

In reading order:

* `strict_node`: `ogpu-node` with the slots of a public network on a devnet
* `network`: the devnet that is attacked
* `scene`: what an attacker works with, and the account of what it did
* `attack`: what an attack is: a name, what it tries, and a coroutine that tries it within bounds
* `http_client`: HTTP by hand, for clients that must be able to do it badly
* `websocket_client`: a WebSocket over trio
* `reconnecting`: clients that connect again when their connection ends
* `sockets`: attacks by connections that are held and not used
* `peers`: attacks of an authenticated stranger on the peer-to-peer port
* `rpc`: attacks of a client on JSON-RPC
* `blobs`: attacks on a provider's blob store
* `catalogue`: every attack, in the order in which they are tried
* `attacker`: one attack in a process of its own
* `measuring`: what honest clients see, and what the processes cost, while the attacks run
* `hogs`: processes that leave the nodes a part of each processor
* `judging`: the bars, and which of them an attack missed
* `telling`: what the run prints
* `course`: a quiet stretch, then one attack after the other, each with its recovery
"""
