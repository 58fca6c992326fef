"""The JSON-RPC process: its own replica of the chain, and every method of the public interface.

* `jsonrpc`: requests and answers as values
* `broadcast`: items from one writer to many listeners
* `replica`: the chain as this process knows it, fed by the node
* `block_reads`: how parameters find blocks, and blocks as JSON
* `runtime_calls`: the chain's runtime over the replica's states
* `registry`: which methods exist, and their parameters
* `methods/`: the methods
* `server`: HTTP and WebSocket
* `__main__`: the process
* `heartbeat`: its signs of life
* `supervisor`: starts it beside the node, and again when it dies or hangs
"""
